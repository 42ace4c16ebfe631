"""What the drivers of CUDA's compilers share: which units are given to a compiler, a unit's
parameters on its command line, and what the assembler says of each function."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from typing import Any

from ..engine.messages import WorkerConfig

# What a shell acts upon within double quotes.
_ACTING = re.compile(r"[`$\"\\\n\r\0]")
_FILE = re.compile(r"[\w./+@=-]+( [\w./+@=-]+)*")
_NAME = re.compile(r"[A-Za-z_]\w*")
# What ptxas says of a function; 12.x toolkits print another start of the line with its frame.
_INFORMATION = re.compile(r"ptxas info\s*:|(?:ptxas\s+\.)?\s+\d+ bytes stack frame")
_FUNCTION = re.compile(
    r"ptxas info\s*: (?:Function properties for|Compiling entry function) '?(\S+?)'?(?: |$)"
)
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"ptxas info\s*: Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_LONGEST_NAME = 200


class UnitRefused(Exception):
    """A unit that is not given to the compiler, and why."""


def check_flag(flag: str) -> str:
    """The flag; UnitRefused where a shell would act on it."""
    if _ACTING.search(flag):
        raise UnitRefused(f"the flag {flag!r} holds what a shell acts upon")
    return flag


def check_file_name(name: str) -> str:
    """The name of a file or folder; UnitRefused where a command line could read it otherwise."""
    if name.startswith(("-", "@")):
        raise UnitRefused(f"a compiler reads the name of a file or folder {name!r} as an option")
    if not _FILE.fullmatch(name):
        raise UnitRefused(f"the name of a file or folder {name!r} holds unusual characters")
    return name


def define(name: str, value: Mapping[str, Any]) -> str:
    """`-DHEAD_DIM=64` for a parameter of the unit; a true or null value defines the name alone."""
    if not _NAME.fullmatch(name):
        raise UnitRefused(f"{name!r} is no name of a macro")
    held = value["constexpr"]
    if held is True or held is None:
        return f"-D{name}"
    if held is False:
        return f"-U{name}"
    return check_flag(f"-D{name}={held}")


def projects(config: WorkerConfig) -> list[Any]:
    """Where units stand: in the packages of a worker, else among our own kernels."""
    return list(config.get("packages", {}).values()) or [{"path": config["corpus"]}]


def write(text: str) -> None:
    """Leave text in the worker's log."""
    left = text.encode(errors="replace")
    while left:
        left = left[os.write(2, left) :]


class FunctionFigures:
    """Registers, stack, spills and shared memory of each function, out of what ptxas prints."""

    def __init__(self) -> None:
        self._functions: dict[str, dict[str, Any]] = {}

    def take(self, line: str) -> bool:
        """Whether the line is one of these figures."""
        if not _INFORMATION.match(line):
            return False
        named = _FUNCTION.match(line)
        if named:
            self._functions.setdefault(named[1], {"name": named[1]})
        if self._functions:
            self._measure(list(self._functions.values())[-1], line)
        return True

    def _measure(self, latest: dict[str, Any], line: str) -> None:
        frame, used = _FRAME.search(line), _USED.match(line)
        if frame:
            latest.update(stack=int(frame[1]), spills=int(frame[2]))
        if used:
            shared = _SHARED.search(line)
            latest["registers"] = int(used[1])
            latest["shared"] = int(shared[1]) if shared else 0

    def resources(self) -> dict[str, Any]:
        """The most that any function asks for, and the figures of each."""
        functions = [each for each in self._functions.values() if "registers" in each]
        if not functions:
            return {}
        names = _demangled([each["name"] for each in functions])
        for each, name in zip(functions, names):
            each["name"] = name[:_LONGEST_NAME]
        figures = ("shared", "registers", "stack", "spills")
        most = {name: max(each.get(name, 0) for each in functions) for name in figures}
        return {**most, "functions": functions}


def _demangled(names: list[str]) -> list[str]:
    """C++ names as people write them, where binutils, which the host compiler needs, is there."""
    try:
        told = subprocess.run(
            ["c++filt"], input="\n".join(names), capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return names
    lines = told.stdout.splitlines()
    return lines if len(lines) == len(names) else names
