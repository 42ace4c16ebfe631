"""flacheck repro: a failing cell as a minimal standalone script, verified on every release."""

import flacheck
from flacheck.api.options.commands import ReproOptions
from flacheck.cli import common, flags
from flacheck.cli.progress import follow


class ReproCommand(ReproOptions, flags.ShortFormat, total=False):
    """The options of `flacheck repro`."""

    cell: flags.Cell


@common.command(
    ReproCommand,
    examples=[
        (
            "A bug report for a failing cell of a scan (a key from its report)",
            "flacheck repro a7758764",
        ),
        (
            "Select the cell by flags, and stop after ten minutes",
            "flacheck repro seeds --kernel '*fwd_kernel_o' --triton 3.3.0 --target sm70 "
            "--dtype fp16 --num-warps 4 --budget 10m",
        ),
    ],
    exits={
        0: "the script shows the failure where the kernel has it",
        1: "the failure cannot be reproduced",
        3: "another release behaves differently with the script",
        4: "the selection is empty",
    },
)
def repro(call: common.Call[ReproCommand]) -> int:
    """Reduce a failure to a script that imports only Triton.

    The script is verified on every release, and comes with the text of an issue.
    """
    from flacheck.reports import repro as repro_report

    with follow(resumable=False) as on_event:
        reproduction = flacheck.repro(**call.arguments(flacheck.repro), on_event=on_event)
    if reproduction.result is None:
        common.say("flacheck cannot reduce C++ yet: this is the preprocessed unit and its command")
        common.write([f"{reproduction.folder / name}\n" for name in reproduction.files], None)
    else:
        common.show(
            call.options["format"],
            repro_report.report(reproduction.result, reproduction.folder, list(reproduction.files)),
        )
    return reproduction.exit_code
