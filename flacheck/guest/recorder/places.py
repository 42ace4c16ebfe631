"""The places where a kernel's functions are defined.

A later reader of the launches file can see from them if a function has changed.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable
from typing import Any

from ..engine.messages import Kernel
from .definitions import Definitions, digest
from .forms import Same
from .launch_description import Identities

Place = dict[str, Any]


class Places:
    """The places of functions, with paths that survive a move.

    `output` is the launches file. The path of a program's file is relative to the folder of that
    file, the path of a package's file to the folder where the package is installed.
    """

    def __init__(self, identities: Identities, output: str) -> None:
        self._identities = identities
        self._folder = os.path.dirname(os.path.realpath(output))
        # By identity, because Python hashes a kernel by all sources that it reads.
        self._places: dict[Same, Place | None] = {}
        # By file: the digest of its text, and its definitions, None if it is not Python.
        self._files: dict[str, tuple[str, Definitions | None]] = {}

    def of(self, functions: Iterable[Kernel]) -> list[Place]:
        """Return the places of functions: name, file, its package, and digests.

        The digests are those of the function and of the whole file. A function without a file, or
        in a copy of flacheck's, is left out.
        """
        places = []
        for function in functions:
            key = Same(function)
            if key not in self._places:
                self._places[key] = self._place(function)
            place = self._places[key]
            if place:
                places.append(place)
        return places

    def _place(self, function: Kernel) -> Place | None:
        code = function.fn.__code__
        file = os.path.realpath(code.co_filename)
        # The folder of Inductor's sources is deleted after the program.
        if function.fn.__module__ == "inductor":
            return None
        if not os.path.isfile(file):
            return None
        if self._identities.is_recorded_package(file):
            return None
        name = function.fn.__qualname__.replace(".<locals>", "")
        whole, definitions = self._read(code.co_filename)
        digest_of_function = definitions and definitions.at(name, code.co_firstlineno)
        if not digest_of_function:
            return None
        package: str | None = None
        folder = self._folder
        installation = self._identities.find_installed(file)
        if installation is not None:
            package, folder = installation
        path = os.path.relpath(file, folder)
        return {
            "name": name,
            "file": path.replace(os.sep, "/"),
            "package": package,
            "digest": digest_of_function,
            "whole": whole,
        }

    def _read(self, file: str) -> tuple[str, Definitions | None]:
        if file not in self._files:
            # The text as it was when the kernel was made: Triton read it then, and linecache keeps
            # it.
            text = "".join(linecache.getlines(file))
            try:
                self._files[file] = digest(text), Definitions(text)
            except (SyntaxError, ValueError, RecursionError):
                self._files[file] = digest(text), None
        return self._files[file]
