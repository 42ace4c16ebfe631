"""Text that others wrote, shown as what it is: names of kernels and what compilers print may hold
anything."""

import re

# What a terminal or a browser acts on instead of showing it: control characters but tabs and line
# breaks, signs that turn the direction of writing or cannot be seen, halves of characters, and the
# further line breaks of Unicode.
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff0-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    """The text with escapes (`\\x1b`, `\\u202e`) in place of what would act and not be seen."""
    return _ACTING.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def fence(text: str, least: int) -> str:
    """One backtick more than stand together anywhere in the text, for Markdown."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(longest + 1, least)


def code_span(text: str) -> str:
    """A line of code in Markdown that may hold backticks itself, as assertions do."""
    marks = fence(text, 1)
    # A blank each keeps a backtick at either end apart; Markdown takes both away again.
    if len(marks) > 1 or text.startswith(" "):
        text = f" {text} "
    return f"{marks}{text}{marks}"
