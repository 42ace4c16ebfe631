"""Ninja files: variables, rules and build statements, as far as a compile takes them."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flacheck.errors import MatrixError
from flacheck.source.builds.arguments import BuildUnit, parse

_ASSIGNMENT = re.compile(r"\s*([\w.-]+)\s*=\s?(.*)")
_REFERENCE = re.compile(r"\$(?:(\$)|([ :])|(\w+)|\{([\w.-]+)\})")
# References within references, deeper than any generator writes them.
_DEEPEST = 10
_LINKS = ("|", "||", "|@")


def read(file: Path, root: Path) -> Sequence[BuildUnit]:
    """The units of the project that a ninja file compiles."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MatrixError(str(file), None, f"cannot be read: {error}") from None
    units = []
    for command in _commands(text):
        try:
            words = shlex.split(command)
        except ValueError:
            continue
        # What a generator writes before and after the compiler itself.
        for part in _split(words):
            unit = parse(part, file.parent, root)
            if unit is not None:
                units.append(unit)
    return units


def _commands(text: str) -> Iterator[str]:
    """The command line of every build statement."""
    shared: dict[str, str] = {}
    rules: dict[str, dict[str, str]] = {}
    for head, own in _statements(text):
        if head.startswith("rule "):
            rules[head.split()[1]] = own
        elif head.startswith("build "):
            outputs, _, rest = head[len("build ") :].replace("$:", "\0").partition(":")
            rule, *inputs = re.split(r"(?<!\$) +", rest.strip()) or [""]
            explicit = _until_links(inputs)
            scope = {**shared, **rules.get(rule, {}), **own}
            scope["in"] = " ".join(explicit).replace("\0", ":")
            scope["out"] = outputs.strip().replace("\0", ":")
            if "command" in scope:
                yield _expanded(scope["command"], scope)
        else:
            assigned = _ASSIGNMENT.fullmatch(head)
            if assigned:
                shared[assigned[1]] = _expanded(assigned[2], shared)


def _statements(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each statement with the variables that are indented below it."""
    head, own = "", dict[str, str]()
    for line in text.replace("$\n", "").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        assigned = _ASSIGNMENT.fullmatch(line)
        if line[0] in " \t" and assigned:
            own[assigned[1]] = assigned[2]
            continue
        if head:
            yield head, own
        head, own = line, {}
    if head:
        yield head, own


def _until_links(inputs: Sequence[str]) -> list[str]:
    """The explicit inputs, which stand before implicit and order-only ones."""
    explicit: list[str] = []
    for word in inputs:
        if word in _LINKS:
            break
        explicit.append(word)
    return explicit


def _expanded(text: str, scope: Mapping[str, str], depth: int = 0) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] or match[2]:
            return match[1] or match[2]
        held = scope.get(match[3] or match[4], "")
        return _expanded(held, scope, depth + 1) if depth < _DEEPEST else ""

    return _REFERENCE.sub(value, text)


def _split(words: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in words:
        if word in ("&&", ";"):
            yield part
            part = []
        else:
            part.append(word)
    yield part
