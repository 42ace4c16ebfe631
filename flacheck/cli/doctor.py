"""flacheck doctor: whether this machine can work."""

from __future__ import annotations

from flacheck.cli import common
from flacheck.errors import Exit


@common.command
def doctor() -> int:
    """Check what flacheck needs of this machine, and say what to do about the rest."""
    from flacheck.toolchains import doctor as checks

    failed = False
    for check in checks.checks():
        failed |= not (check.ok or check.optional)
        word = "ok" if check.ok else "no" if check.optional else "FAILS"
        common.write([f"{word:5}  {check.name}: {check.detail}\n"], None)
        if not check.ok:
            common.write([f"       {check.remedy}\n"], None)
    return Exit.FINDINGS if failed else Exit.OK
