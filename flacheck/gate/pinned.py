"""A pin: what one line of a file admits of torch or Triton."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from flacheck.errors import UsageError
from flacheck.model import Json

NAMES = ("torch", "triton")
_LOCAL = re.compile(r"\+[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Pin:
    """`specifier` is PEP 440, alternatives (Poetry's `||`) separated by ` || `; empty, it admits
    everything.

    `span` holds the offsets of the specifier in its file, or in the string that `keys` lead to in a
    TOML file, and `written` what stands there; `obstacle` says why it cannot be changed there.
    """

    file: str
    line: int | None
    name: str
    specifier: str
    span: tuple[int, int] | None = None
    written: str = ""
    obstacle: str | None = None
    keys: tuple[str | int, ...] | None = None
    ranges: tuple[SpecifierSet, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A torch from PyTorch's own index has the build in its version (2.7.1+cu126): the release
        # is what counts.
        plain = _LOCAL.sub("", self.specifier) if self.name == "torch" else self.specifier
        object.__setattr__(self, "ranges", _ranges(plain, self.where))

    def admits(self, version: str) -> bool:
        """Whether an installer may choose this version; a pre-release only when the pin names one."""
        return any(found.contains(version) for found in self.ranges)

    @property
    def exact(self) -> tuple[str, ...]:
        """The versions that the pin itself names with `==`."""
        clauses = (clause for found in self.ranges for clause in found)
        return tuple(
            c.version for c in clauses if c.operator in ("==", "===") and is_version(c.version)
        )

    @property
    def brings_triton(self) -> bool:
        """Whether a torch so pinned requires Triton: a build for the CPU, ROCm or XPU does not."""
        builds = _LOCAL.findall(self.specifier)
        return not builds or any(build.startswith("+cu") for build in builds)

    @property
    def where(self) -> str:
        """`requirements.txt:3`."""
        return place(self.file, self.line)

    @property
    def said(self) -> str:
        """`triton>=3.4,<3.9`."""
        return self.name + self.specifier

    def to_json(self) -> Json:
        return {
            "file": self.file,
            "line": self.line,
            "name": self.name,
            "specifier": self.specifier,
        }


@dataclass(frozen=True)
class Scope:
    """Pins that hold together: those of a whole file (no `label`), or of one extra or group beside
    those.
    """

    label: str | None
    pins: tuple[Pin, ...]


@dataclass(frozen=True)
class Installation:
    """What one installation is held to; `name` says of which files and of which extra or group."""

    name: str
    pins: tuple[Pin, ...]

    def of(self, name: str) -> tuple[Pin, ...]:
        """The pins of one distribution."""
        return tuple(pin for pin in self.pins if pin.name == name)


def place(file: str, line: int | None) -> str:
    """`requirements.txt:3`, or the file alone."""
    return f"{file}:{line}" if line else file


def _ranges(specifier: str, where: str) -> tuple[SpecifierSet, ...]:
    try:
        found = tuple(map(SpecifierSet, specifier.split("||")))
        for clause in (clause for one in found for clause in one):
            # packaging reads a version when it compares, and its number can be too long to be read.
            clause.contains("0")
    except ValueError:
        raise UsageError(f"{where}: {specifier[:60]} is no version specifier (PEP 440)") from None
    return found


def is_version(text: str) -> bool:
    """Whether this is one version, no wildcard."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def distinct(pins: Iterable[Pin]) -> tuple[Pin, ...]:
    """The pins, each once, in order of appearance."""
    return tuple(dict.fromkeys(pins))
