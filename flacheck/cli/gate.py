"""flacheck gate: the pins of torch and Triton against records and advisories."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flacheck.cli import common, settings
from flacheck.errors import EmptySelection, UsageError

MEMORY_MB = 8192

if TYPE_CHECKING:
    from flacheck.gate.evidence import Evidence, RecordFilter
    from flacheck.gate.judging import Gate
    from flacheck.gate.pinned import Installation
    from flacheck.gate.result import GateResult


@common.command
def gate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILES]",
            help="pyproject.toml, requirements or constraints files (one installation together), uv.lock; "
            "without any each that is found here, else the live environment.",
        ),
    ] = None,
    installed: Annotated[
        bool, typer.Option("--installed", help="The live environment instead of files.")
    ] = False,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Show the narrowest change that passes.")
    ] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Write that change into the files.")] = False,
    scan: Annotated[
        bool, typer.Option("--scan", help="Compile for the admitted releases without a record.")
    ] = False,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh", help="Ask the package index for new releases first (--scan does)."
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="An advisory exits 1, an untested release 3.")
    ] = False,
    matrix: Annotated[
        str | None,
        typer.Option(metavar="MATRIX", help="Only records of this matrix; --scan compiles it."),
    ] = None,
    package: Annotated[
        str | None,
        typer.Option(
            metavar="NAME==VERSION", help="Only records of this package; --scan captures it."
        ),
    ] = None,
    kernel: common.Kernel = [],
    target: common.Target = [],
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            min=0,
            metavar="N",
            show_default=False,
            help="Workers of --scan at once.",
            envvar="FLACHECK_JOBS",
        ),
    ] = 0,
    store: common.StoreDir = Path(".flacheck"),
    format: common.Format = "table",
    output: common.Output = None,
) -> int:
    """Judge the Triton releases that the pins of torch and triton admit, by what was compiled
    before.
    """
    from flacheck import reports
    from flacheck.gate.evidence import RecordFilter

    reports.check(format)
    if installed and (files or fix):
        raise UsageError(
            "--installed looks at the live environment: it takes no files and there is nothing to --fix"
        )
    asked = RecordFilter(matrix, package, common.split(kernel), _targets(target))
    judge = _gate(asked, strict, refresh or scan)

    warn = cache(common.say)  # once each, though the files are read again after a scan or a fix

    def judged() -> GateResult:
        return judge.outcome(
            _read(files or [], installed, warn), _evidence(store, asked), asked.about
        )

    outcome = judged()
    try:
        outcome = judged() if scan and _fill(outcome, asked, store, jobs) else outcome
    except KeyboardInterrupt:
        return common.interrupted()
    if fix and _fix(outcome):
        outcome = judged()
    _show(outcome, format, suggest or fix, strict, output)
    return outcome.exit_code(strict)


def _targets(names: list[str]) -> tuple[str, ...]:
    from flacheck.tables import targets

    return tuple(targets.find(name).name for name in common.split(names))


def _gate(asked: RecordFilter, strict: bool, refresh: bool) -> Gate:
    from flacheck.gate.admitted import Releases
    from flacheck.gate.judging import Gate
    from flacheck.tables import advisories
    from flacheck.toolchains import torch_pins as pins
    from flacheck.toolchains import triton_releases

    if refresh:
        for warning in triton_releases.here()[1]:
            common.say(warning)
        pins.refresh()
    releases = Releases(tuple(triton_releases.known()), pins.pins())
    return Gate(releases, advisories.of, asked.targets, settings.waivers(), date.today(), strict)


def _read(files: list[Path], installed: bool, warn: Callable[[str], None]) -> list[Installation]:
    """What is held to pins of torch or Triton; EmptySelection when there is none."""
    from flacheck.gate import sources

    if installed or files:
        found = sources.installed() if installed else sources.named(files, warn)
    else:
        found = sources.found(Path.cwd(), warn)
        if not found:
            warn("no file here pins torch or triton: looking at the live environment")
            found = sources.installed()
    if not found:
        where = ", ".join(map(str, files)) or "the live environment"
        raise EmptySelection(
            f"{where}: neither torch nor triton is pinned there; name a file that does"
        )
    return found


def _evidence(store: Path, asked: RecordFilter) -> Evidence:
    from flacheck.gate import evidence
    from flacheck.store import Store

    if not evidence.exists(store):
        return evidence.Evidence()
    with Store.open(store, create=False) as opened:
        return evidence.of_store(opened, asked)


def _fill(outcome: GateResult, asked: RecordFilter, store: Path, jobs: int) -> bool:
    """Compile what was asked under the admitted releases that have no verdict; whether there were
    any.
    """
    from flacheck.cli.progress import watch
    from flacheck.gate import gaps
    from flacheck.scan import session
    from flacheck.store import Store

    missing = gaps.missing(outcome)
    if not missing:
        return False
    plan = gaps.plan(asked, missing, common.say)
    for warning in plan.warnings:
        common.say(warning)
    with Store.open(store) as opened:
        running = session.Session(
            plan, opened, None, jobs, MEMORY_MB, fresh=False, max_failures=None
        )
        with watch(len(plan.cells)) as seen:
            for record in running.records(seen.say):
                seen(record)
    return True


def _fix(outcome: GateResult) -> bool:
    """Write the suggested changes; whether there was any."""
    from flacheck.gate import fix

    written, left = fix.fix(outcome.suggest)
    for change in written:
        common.say(f"{change.pin.where}: {change.pin.said} is now {change.pin.name}{change.to}")
    for change in left:
        common.say(
            f"{change.pin.where}: {change.pin.said} was left as it is ({change.pin.obstacle})"
        )
    return bool(written)


def _show(
    outcome: GateResult, format: str, suggest: bool, strict: bool, output: Path | None
) -> None:
    from flacheck.gate import formats
    from flacheck.reports import Page

    page = Page() if output else Page.of_stdout()
    common.write(formats.render(format, outcome, page, suggest, strict), output)
