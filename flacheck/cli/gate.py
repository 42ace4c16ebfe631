"""flacheck gate: the pins of torch and triton against records and advisories."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flacheck.cli import common, flags
from flacheck.cli.flags import option
from flacheck.config import settings
from flacheck.errors import UsageError

# Help must not wait for what judges.
if TYPE_CHECKING:
    from collections.abc import Sequence

    from flacheck.gate.result import GateResult
    from flacheck.gate.sitting import Gating

# What a scan gives a worker that is told nothing else.
MEMORY_MB = 8192

_FILES = (
    "pyproject.toml, requirements or constraints files (one installation together), uv.lock. "
    "Default: every supported file in this directory; if there is none, the installed environment."
)
_SCAN = "Compile allowed releases that have no stored result."
_REFRESH = "Ask the package index for new releases first (--scan does)."
_STRICT = "Exit 1 on an advisory, 3 on a release without a complete record."
_TRITON = "Judge these Triton releases: one more pin beside those of the files."
_TOOLCHAIN = "Judge pins of nvcc (nvidia-cuda-nvcc), or these releases of it: nvcc>=13.0,<13.3."
_TORCH = "Judge these torch releases: one more pin beside those of the files."


@common.command
def gate(
    context: typer.Context,
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILES]", help=_FILES)] = None,
    installed: bool = option(
        False, "--installed", help="Judge the installed environment, not files."
    ),
    suggest: bool = option(False, "--suggest", help="Show the narrowest change that passes."),
    fix: bool = option(False, "--fix", help="Write that change into the files."),
    scan: bool = option(False, "--scan", help=_SCAN),
    refresh: bool = option(False, "--refresh", help=_REFRESH),
    strict: bool = option(False, "--strict", help=_STRICT),
    matrix: flags.Matrix = None,
    package: flags.Package = [],
    kernel: flags.Kernel = [],
    op: flags.Op = [],
    target: flags.Target = [],
    triton: list[str] = option([], metavar="X", help=_TRITON),
    torch: list[str] = option([], metavar="X", help=_TORCH),
    toolchain: list[str] = option([], metavar="NAME[SPEC]", help=_TOOLCHAIN),
    jobs: flags.Jobs = 0,
    store: flags.StoreDir = Path(".flacheck"),
    baseline: flags.BaselineFile = None,
    write_baseline: flags.WriteBaseline = None,
    format: flags.Format = "table",
    output: flags.Output = None,
) -> int:
    """Judge the releases that your pins of triton, torch or nvcc allow, by stored results."""
    from flacheck import reports
    from flacheck.gate import pinned
    from flacheck.gate.evidence import RecordFilter
    from flacheck.gate.judging import Gate
    from flacheck.gate.sitting import Gating, Pinned, advice_on, releases_of
    from flacheck.reports import gate as gate_report
    from flacheck.tables import targets
    from flacheck.toolchains import torch_pins, triton_releases

    reports.check(format)
    if installed and (files or fix):
        raise UsageError("--installed judges the installed environment: leave out FILES and --fix")
    names = tuple(targets.find(name).name for name in common.split(target))
    about = common.subject(context, matrix, package)
    # What a project's scans ask for is no pin of the project.
    given = {"triton": triton, "torch": torch}
    typed = pinned.typed({name: given[name] for name in given if common.is_typed(context, name)})
    typed_toolchain = toolchain if common.is_typed(context, "toolchain") else []
    chosen, compiler_pins = pinned.compiler_pins(typed_toolchain)
    pins = Pinned(tuple(files or ()), installed, (*typed, *compiler_pins))
    # What nobody named is told by the files: Triton where they pin it, or torch, which brings it.
    compiler = chosen or pinned.pinned_compiler(pins.installations())
    selected = (common.split(kernel), names, common.split(op))
    wanted = RecordFilter(about.matrix, about.package, *selected, compiler)
    known = common.baseline(baseline, write_baseline)
    if refresh or scan:
        common.say(*triton_releases.here()[1])
        torch_pins.refresh()
    judge = Gate(
        releases=releases_of(compiler),
        advise=advice_on(compiler),
        targets=names,
        waivers=settings.waivers(Path.cwd()),
        today=date.today(),
        strict=strict,
    )
    gating = Gating(judge, pins, wanted, store, known, baseline)
    result = gating.result()
    if scan and result.gaps:
        try:
            _compile(gating, result.gaps, jobs)
        except KeyboardInterrupt:
            return common.interrupted()
        result = gating.result()
    if fix and _fix(result):
        result = gating.result()
    if write_baseline:
        _update_baseline(write_baseline, gating, result)
    # A job's summary is read where nobody can ask for the changes afterwards.
    changes = suggest or fix or format == "markdown"
    common.show(format, gate_report.report(result, common.as_typed(), changes, strict), output)
    return result.exit_code(strict)


def _compile(gating: Gating, releases: Sequence[str], jobs: int) -> None:
    """Compile for these releases what the gate has no record of."""
    from flacheck.cli.progress import follow
    from flacheck.engine.session import Session
    from flacheck.store import Store

    plan = gating.plan(releases)
    common.say(*plan.warnings)
    with Store.open(gating.store) as opened:
        session = Session(plan, opened, None, jobs, MEMORY_MB)
        follow(session.records(), len(plan.cells))


def _update_baseline(file: Path, gating: Gating, result: GateResult) -> None:
    """Write all that is known of it: a part would take the place of the whole."""
    from flacheck.gate.baseline import accepted

    # What was typed narrows the pins for once; the files' own stay accepted.
    allowed = [] if gating.pinned.typed else accepted(result)
    common.update_baseline(file, gating.standings(), allowed)


def _fix(result: GateResult) -> bool:
    """Write the suggested changes; whether there was any."""
    from flacheck.gate.fix import fix

    written, left = fix(result.suggest)
    for change in written:
        common.say(f"{change.pin.where}: {change.pin.said} is now {change.pin.name}{change.to}")
    for change in left:
        pin = change.pin
        common.say(f"{pin.where}: {pin.said} was left as it is ({pin.obstacle})")
    return bool(written)
