"""Messages of compilers, linkers and systems in other languages than English."""

import re

from flacheck.tables import table

_BY_TEXT = {text: phrase for phrase, texts in table("translations").items() for text in texts}
# The longest first: "erreur fatale :" holds "erreur".
_ANY = re.compile("|".join(map(re.escape, sorted(_BY_TEXT, key=len, reverse=True))))
# The linker's, whose words stand around the name of the library.
_NO_LIBRARY = re.compile(
    r"(?:impossible de trouver|no se puede encontrar|找不到|невозможно найти) (?P<first>-l[\w.+-]+)"
    r"|(?P<second>-l[\w.+-]+) (?:kann nicht gefunden werden|が見つかりません|를 찾을 수 없습니다)"
    r"|kann (?P<third>-l[\w.+-]+) nicht finden"
)
# French has a space in front of a colon, Chinese a wide one.
_COLON = re.compile(r"(?<=\w) : |：\s?")


def translated(log: str) -> str:
    """Return a log with the English form of the messages that have one; lines stay the same."""
    lines = []
    for line in log.split("\n"):
        line = line.replace("错误：", "错误: ")
        if _ANY.search(line) or _NO_LIBRARY.search(line):
            line = _NO_LIBRARY.sub(lambda match: f"cannot find {match[match.lastgroup or 0]}", line)
            line = _COLON.sub(": ", _ANY.sub(lambda match: _BY_TEXT[match[0]], line))
        lines.append(line)
    return "\n".join(lines)
