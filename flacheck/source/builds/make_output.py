"""The output of `make -n`: the commands that a Makefile would run, and their folders."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from flacheck.source.builds.arguments import SUFFIXES, BuildUnits, parse

_ENTERED = re.compile(r"make(?:\[\d+\])?: Entering directory '(.+)'")
_LEFT = re.compile(r"make(?:\[\d+\])?: Leaving directory '.+'")
_COMPILER = re.compile(r"(?:.*/)?(?:nvcc|(?:[\w.]+-)*(?:g\+\+|c\+\+|clang\+\+)(?:-[\d.]+)?)")
# Programs that start a compiler.
_WRAPPERS = frozenset(("ccache", "sccache", "env", "time", "@"))
_ENDS = frozenset(("&&", "||", ";", "|", "&"))


def read(text: str, folder: Path, root: Path) -> BuildUnits:
    """Return the units of the project that printed commands compile; make ran in `folder`."""
    units = []
    folders = [folder]
    for line in re.sub(r"\\\n", " ", text).splitlines():
        entered = _ENTERED.fullmatch(line)
        if entered is not None:
            folders.append(Path(entered[1]))
        elif _LEFT.fullmatch(line) and len(folders) > 1:
            folders.pop()
        else:
            for command, place in _commands(line, folders[-1]):
                for words in _of_each_source(command):
                    unit = parse(words, place, root)
                    if unit is not None:
                        units.append(unit)
    return BuildUnits(tuple(dict.fromkeys(units)))


def _commands(line: str, folder: Path) -> Iterator[tuple[list[str], Path]]:
    """Yield the compilers' commands of a line, each with the folder that it runs in."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.commenters = ""
    # Otherwise a plus sign ends a word, as in -std=c++17.
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        # Text of a message, with a lone quote.
        return
    command: list[str] = []
    for word in [*words, ";"]:
        if word not in _ENDS:
            command.append(word)
            continue
        if len(command) == 2 and command[0] == "cd":
            folder = Path(os.path.normpath(folder / command[1]))
        while command and (command[0] in _WRAPPERS or re.match(r"\w+=", command[0])):
            command = command[1:]
        if command and _COMPILER.fullmatch(command[0]):
            yield command, folder
        command = []


def _of_each_source(command: list[str]) -> Iterator[list[str]]:
    """Yield a command for each source of a command that compiles several."""
    sources = []
    for word in command:
        if word.endswith(SUFFIXES) and not word.startswith("-") and word not in sources:
            sources.append(word)
    for source in sources:
        yield [word for word in command if word == source or word not in sources]
