"""flacheck init: a project's workflow, settings, hook and baseline."""

import flacheck
from flacheck import Exit
from flacheck.api.options.commands import InitOptions
from flacheck.cli import common
from flacheck.cli.progress import follow


@common.command(
    InitOptions,
    examples=[
        ("What would it write?", "flacheck init --dry-run"),
        ("Set up this project's CI for two GPUs", "flacheck init --target a100,h100"),
    ],
    exits={
        0: "the files are written, and the gate's answer is printed",
        3: "the kernels could not be compiled here; the files are written",
        4: "the folder has neither Triton kernels nor pins of torch or triton",
    },
)
def init(call: common.Call[InitOptions]) -> int:
    """Write a CI workflow, settings, hook and baseline for this project.

    It reads the project's kernels, pins and GPUs, compiles under the newest Triton release that the
    pins allow, and ends with the answer of `flacheck gate`. Existing files stay.
    """
    from flacheck.reports import gate as gate_report

    with follow() as on_event:
        result = flacheck.init(**call.arguments(flacheck.init), on_event=on_event)
    dry_run = call.options["dry_run"]
    for file in result.files:
        if file.obstacle:
            common.say(f"{file.path}: nothing is written: {file.obstacle}")
        elif dry_run:
            common.write([f"# {file.path}\n{file.block}\n"], None)
        else:
            common.say(f"{file.path}: written")
    if result.gate is not None:
        command = result.choices.gate()
        common.show("table", gate_report.report(result.gate, command, False, False))
    common.say(*result.next_steps())
    return Exit.OK
