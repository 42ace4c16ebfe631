"""flacheck doctor: whether this machine can work."""

import flacheck
from flacheck import Exit
from flacheck.cli import common


@common.command
def doctor() -> int:
    """Check this machine; print a remedy for each check that fails."""
    from flacheck.reports.document import Item, Report, Tone

    code = Exit.OK
    for check in flacheck.doctor():
        item = Item(f"ok     {check.name}: {check.detail}", Tone.GOOD)
        if not check.ok and check.optional:
            item = Item(f"no     {check.name}: {check.detail}", Tone.DOUBT, (check.remedy,))
        elif not check.ok:
            code = Exit.FINDINGS
            item = Item(f"FAILS  {check.name}: {check.detail}", Tone.BAD, (check.remedy,))
        # Each as soon as it is made: some checks need the network.
        common.show("table", Report([item]))
    return code
