"""Ninja files: variables, rules and build statements, as far as a compile takes them."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flacheck.errors import MatrixError
from flacheck.source.builds.arguments import BuildUnits, parse
from flacheck.source.builds.build_file import read_text

_ASSIGNMENT = re.compile(r"\s*([\w.-]+)\s*=\s?(.*)")
_REFERENCE = re.compile(r"\$(?:(\$)|([ :])|(\w+)|\{([\w.-]+)\})")
# References within references, deeper than any generator writes them.
_DEEPEST = 10
_LINKS = ("|", "||", "|@")
_MOST_BYTES = 64 << 20
# Linux passes no longer command to the shell that ninja starts (MAX_ARG_STRLEN).
_LONGEST = 128 << 10
# Characters and references to which all values of a file may expand, besides a number for each
# character of the file: torch repeats its flags in each command, which comes to a dozen.
_LEAST_BUDGET = 1 << 19
_BUDGET_FACTOR = 50


def read(file: Path, root: Path) -> BuildUnits:
    """Return the units of the project that a ninja file compiles.

    Raises MatrixError where its variables expand to more than a build can use.
    """
    text = read_text(file, root, _MOST_BYTES)
    units = []
    budget = _Budget(file, _LEAST_BUDGET + _BUDGET_FACTOR * len(text))
    for command in _commands(text, budget):
        # Such a long command links thousands of objects and compiles nothing.
        if len(command) > _LONGEST:
            continue
        try:
            words = shlex.split(command)
        except ValueError:
            continue
        # A generator writes other commands before and after the compiler.
        for part in _split(words):
            unit = parse(part, file.parent, root)
            if unit is not None:
                units.append(unit)
    return BuildUnits(tuple(units))


class _Budget:
    """The characters and references that the values of a file may still expand to."""

    def __init__(self, file: Path, rest: int) -> None:
        self._file = file
        self._rest = rest

    def spend(self, amount: int) -> None:
        """Raise MatrixError if the budget is used up."""
        self._rest -= amount
        if self._rest < 0:
            raise MatrixError(
                str(self._file),
                None,
                "its variables expand to more than a build can use",
                "remove variables that repeat each other",
            )


def _commands(text: str, budget: _Budget) -> Iterator[str]:
    """Yield the command line of every build statement."""
    shared: dict[str, str] = {}
    rules: dict[str, dict[str, str]] = {}
    for head, own in _statements(text):
        if head.startswith("rule "):
            rules[head[len("rule ") :].strip()] = own
        elif head.startswith("build "):
            outputs, _, rest = head[len("build ") :].replace("$:", "\0").partition(":")
            rule, *inputs = re.split(r"(?<!\$) +", rest.strip()) or [""]
            explicit = _until_links(inputs)
            scope = {**shared, **rules.get(rule, {}), **own}
            scope["in"] = " ".join(explicit).replace("\0", ":")
            scope["out"] = outputs.strip().replace("\0", ":")
            if "command" in scope:
                yield _expand(scope["command"], scope, budget)
        else:
            assignment = _ASSIGNMENT.fullmatch(head)
            if assignment:
                shared[assignment[1]] = _expand(assignment[2], shared, budget)


def _statements(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each statement with the variables that are indented below it."""
    head, own = "", dict[str, str]()
    for line in text.replace("$\n", "").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        assignment = _ASSIGNMENT.fullmatch(line)
        if line[0] in " \t" and assignment:
            own[assignment[1]] = assignment[2]
            continue
        if head:
            yield head, own
        head, own = line, {}
    if head:
        yield head, own


def _until_links(inputs: Sequence[str]) -> list[str]:
    """Return the explicit inputs, which stand before implicit and order-only inputs."""
    explicit: list[str] = []
    for word in inputs:
        if word in _LINKS:
            break
        explicit.append(word)
    return explicit


def _expand(text: str, scope: Mapping[str, str], budget: _Budget, depth: int = 0) -> str:
    """Return a value with its variables in place."""

    def value(match: re.Match[str]) -> str:
        budget.spend(1)
        character = match[1] or match[2]
        if character:
            return character
        if depth == _DEEPEST:
            return ""
        text = scope.get(match[3] or match[4], "")
        return _expand(text, scope, budget, depth + 1)

    result = _REFERENCE.sub(value, text)
    budget.spend(len(result))
    return result


def _split(words: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in words:
        if word in ("&&", ";"):
            yield part
            part = []
        else:
            part.append(word)
    yield part
