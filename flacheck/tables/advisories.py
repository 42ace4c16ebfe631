"""Known miscompiles: what compiles, runs, and computes the wrong thing. No compile can show them;
they are told."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.tables import table


def of(kernels: Iterable[str], triton: str, target: str) -> list[str]:
    """What is known against some of these kernels under a Triton release on a target, each said
    once."""
    names = list(kernels)
    version = Version(triton)
    return [
        entry["text"]
        for entry in table("advisories")["advisories"]
        if target in entry["targets"]
        and SpecifierSet(entry["triton"]).contains(version, prereleases=True)
        and any(fnmatchcase(name, glob) for name in names for glob in entry["kernels"])
    ]
