"""flacheck autotune: what a release's autotuner makes of a kernel's configurations and keys."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import flacheck
from flacheck import UsageError
from flacheck.cli import common, completion, flags
from flacheck.cli.progress import follow

if TYPE_CHECKING:
    from flacheck import Autotuning

_KERNEL = "A kernel's name, a glob, or a launches file, FILE.jsonl[:LINE]."
_BUDGET = "Try N settings for each failure; 0 looks for no fallbacks."
_EMIT = (
    "Write the configurations that run everywhere: as files for FLA into the folder -o, or as "
    "lists of triton.Config."
)
_BENCH = (
    "Time every compiling configuration on this machine's GPU with the installed Triton. Kernels "
    "of packages and launches files are timed at the recorded sizes."
)
_FORMAT = "Print the report in this format."
_FORMATS = "table|json|markdown|html"


@common.command(
    examples=[
        (
            "What does the autotuner make of these kernels' configurations?",
            "flacheck autotune '*chunk_delta_h:*' --package flash-linear-attention==0.1.1 "
            "--triton 3.1.0,3.2.0",
        ),
        (
            "The same for a recorded program",
            "flacheck autotune 'chunk_*' --launches launches.jsonl",
        ),
    ],
    exits={
        0: "every configuration runs or is skipped, and the keys are right",
        1: "a configuration ends a run, or a key is at fault",
        4: "the selection is empty",
    },
)
def autotune(
    context: typer.Context,
    kernel: Annotated[
        str, flags.argument(metavar="KERNEL", help=_KERNEL, complete=completion.kernels)
    ],
    package: flags.Package = [],
    launches: Path | None = flags.option(
        None,
        panel=flags.WHAT,
        metavar="FILE.jsonl",
        complete=completion.files(".jsonl"),
        help="Examine the kernels of a launches file.",
    ),
    matrix: flags.Matrix = None,
    op: flags.Op = [],
    target: flags.Target = [],
    dtype: flags.Dtype = [],
    toolchain: flags.Toolchain = [],
    triton: flags.Triton = [],
    torch: flags.Torch = [],
    jobs: flags.Jobs = 0,
    fallback_budget: int = flags.option(48, panel=flags.HOW, metavar="N", min=0, help=_BUDGET),
    fresh: flags.Fresh = False,
    trust: flags.Trust = False,
    emit: str | None = flags.option(None, panel=flags.OUTPUT, metavar="fla|python", help=_EMIT),
    bench: bool = flags.option(False, "--bench", panel=flags.HOW, help=_BENCH),
    store: flags.StoreDir = Path(".flacheck"),
    format: str = flags.option(
        "table", "--format", panel=flags.OUTPUT, metavar=_FORMATS, help=_FORMAT
    ),
    output: flags.Output = None,
) -> int:
    """Show how autotuners treat a kernel's configurations and keys."""
    from flacheck import reports
    from flacheck.reports import autotune as autotune_report

    reports.check(format, autotune_report.FORMATS)
    with follow() as on_event:
        arguments = common.arguments(context, flacheck.autotune, **_source(context))
        tuning = flacheck.autotune(**arguments, on_event=on_event)
    if emit is None:
        common.show(format, autotune_report.report(kernel, tuning.results), output)
        return tuning.exit_code
    if emit == "fla":
        _emit_fla(tuning, output or Path("fla-configs"))
    else:
        common.say(*tuning.left_out)
        common.write([tuning.to_python()], output)
    # The report, which lists them otherwise, is not printed.
    common.say(*tuning.findings)
    return tuning.exit_code


def _source(context: typer.Context) -> dict[str, Any]:
    """Return the source options; a typed one replaces the defaults of the others.

    Raises UsageError with --bench for a source that is not typed: its code gets the user's rights.
    """
    names = ("package", "launches", "matrix")
    typed_options = [name for name in names if common.is_typed(context, name)]
    is_file = context.params["kernel"].partition(":")[0].endswith(".jsonl")
    values = dict(context.params)
    if typed_options or is_file:
        values.update({name: None for name in names if name not in typed_options})
    elif context.params["bench"] and any(values[name] for name in names):
        raise UsageError(
            "--bench runs a package with your rights on this machine's card, and settings may come "
            "from a stranger's checkout: name it with --package, --matrix or --launches"
        )
    return {name: values[name] for name in names}


def _emit_fla(tuning: Autotuning, folder: Path) -> None:
    """Write the folder for FLA_CONFIG_DIR; the variables to set go to stdout."""
    from flacheck.reports.autotune import fla_lines

    files = tuning.to_fla()
    common.say(*fla_lines(files))
    files = [file for file in files if file.sizes]
    if not files:
        why = "no configuration runs under every release and target"
        raise UsageError(f"there is nothing to emit: {why}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot be made ({error.strerror}); name another folder with -o"
        raise UsageError(f"{folder}: {why}") from None
    for file in files:
        common.write([file.text()], folder / file.name)
    plural = "" if len(files) == 1 else "s"
    common.say(f"{len(files)} configuration file{plural} for flash-linear-attention in {folder}")
    # A line for `eval`, so it goes to stdout alone. Other modes load configurations for keys that
    # were not examined.
    directory = shlex.quote(str(folder.resolve()))
    common.write([f"export FLA_CONFIG_DIR={directory} FLA_CACHE_MODE=strict\n"], None)
