"""Shared parts of the drivers of CUDA's compilers.

They check which units may be compiled, write a unit's parameters as a command line, and read the
assembler's figures for each function.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from typing import Any

from ..engine.messages import Json, WorkerConfig

# Characters that a shell interprets within double quotes.
_ACTING = re.compile(r"[`$\"\\\n\r\0]")
_FILE = re.compile(r"[\w./+@=-]+( [\w./+@=-]+)*")
_NAME = re.compile(r"[A-Za-z_]\w*")
# ptxas's lines about a function. The line with its frame starts differently in 12.x toolkits.
_INFORMATION = re.compile(r"ptxas info\s*:|(?:ptxas\s+\.)?\s+\d+ bytes stack frame")
_FUNCTION = re.compile(
    r"ptxas info\s*: (?:Function properties for|Compiling entry function) '?(\S+?)'?(?: |$)"
)
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"ptxas info\s*: Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_LONGEST_NAME = 200


class UnitRefused(Exception):
    """A unit that flacheck does not compile, with the reason."""


def check_flag(flag: str) -> str:
    """Return the flag; raise UnitRefused if a shell would interpret it."""
    if _ACTING.search(flag):
        raise UnitRefused(f"the flag {flag!r} holds what a shell acts upon")
    return flag


def check_file_name(name: str) -> str:
    """Return the name; raise UnitRefused if a command line could misread it."""
    if name.startswith(("-", "@")):
        raise UnitRefused(f"a compiler reads the name of a file or folder {name!r} as an option")
    if not _FILE.fullmatch(name):
        raise UnitRefused(f"the name of a file or folder {name!r} holds unusual characters")
    return name


def define(name: str, value: Mapping[str, Any]) -> str:
    """Return the flag for a parameter of the unit, such as `-DHEAD_DIM=64`.

    A true or null value defines the name alone, a false one undefines it.
    """
    if not _NAME.fullmatch(name):
        raise UnitRefused(f"{name!r} is no name of a macro")
    content = value["constexpr"]
    if content is True or content is None:
        return f"-D{name}"
    if content is False:
        return f"-U{name}"
    return check_flag(f"-D{name}={content}")


def projects(config: WorkerConfig) -> list[Any]:
    """Return the roots of units: the packages of a worker, else our own kernels."""
    packages = list(config.get("packages", {}).values())
    if not packages:
        packages.append({"path": config["corpus"]})
    return packages


def write(text: str) -> None:
    """Write text to the worker's log."""
    remaining = text.encode(errors="replace")
    while remaining:
        remaining = remaining[os.write(2, remaining) :]


class FunctionFigures:
    """Registers, stack, spills and shared memory of each function, from ptxas's output."""

    def __init__(self) -> None:
        self._functions: dict[str, Json] = {}

    def take(self, line: str) -> bool:
        """Record the figures in a line; return False if it has none."""
        if not _INFORMATION.match(line):
            return False
        function = _FUNCTION.match(line)
        if function:
            self._functions.setdefault(function[1], {"name": function[1]})
        if self._functions:
            latest = list(self._functions.values())[-1]
            self._measure(latest, line)
        return True

    def _measure(self, latest: Json, line: str) -> None:
        frame, used = _FRAME.search(line), _USED.match(line)
        if frame:
            latest["stack"] = int(frame[1])
            latest["spills"] = int(frame[2])
        if used:
            shared = _SHARED.search(line)
            latest["registers"] = int(used[1])
            latest["shared"] = 0
            if shared:
                latest["shared"] = int(shared[1])

    def resources(self) -> Json:
        """Return the maximum of each figure over all functions, and the figures of each."""
        functions = [each for each in self._functions.values() if "registers" in each]
        if not functions:
            return {}
        names = _demangle([each["name"] for each in functions])
        for each, name in zip(functions, names):
            each["name"] = name[:_LONGEST_NAME]
        resources: Json = {}
        for figure in ("shared", "registers", "stack", "spills"):
            resources[figure] = max(each.get(figure, 0) for each in functions)
        resources["functions"] = functions
        return resources


def _demangle(names: list[str]) -> list[str]:
    """Return C++ names demangled if binutils, which the host compiler needs, is installed."""
    try:
        result = subprocess.run(
            ["c++filt"], input="\n".join(names), capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return names
    lines = result.stdout.splitlines()
    if len(lines) != len(names):
        return names
    return lines
