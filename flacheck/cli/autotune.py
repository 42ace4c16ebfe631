"""flacheck autotune: what a release's autotuner makes of a kernel's configurations and keys."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flacheck.cli import common, flags
from flacheck.errors import Exit, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flacheck.autotune.bench import Bench
    from flacheck.autotune.examined import TunerResult
    from flacheck.autotune.gathering import Gathered
    from flacheck.inputs.expand import Selection

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
_FORMATS = "table|json|markdown"
_EMITTED = ("fla", "python")


@common.command
def autotune(
    context: typer.Context,
    kernel: Annotated[str, typer.Argument(metavar="KERNEL", help=_KERNEL)],
    package: flags.Package = [],
    launches: Path | None = flags.option(
        None, metavar="FILE.jsonl", help="Examine the kernels of a launches file."
    ),
    matrix: flags.Matrix = None,
    op: flags.Op = [],
    target: flags.Target = [],
    dtype: flags.Dtype = [],
    toolchain: flags.Toolchain = [],
    triton: flags.Triton = [],
    torch: flags.Torch = [],
    jobs: flags.Jobs = 0,
    fallback_budget: int = flags.option(48, metavar="N", min=0, help=_BUDGET),
    fresh: flags.Fresh = False,
    trust: flags.Trust = False,
    emit: str | None = flags.option(None, metavar="fla|python", help=_EMIT),
    bench: bool = flags.option(False, "--bench", help=_BENCH),
    store: flags.StoreDir = Path(".flacheck"),
    format: str = flags.option("table", "--format", metavar=_FORMATS, help=_FORMAT),
    output: flags.Output = None,
) -> int:
    """Show how autotuners treat the configurations of KERNEL, and the faults of their keys."""
    from flacheck import reports
    from flacheck.autotune.examination import Examination
    from flacheck.cli.progress import follow
    from flacheck.reports import autotune as autotune_report

    reports.check(format, autotune_report.FORMATS)
    if emit is not None and emit not in _EMITTED:
        raise UsageError(f"--emit {emit}: expected {' or '.join(_EMITTED)}")
    timing = None
    # Before anything is compiled, for without a card there is nothing to time.
    if bench:
        timing = _bench()
        if timing.card.target and not target:
            target = [timing.card.target]
    selection = common.selection([], target, dtype, [], [], [*toolchain, *triton], torch, op)
    gathered = _gathered(context, kernel, selection, package, launches, matrix, trust)
    common.say(*gathered.notes)
    examination = Examination(kernel, gathered, jobs, fresh=fresh)
    try:
        common.say(*(f"before compiling: {line}" for line in examination.ruled_out()))
        follow(examination.records(store), len(examination.plan.cells))
        results = examination.results(store, fallback_budget)
    except KeyboardInterrupt:
        return common.interrupted()
    if timing is not None:
        results = examination.timed(results, timing)
    if emit is None:
        common.show(format, autotune_report.report(kernel, results), output)
    else:
        _emit(emit, results, output)
    return _exit_code(results)


def _bench() -> Bench:
    """What times on this machine's GPU; says which that is."""
    from flacheck.autotune.bench import Bench

    timing = Bench()
    card = timing.card
    common.say(f"timing on {card.name} with Triton {card.triton} and torch {card.torch}")
    return timing


def _exit_code(results: Sequence[TunerResult]) -> int:
    if any(result.is_finding for result in results):
        return Exit.FINDINGS
    if not any(config.fate for result in results for config in result.configs):
        return Exit.INCOMPLETE
    return Exit.OK


def _gathered(
    context: typer.Context,
    kernel: str,
    selection: Selection,
    package: list[str],
    launches: Path | None,
    matrix: str | None,
    trust: bool,
) -> Gathered:
    """The launches of the one source that was named."""
    from flacheck.autotune import gathering
    from flacheck.inputs.subject import line_of
    from flacheck.tables import targets

    names = tuple(targets.find(name).name for name in selection.targets)
    selection = replace(selection, targets=names, kernels=(kernel,))
    named, line = line_of(kernel)
    typed = [name for name in ("package", "launches", "matrix") if common.is_typed(context, name)]
    sources = [f"--{name}" for name in typed]
    # KERNEL may be a file by itself, so flags alone do not say how many there are.
    if named.suffix == ".jsonl":
        sources.append(kernel)
        launches, selection = named, replace(selection, kernels=())
    if len(sources) > 1:
        raise UsageError(f"{' and '.join(sources)} were given: name one of them")
    about = common.subject(context, matrix, package, trust)
    if launches is not None:
        return gathering.of_launches(launches, selection, line, trust)
    if about.package is not None:
        return gathering.of_package(about.package, selection)
    if about.matrix is not None and line_of(about.matrix)[0].suffix == ".jsonl":
        file, line = line_of(about.matrix)
        return gathering.of_launches(file, selection, line, trust)
    return gathering.of_matrix(about.matrix, selection)


def _emit(form: str, results: Sequence[TunerResult], output: Path | None) -> None:
    """Write the configurations that run everywhere, in the form for FLA or as Python."""
    from flacheck.autotune.emit import python

    if form == "fla":
        _emit_fla(results, output or Path("fla-configs"))
    else:
        common.write(python(results), output)


def _emit_fla(results: Sequence[TunerResult], folder: Path) -> None:
    """The folder that FLA_CONFIG_DIR is to name; the variables to set go to stdout."""
    from flacheck.autotune.emit import fla

    written = list(fla(results))
    if not written:
        why = "no configuration runs under every release and target"
        raise UsageError(f"there is nothing to emit: {why}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot be made ({error.strerror}); name another folder with -o"
        raise UsageError(f"{folder}: {why}") from None
    for name, text in written:
        common.write([text], folder / name)
    files = f"{len(written)} configuration files"
    common.say(f"{files} for flash-linear-attention 0.6 or newer in {folder}")
    # A line for `eval`, so it goes to stdout alone.
    directory = shlex.quote(str(folder.resolve()))
    common.write([f"export FLA_CONFIG_DIR={directory} FLA_CACHE_MODE=full\n"], None)
