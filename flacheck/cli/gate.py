"""flacheck gate: the pins of torch and triton against records and advisories."""

from pathlib import Path
from typing import Annotated

import flacheck
from flacheck.api.options.commands import GateOptions
from flacheck.api.options.declaration import OUTPUT, switch
from flacheck.cli import common, flags
from flacheck.cli.progress import follow

_FILES = (
    "pyproject.toml, requirements or constraints files (one installation together), uv.lock. "
    "Default: every supported file in this directory; if there is none, the installed environment."
)
_SUGGEST = "Show the narrowest change that passes."


class GateCommand(GateOptions, flags.FullReport, total=False):
    """The options of `flacheck gate`."""

    files: Annotated[list[Path], flags.argument("FILES", _FILES, None, kind=list[Path])]
    suggest: Annotated[bool, switch("--suggest", _SUGGEST, OUTPUT)]


@common.command(
    GateCommand,
    examples=[
        ("Are the pins of this project safe?", "flacheck gate --target h100"),
        (
            "In CI, on a machine without stored results",
            "flacheck gate --package . --baseline .flacheck-baseline.json --format github",
        ),
        ("Narrow the pins to what passes", "flacheck gate --scan --fix"),
    ],
    exits={
        0: "every allowed release with a record is good or screened",
        1: "an allowed release fails, or pins contradict each other",
        3: "no allowed release has a complete record; more with --strict",
    },
)
def gate(call: common.Call[GateCommand]) -> int:
    """Judge the releases that your pins of torch and triton allow.

    It judges by stored results, published ones and advisories, and compiles nothing without --scan.
    """
    from flacheck.reports import gate as gate_report

    formats = call.check_output()
    options = call.options
    with follow() as on_event:
        arguments = call.arguments(flacheck.gate, **call.subject())
        result = flacheck.gate(**arguments, on_event=on_event)
    # Readers of a CI job's summary cannot type --suggest.
    changes = options["suggest"] or options["fix"] or options["format"] == "markdown"
    command = common.typed_command()
    call.show_all(lambda: gate_report.report(result, command, changes, options["strict"]), formats)
    return result.exit_code(options["strict"])
