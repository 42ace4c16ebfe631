"""Where the functions of a kernel are defined, so that whoever reads the launches file later can
see whether they are still what they were."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable
from typing import Any

from ..engine.messages import Kernel
from .definitions import Definitions, digest
from .launch_description import Identities

Place = dict[str, Any]


class Places:
    """`output` is the launches file. A program's file is named as seen from there, a package's as
    seen from where the package is installed: both folders may stand elsewhere later."""

    def __init__(self, identities: Identities, output: str) -> None:
        self._identities = identities
        self._folder = os.path.dirname(os.path.realpath(output))
        self._known: dict[Kernel, Place | None] = {}
        # By file: the digest of its text, and what it defines, None where that is no Python.
        self._files: dict[str, tuple[str, Definitions | None]] = {}

    def of(self, functions: Iterable[Kernel]) -> list[Place]:
        """Of each function its name, its file, the package of that, and the digests of what the
        function and the whole file say. What has no file, or is a copy of flacheck's, is left
        out."""
        for function in functions:
            if function not in self._known:
                self._known[function] = self._place(function)
        return [place for place in map(self._known.get, functions) if place]

    def _place(self, function: Kernel) -> Place | None:
        code = function.fn.__code__
        file = os.path.realpath(code.co_filename)
        if not os.path.isfile(file) or self._identities.is_recorded_package(file):
            return None
        name = function.fn.__qualname__.replace(".<locals>", "")
        whole, definitions = self._read(code.co_filename)
        said = definitions and definitions.at(name, code.co_firstlineno)
        if not said:
            return None
        package, folder = self._identities.find_installed(file) or (None, self._folder)
        path = os.path.relpath(file, folder).replace(os.sep, "/")
        return {"name": name, "file": path, "package": package, "digest": said, "whole": whole}

    def _read(self, file: str) -> tuple[str, Definitions | None]:
        if file not in self._files:
            # As it was when the kernel was made: Triton read it then, and the lines are kept.
            text = "".join(linecache.getlines(file))
            try:
                self._files[file] = digest(text), Definitions(text)
            except (SyntaxError, ValueError, RecursionError):
                self._files[file] = digest(text), None
        return self._files[file]
