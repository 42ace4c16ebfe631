"""flacheck doctor: whether this machine can work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flacheck.cli import common
from flacheck.errors import Exit

if TYPE_CHECKING:
    from flacheck.reports.document import Item
    from flacheck.toolchains.doctor import Check


@common.command
def doctor() -> int:
    """Check what flacheck needs of this machine, and say what to do about the rest."""
    from flacheck.reports.document import Report
    from flacheck.toolchains import doctor as checks

    failed = []

    def shown() -> Iterator[Item]:
        """Each check as soon as it is made: some ask the network."""
        for check in checks.checks():
            if not (check.ok or check.optional):
                failed.append(check)
            yield _item(check)

    common.show("table", Report(shown()))
    return Exit.FINDINGS if failed else Exit.OK


def _item(check: Check) -> Item:
    from flacheck.reports.document import Item, Tone

    said = f"{check.name}: {check.detail}"
    if check.ok:
        return Item(f"ok     {said}", Tone.GOOD)
    if check.optional:
        return Item(f"no     {said}", Tone.DOUBT, (check.remedy,))
    return Item(f"FAILS  {said}", Tone.BAD, (check.remedy,))
