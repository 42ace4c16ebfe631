"""flacheck measure: compiled launches of several releases on this machine's GPU."""

from pathlib import Path
from typing import Annotated

import flacheck
from flacheck.api.options.commands import MeasureOptions
from flacheck.cli import common, flags
from flacheck.cli.progress import follow

_SUBJECT = "A launches file (.jsonl), or a bundle that another machine wrote (.bundle)."
_FILE = flags.argument("FILE", _SUBJECT, None, kind=Path, complete="measured_files")


class MeasureCommand(MeasureOptions, total=False):
    """The options of `flacheck measure`."""

    subject: Annotated[Path | None, _FILE]
    format: Annotated[str, flags.page_format("table|json|markdown|html")]
    output: flags.Output


@common.command(
    MeasureCommand,
    examples=[
        (
            "What does an upgrade make slower, or wrong, on this GPU?",
            "flacheck measure --package fla-core==0.6.0 --triton 3.6.0,3.7.1",
        ),
        (
            "Compile here for another machine's GPU",
            "flacheck measure launches.jsonl --triton 3.6.0,3.7.1 --bundle fla.bundle",
        ),
        ("Run it there", "flacheck measure fla.bundle"),
    ],
    exits={
        0: "all results agree, or a bundle was written",
        1: "a release computes a wrong result",
        3: "there is no NVIDIA GPU, or nothing could be compared",
        4: "the selection is empty",
    },
)
def measure(call: common.Call[MeasureCommand]) -> int:
    """Measure what releases make slower or wrong on a GPU."""
    from flacheck.reports import measure as measure_report

    with follow() as on_event:
        measurement = flacheck.measure(**call.arguments(flacheck.measure), on_event=on_event)
    if measurement.document is None:
        common.say(
            f"{measurement.launches} launches in {measurement.bundle}; on the GPU's machine: "
            f"flacheck measure {measurement.bundle}"
        )
    else:
        call.show(measure_report.report(measurement.document))
    return measurement.exit_code
