"""flacheck measure: compiled launches of several releases on this machine's GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import flacheck
from flacheck.cli import common, completion, flags
from flacheck.cli.progress import follow

_SUBJECT = "A launches file (.jsonl), or a bundle that another machine wrote (.bundle)."
_CONFIGS = "Measure one configuration of each launch, or all of them: the quickest counts."
_CAPTURED = "Read the package's captures from FILE, or write them there."
_BUNDLE = "Write the binaries and launches to FILE, for another machine's GPU."
_SEED = "Draw the inputs from this seed."
_FORMAT = "Print the report in this format."
_FORMATS = "table|json|markdown|html"


@common.command(
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
def measure(
    context: typer.Context,
    subject: Annotated[
        Path | None,
        flags.argument(
            metavar="FILE", help=_SUBJECT, complete=completion.files(".jsonl", ".bundle")
        ),
    ] = None,
    package: flags.Package = [],
    kernel: flags.Kernel = [],
    op: flags.Op = [],
    target: flags.Target = [],
    dtype: flags.Dtype = [],
    configs: str = flags.option("usual", panel=flags.WITH, metavar="usual|own", help=_CONFIGS),
    toolchain: flags.Toolchain = [],
    triton: flags.Triton = [],
    torch: flags.Torch = [],
    captured: Path | None = flags.option(
        None, "--captured", panel=flags.HOW, metavar="FILE", help=_CAPTURED
    ),
    jobs: flags.Jobs = 0,
    fresh: flags.Fresh = False,
    trust: flags.Trust = False,
    bundle: Path | None = flags.option(
        None, "--bundle", panel=flags.OUTPUT, metavar="FILE", help=_BUNDLE
    ),
    seed: int = flags.option(0, "--seed", panel=flags.HOW, metavar="N", min=0, help=_SEED),
    store: flags.StoreDir = Path(".flacheck"),
    format: str = flags.option(
        "table", "--format", panel=flags.OUTPUT, metavar=_FORMATS, help=_FORMAT
    ),
    output: flags.Output = None,
) -> int:
    """Measure what releases make slower or wrong on a GPU."""
    from flacheck import reports
    from flacheck.reports import measure as measure_report

    reports.check(format, measure_report.FORMATS)
    with follow() as on_event:
        arguments = common.arguments(context, flacheck.measure)
        measurement = flacheck.measure(**arguments, on_event=on_event)
    if measurement.document is None:
        common.say(
            f"{measurement.launches} launches in {measurement.bundle}; on the GPU's machine: "
            f"flacheck measure {measurement.bundle}"
        )
    else:
        common.show(format, measure_report.report(measurement.document), output)
    return measurement.exit_code
