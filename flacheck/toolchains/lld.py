"""The linker that old releases want for AMD targets and do not bring."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from packaging.version import Version

# Releases from here on link inside libtriton.
BRINGS_ITS_OWN = Version("3.5.0")
# Found by linking a kernel of each release with ld.lld 14, 15, 16 and 19: 3.0.0 to 3.2.0 take all
# of them, 3.3.0 to 3.4.0 write a newer code object, which 14 refuses with "unknown abi version".
NEEDS_15 = Version("3.3.0")
_NEWEST_NAMED = 22


@dataclass(frozen=True)
class Linker:
    """The path to use (None: not wanted or not there), and why AMD targets cannot be compiled
    without it.
    """

    path: str | None = None
    problem: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)


def find(version: Version) -> Linker:
    """The linker for a Triton release on this machine."""
    if version >= BRINGS_ITS_OWN:
        return Linker()
    oldest = 15 if version >= NEEDS_15 else 1
    for path in _candidates():
        if _major(path) >= oldest:
            return Linker(path, None, {"TRITON_HIP_LLD_PATH": path})
    needed = f"ld.lld {oldest} or newer" if oldest > 1 else "ld.lld"
    return Linker(
        problem=f"Triton {version} needs {needed} on the PATH for AMD targets (Debian: apt install lld)"
    )


def _candidates() -> Iterator[str]:
    """`ld.lld` on the PATH, then Debian's versioned names and ROCm's own."""
    names = [
        "ld.lld",
        *(f"ld.lld-{n}" for n in range(_NEWEST_NAMED, 13, -1)),
        "/opt/rocm/llvm/bin/ld.lld",
    ]
    return (path for path in map(shutil.which, names) if path)


@cache
def _major(path: str) -> int:
    """The major version a linker says it has, 0 when it cannot be run."""
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=10
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r"LLD (\d+)", said)
    return int(found[1]) if found else 0
