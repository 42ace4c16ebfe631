"""The linker that old releases want for AMD targets and do not bring."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from packaging.version import Version

# Releases from here on link inside libtriton.
BRINGS_ITS_OWN = Version("3.5.0")
# Found by linking a kernel of each release with ld.lld 14, 15, 16 and 19: 3.0.0 to 3.2.0 take all
# of them, 3.3.0 to 3.4.0 write a newer code object, which 14 refuses with "unknown abi version".
NEEDS_15 = Version("3.3.0")
# ROCm puts no linker on the PATH.
ROCM = "/opt/rocm/llvm/bin/ld.lld"
# The newest that Debian and Ubuntu package; looked for from here down to 14.
_NEWEST_NAMED = 22


@dataclass(frozen=True)
class Linker:
    """The path to use (None: not wanted or not there), and why AMD targets cannot be compiled
    without it."""

    path: str | None = None
    problem: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)


def find(version: Version) -> Linker:
    """The linker for a Triton release on this machine."""
    if version >= BRINGS_ITS_OWN:
        return Linker()
    oldest, needed = 1, "ld.lld"
    if version >= NEEDS_15:
        oldest, needed = 15, "ld.lld 15 or newer"
    debian = [f"ld.lld-{major}" for major in range(_NEWEST_NAMED, 13, -1)]
    for path in map(shutil.which, ["ld.lld", *debian, ROCM]):
        if path and _major(path) >= oldest:
            return Linker(path, None, {"TRITON_HIP_LLD_PATH": path})
    problem = f"Triton {version} needs {needed} on the PATH for AMD targets"
    return Linker(problem=f"{problem} (Debian: apt install lld)")


@cache
def _major(path: str) -> int:
    """The major version a linker says it has, 0 when it cannot be run."""
    command = [path, "--version"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    version = re.search(r"LLD (\d+)", said)
    if version is None:
        return 0
    return int(version[1])
