"""flacheck autotune: the effect of a kernel's configurations and keys in a release's autotuner."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import flacheck
from flacheck import UsageError
from flacheck.api.options.commands import AutotuneOptions
from flacheck.cli import common, flags
from flacheck.cli.progress import follow

_KERNEL = "A kernel's name, a glob, or a launches file, FILE.jsonl[:LINE]."


class AutotuneCommand(AutotuneOptions, total=False):
    """The options of `flacheck autotune`."""

    kernel: Annotated[str, flags.argument("KERNEL", _KERNEL, complete="kernels")]
    format: Annotated[str, flags.page_format("table|json|markdown|html")]
    output: flags.Output


@common.command(
    AutotuneCommand,
    examples=[
        (
            "Which configurations does the autotuner run, skip or fail on?",
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
def autotune(call: common.Call[AutotuneCommand]) -> int:
    """Show how autotuners treat a kernel's configurations and keys."""
    from flacheck.reports import autotune as autotune_report

    options = call.options
    with follow() as on_event:
        arguments = call.arguments(flacheck.autotune, **_source(call))
        tuning = flacheck.autotune(**arguments, on_event=on_event)
    if options["emit"] is None:
        call.show(autotune_report.report(options["kernel"], tuning.results))
        return tuning.exit_code
    if options["emit"] == "fla":
        _emit_fla(tuning, options["output"] or Path("fla-configs"))
    else:
        common.say(*tuning.left_out)
        common.write([tuning.to_python()], options["output"])
    # The report, which lists them otherwise, is not printed.
    common.say(*tuning.findings)
    return tuning.exit_code


def _source(call: common.Call[AutotuneCommand]) -> dict[str, Any]:
    """Return the source options; a typed one replaces the defaults of the others.

    Raises UsageError with --bench for a source that is not typed: its code gets the user's rights.
    """
    names = ("package", "launches", "matrix")
    typed_options = [name for name in names if call.is_typed(name)]
    is_file = call.options["kernel"].partition(":")[0].endswith(".jsonl")
    values: dict[str, Any] = {**call.options}
    if typed_options or is_file:
        values.update({name: None for name in names if name not in typed_options})
    elif call.options["bench"] and any(values[name] for name in names):
        raise UsageError(
            "--bench runs a package's kernels on this machine's GPU, and settings may come from a "
            "stranger's checkout: name it with --package or --launches"
        )
    return {name: values[name] for name in names}


def _emit_fla(tuning: "flacheck.Autotuning", folder: Path) -> None:
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
