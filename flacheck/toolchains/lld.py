"""The linker that old releases require for AMD targets and do not include."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from packaging.version import Version

# Releases from here on link inside libtriton.
BRINGS_ITS_OWN = Version("3.5.0")
# Determined by linking a kernel of each release with ld.lld 14, 15, 16 and 19: 3.0.0 to 3.2.0
# accept all of them, 3.3.0 to 3.4.0 write a newer code object, which 14 rejects with "unknown abi
# version".
NEEDS_15 = Version("3.3.0")
# ROCm puts no linker on the PATH.
ROCM = "/opt/rocm/llvm/bin/ld.lld"
# The newest version that Debian and Ubuntu package; the search goes down to 14.
_NEWEST_NAMED = 22


@dataclass(frozen=True)
class Linker:
    """The path of a linker, or the problem that keeps AMD targets from compiling.

    `path` is None if a linker is not required or missing.
    """

    path: str | None = None
    problem: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)


def find(version: Version) -> Linker:
    """Return the linker for a Triton release on this machine."""
    if version >= BRINGS_ITS_OWN:
        return Linker()
    oldest, requirement = 1, "ld.lld"
    if version >= NEEDS_15:
        oldest, requirement = 15, "ld.lld 15 or newer"
    debian = [f"ld.lld-{major}" for major in range(_NEWEST_NAMED, 13, -1)]
    for path in map(shutil.which, ["ld.lld", *debian, ROCM]):
        if path and _read_major(path) >= oldest:
            return Linker(path, None, {"TRITON_HIP_LLD_PATH": path})
    problem = f"Triton {version} needs {requirement} on the PATH for AMD targets"
    return Linker(problem=f"{problem} (Debian: apt install lld)")


@cache
def _read_major(path: str) -> int:
    """Return the major version of a linker, 0 if it cannot be run."""
    command = [path, "--version"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    version = re.search(r"LLD (\d+)", output)
    if version is None:
        return 0
    return int(version[1])
