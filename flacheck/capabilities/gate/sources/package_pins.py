"""Packages with published results that files with pins name, beside torch and Triton."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata

from packaging.version import InvalidVersion, Version

from flacheck.capabilities.gate.pins import Pin


@dataclass(frozen=True)
class PackagePin:
    """A requirement on a package; `version` is None if it admits several versions."""

    name: str
    version: str | None
    where: str

    @property
    def about(self) -> str:
        """`flash-linear-attention==0.6.0 (requirements.txt:3)`."""
        version = f"=={self.version}" if self.version else ""
        return f"{self.name}{version} ({self.where})"


def of_pin(pin: Pin) -> PackagePin:
    """Return the package of a pin, without a version unless the pin has one exact clause."""
    clauses = [clause for alternative in pin.ranges for clause in alternative]
    version = None
    if len(clauses) == 1 and clauses[0].operator in ("==", "==="):
        version = _plain(clauses[0].version)
    return PackagePin(pin.name, version, pin.where)


def installed(names: Collection[str]) -> Iterator[PackagePin]:
    """Yield the packages of these names in the live environment."""
    for name in sorted(names):
        with suppress(metadata.PackageNotFoundError):
            yield PackagePin(name, _plain(metadata.version(name)), "installed")


def _plain(version: str) -> str | None:
    """Return a version as packages write it, without a build; None for `0.6.*`."""
    with suppress(InvalidVersion):
        return Version(version).public
    return None
