"""Safe display of text from elsewhere.

Names of kernels and output of compilers may hold any characters.
"""

import re

# Characters that a terminal or a browser acts on instead of showing them: control characters other
# than tabs and line breaks, invisible characters, those that change the direction of writing, lone
# surrogates, and the further line breaks of Unicode.
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff0-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    """Return the text with escapes in place of acting and invisible characters."""
    return _ACTING.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def fence(text: str, least: int) -> str:
    """Return more backticks than stand together anywhere in the text, for Markdown."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(longest + 1, least)


def code_span(text: str) -> str:
    """Return a line of code in Markdown; the line may contain backticks, as assertions do."""
    marks = fence(text, 1)
    # Blanks separate a backtick at either end; Markdown removes both again.
    if len(marks) > 1 or text.startswith(" "):
        text = f" {text} "
    return f"{marks}{text}{marks}"
