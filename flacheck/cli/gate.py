"""flacheck gate: the pins of torch and triton against records and advisories."""

from __future__ import annotations

import logging
import shlex
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flacheck.cli import common
from flacheck.cli.common import option
from flacheck.config import settings
from flacheck.errors import EmptySelection, UsageError

# Help must not wait for what judges.
if TYPE_CHECKING:
    from collections.abc import Iterable

    from flacheck.gate.admitted import Releases
    from flacheck.gate.compilers import GatedCompiler
    from flacheck.gate.judging import Advise
    from flacheck.gate.pinned import Installation, Pin
    from flacheck.gate.result import GateResult

_LOG = logging.getLogger(__name__)

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
    matrix: common.Matrix = None,
    package: common.Package = None,
    kernel: common.Kernel = [],
    op: common.Op = [],
    target: common.Target = [],
    triton: list[str] = option([], metavar="X", help=_TRITON),
    torch: list[str] = option([], metavar="X", help=_TORCH),
    toolchain: list[str] = option([], metavar="NAME[SPEC]", help=_TOOLCHAIN),
    jobs: common.Jobs = 0,
    store: common.StoreDir = Path(".flacheck"),
    baseline: common.BaselineFile = None,
    write_baseline: common.WriteBaseline = None,
    format: common.Format = "table",
    output: common.Output = None,
) -> int:
    """Judge the releases that your pins of triton, torch or nvcc allow, by stored results."""
    from flacheck import __version__, reports
    from flacheck.cli.progress import follow
    from flacheck.engine.session import Session
    from flacheck.gate import evidence, pinned
    from flacheck.gate.baseline import accepted, with_baseline
    from flacheck.gate.judging import Gate
    from flacheck.reports import gate as gate_report
    from flacheck.store import Store
    from flacheck.tables import targets
    from flacheck.toolchains import torch_pins, triton_releases

    reports.check(format)
    if installed and (files or fix):
        raise UsageError("--installed judges the installed environment: leave out FILES and --fix")
    names = tuple(targets.find(name).name for name in common.split(target))
    about = common.subject(context, matrix, package)
    kernels, ops = common.split(kernel), common.split(op)
    # What a project's scans ask for is no pin of the project.
    given = {"triton": triton, "torch": torch}
    pins = pinned.typed({name: given[name] for name in given if common.is_typed(context, name)})
    typed_toolchain = toolchain if common.is_typed(context, "toolchain") else []
    chosen, compiler_pins = pinned.compiler_pins(typed_toolchain)
    pins += compiler_pins
    # What nobody named is told by the files: Triton where they pin it, or torch, which brings it.
    compiler = chosen or pinned.pinned_compiler(_installations(files or [], installed, pins))
    wanted = evidence.RecordFilter(about.matrix, about.package, kernels, names, ops, compiler)
    known_before = common.baseline(baseline, write_baseline)
    if refresh or scan:
        common.say(*triton_releases.here()[1])
        torch_pins.refresh()
    judge = Gate(
        releases=_releases(compiler),
        advise=_advise(compiler),
        targets=names,
        waivers=settings.waivers(Path.cwd()),
        today=date.today(),
        strict=strict,
    )

    def judged() -> GateResult:
        installations = _about(compiler, _installations(files or [], installed, pins))
        with evidence.opened(store, wanted) as known:
            if known_before and baseline:
                known = with_baseline(known, known_before, wanted, str(baseline), __version__)
            return judge.judge(installations, known, wanted.about)

    result = judged()
    if scan and result.gaps:
        with evidence.opened(store, wanted) as known:
            asked = wanted.of_only_question(known.standings)
        try:
            plan = asked.plan(result.gaps)
            common.say(*plan.warnings)
            with Store.open(store) as opened:
                session = Session(plan, opened, None, jobs, MEMORY_MB)
                follow(session.records(), len(plan.cells))
        except KeyboardInterrupt:
            return common.interrupted()
        result = judged()
    if fix and _fix(result):
        result = judged()
    if write_baseline:
        # All that is known of it: a part would take the place of the whole.
        whole = replace(wanted, kernels=(), targets=(), ops=())
        with evidence.opened(store, whole) as known:
            # What was typed narrows the pins for once; the files' own stay accepted.
            allowed = [] if pins else accepted(result)
            common.update_baseline(write_baseline, known.standings, allowed)
    # A job's summary is read where nobody can ask for the changes afterwards.
    changes = suggest or fix or format == "markdown"
    typed = shlex.join(["flacheck", *sys.argv[1:]])
    common.show(format, gate_report.report(result, typed, changes, strict), output)
    return result.exit_code(strict)


def _releases(compiler: GatedCompiler) -> Releases:
    """What there is of a compiler; of CUDA toolkits the newest patch release of each minor."""
    from flacheck.gate.admitted import Releases
    from flacheck.gate.compilers import TRITON
    from flacheck.toolchains import nvcc_releases, torch_pins, triton_releases

    if compiler is TRITON:
        return Releases(tuple(triton_releases.known()), torch_pins.pins())
    newest = nvcc_releases.newest_of_minors(nvcc_releases.known())
    return Releases(tuple(map(str, newest)), {}, compiler)


def _advise(compiler: GatedCompiler) -> Advise:
    """Advisories are about releases of Triton."""
    from flacheck.gate.compilers import TRITON
    from flacheck.tables import advisories

    if compiler is TRITON:
        return advisories.of
    return lambda *asked: ()


def _about(compiler: GatedCompiler, installations: Iterable[Installation]) -> list[Installation]:
    """The installations with their pins of a compiler; EmptySelection where there is none."""
    about = [installation.about(compiler) for installation in installations]
    held = [installation for installation in about if installation.pins]
    if not held:
        raise EmptySelection(
            f"nothing here pins {compiler.spoken}: pin {compiler.distribution} in a file, or name "
            f"releases with --toolchain '{compiler.family}>=X'"
        )
    return held


def _installations(
    files: list[Path], installed: bool, typed: tuple[Pin, ...]
) -> list[Installation]:
    """What is held to pins of torch or Triton, those on the command line with each; EmptySelection
    when there is none."""
    from flacheck.gate import pinned, sources

    if files:
        judged = sources.of_files(files)
    elif installed:
        judged = sources.installed()
    else:
        judged = sources.in_folder(Path.cwd())
        if not judged and typed:
            return [pinned.Installation("the command line", typed)]
        if not judged:
            _LOG.warning("no file here pins torch or triton: looking at the live environment")
            judged = sources.installed()
    if not judged:
        where = ", ".join(map(str, files)) or "the live environment"
        why = "neither torch nor triton is pinned there; name a file that does"
        raise EmptySelection(f"{where}: {why}")
    return [replace(each, pins=(*each.pins, *typed)) for each in judged]


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
