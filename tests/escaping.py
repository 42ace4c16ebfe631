"""Probes of the sandbox for tests: bait outside, ways to close, and code that tries them."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from flacheck.guest.engine import channel
from flacheck.guest.engine.escapes import Bait

# landlock_create_ruleset with LANDLOCK_CREATE_RULESET_VERSION.
_LANDLOCK_ABI = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)


def expected(*open_names: str) -> set[str]:
    """Return the ways that this machine can close, as flacheck reports them.

    A mistake of flacheck must not look like a machine without support. `open_names` are left open
    on purpose.
    """
    ways = set()
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    has_filter = actions.is_file() and "errno" in actions.read_text()
    if _LANDLOCK_ABI >= 2:
        ways |= {"reading files", "writing files", "programs", "other processes"}
    if _LANDLOCK_ABI >= 6:
        ways.add("signals")
    if has_filter:
        ways |= {"network", "sockets of services", "limits of processes", "message queues"}
        ways |= {"watching files", "attributes of files"}
    if has_filter and _LANDLOCK_ABI >= 2:
        ways.add("shared memory")
    # Landlock closes the list to what may not read /proc, which a package may.
    if has_namespaces() or (_LANDLOCK_ABI >= 2 and "programs" not in open_names):
        ways.add("connections")
    return ways - set(open_names)


def has_namespaces() -> bool:
    """Return True if this user may make namespaces."""
    command = ["unshare", "--ipc", "--mount", "--net"]
    return any(
        subprocess.run([*command, *more, "true"], capture_output=True).returncode == 0
        for more in ([], ["--map-current-user"])
    )


def code(bait: Bait) -> str:
    """Return Python code after which `closed` holds the names of the ways that are closed to it."""
    guest = channel.GUEST
    return f"""
import importlib.util, sys
if "flacheck_guest" not in sys.modules:
    spec = importlib.util.spec_from_file_location(
        "flacheck_guest", {guest + "/__init__.py"!r}, submodule_search_locations=[{guest!r}]
    )
    sys.modules["flacheck_guest"] = importlib.util.module_from_spec(spec)
from flacheck_guest.engine.escapes import find_closed_ways
closed = [name for name, is_closed in find_closed_ways({bait!r}).items() if is_closed]
"""
