"""flacheck doctor: whether this machine can work."""

import flacheck
from flacheck import Exit
from flacheck.cli import common, flags, loudness


@common.command(
    flags.EveryCommand,
    examples=[
        ("Is this machine ready for flacheck?", "flacheck doctor"),
        ("Only failed checks", "flacheck doctor --quiet"),
    ],
    exits={
        0: "every required check passes",
        1: "a check fails",
    },
)
def doctor(_: common.Call[flags.EveryCommand]) -> int:
    """Check this machine; print a remedy for each failed check."""
    from flacheck.reports.document import Item, Report, Tone

    code = Exit.OK
    for check in flacheck.doctor():
        item = Item(f"ok     {check.name}: {check.detail}", Tone.GOOD)
        if not check.ok and check.optional:
            item = Item(f"no     {check.name}: {check.detail}", Tone.DOUBT, (check.remedy,))
        elif not check.ok:
            code = Exit.FINDINGS
            item = Item(f"FAILS  {check.name}: {check.detail}", Tone.BAD, (check.remedy,))
        if check.ok and loudness.is_quiet():
            continue
        # Each as soon as it is made: some checks need the network.
        common.show("table", Report([item]))
    return code
