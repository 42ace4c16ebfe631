"""Hyperlinks of terminals (OSC 8): a code opens its upstream issue, a file name the file."""

import re
from pathlib import Path

from flacheck.rules import RULES

_CODE_OR_FILE = re.compile(
    r"(?P<code>\bFC\d{3}\b)"
    r"|(?P<file>(?<![\w./~-])[\w./-]+\.(?:py|cu|cuh|toml|txt|lock|ya?ml|jsonl?|html|xml|md))(?![\w/])"
)


def add_links(line: str) -> str:
    """Return a line of a terminal with links at codes and existing files; its width is the same."""
    return _CODE_OR_FILE.sub(_link, line)


def _link(match: re.Match[str]) -> str:
    text = match[0]
    url = _url_of_code(text) if match["code"] else _url_of_file(text)
    if url is None:
        return text
    return f"\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\"


def _url_of_code(code: str) -> str | None:
    rule = RULES.get(code)
    if rule is None:
        return None
    return next(iter(rule.links), None)


def _url_of_file(name: str) -> str | None:
    try:
        path = Path(name).absolute()
        if path.is_file():
            return path.as_uri()
    except (OSError, ValueError):
        pass
    return None
