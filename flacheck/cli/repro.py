"""flacheck repro: a failing cell as a minimal standalone script, verified on every release."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from flacheck.cli import common, flags
from flacheck.cli.flags import option
from flacheck.errors import Exit, UsageError

if TYPE_CHECKING:
    from flacheck.inputs.cell import Chosen
    from flacheck.model import Cell
    from flacheck.repro.budget import Budget
    from flacheck.repro.compilers import Compilers
    from flacheck.repro.output.result import Improvement
    from flacheck.repro.reproduction import Reproduction

_BUDGET = re.compile(r"(\d+)(s?)")


@common.command
def repro(
    context: typer.Context,
    cell: flags.Cell = None,
    matrix: flags.Matrix = None,
    package: flags.Package = [],
    kernel: flags.Kernel = [],
    op: flags.Op = [],
    target: flags.Target = [],
    dtype: flags.Dtype = [],
    num_warps: flags.NumWarps = [],
    num_stages: flags.NumStages = [],
    toolchain: flags.Toolchain = [],
    triton: list[str] = option(
        [], metavar="X", help="Select the release that fails: a version, a wheel or a build."
    ),
    torch: list[str] = option([], metavar="X", help="Select the release that fails, by torch."),
    releases: list[str] = option(
        [], metavar="SPEC", help="Verify the script on these releases or builds. Default: all."
    ),
    # Most reductions end by themselves after fewer than 300 compiles.
    budget: str = option(
        "1000", metavar="N|Ns", help="Spend at most N compiles, or N seconds, on the whole command."
    ),
    runs: int = option(3, min=1, metavar="N", help="Run the script N times where it fails."),
    memory: flags.Memory = 8192,
    trust: flags.Trust = False,
    store: flags.StoreDir = Path(".flacheck"),
    format: flags.ShortFormat = "table",
    output: Path | None = option(
        None, "--output", "-o", metavar="DIR", help="Write to DIR. Default: repro-KEY8."
    ),
) -> int:
    """Reduce CELL's failure to a script that imports only Triton, with the text of an issue."""
    from flacheck import reports
    from flacheck.inputs import cell as cells
    from flacheck.model import Purpose
    from flacheck.repro.compilers import Compilers, provided
    from flacheck.store import Store

    reports.check(format, reports.TABLE_OR_JSON)
    allowance = _budget(budget)
    specs = [*toolchain, *triton]
    selection = common.selection(kernel, target, dtype, num_warps, num_stages, specs, torch, op)
    about = common.cells_of(context, cell, matrix, package, trust)
    try:
        with Store.open(store, create=not cells.needs_store(about)) as opened:
            purpose = Purpose.REPRO
            chosen = cells.choose(about, selection, opened, purpose, trust, memory_mb=memory)
        common.say(*chosen.warnings)
        failing = chosen.cell
        folder = output or Path(f"repro-{failing.key[:8]}")
        if failing.kernel.language != "triton":
            return _preprocessed(chosen, folder, memory)
        ready = provided(failing.toolchain, failing.target, releases, triton)
    except KeyboardInterrupt:
        return _nothing("interrupted before there was a compiler to ask")
    with Compilers(ready, chosen.packages, memory, allowance) as compilers:
        try:
            reproduction, interrupted = _begun(failing, compilers)
        except KeyboardInterrupt:
            return _nothing("interrupted again before the original was shown to fail")
        if not interrupted:
            interrupted = _searched(reproduction)
        return _finish(reproduction, runs, interrupted, folder, format)


def _begun(failing: Cell, compilers: Compilers) -> tuple[Reproduction, bool]:
    """The original, shown to fail, and whether the user interrupted that. It is shown all the same,
    for then there is a script to leave; a second Ctrl-C goes on as KeyboardInterrupt."""
    from flacheck.repro.reproduction import begin

    try:
        return begin(failing, compilers), False
    except KeyboardInterrupt:
        common.say(
            "interrupted: showing that the original fails, to leave its script; press Ctrl-C again "
            "to skip this"
        )
        compilers.reset()
        return begin(failing, compilers), True


def _searched(reproduction: Reproduction) -> bool:
    """Search for something smaller; whether the user interrupted that."""
    interrupted = True
    with suppress(KeyboardInterrupt):
        for event in reproduction.search():
            _show(event)
        interrupted = False
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return interrupted


def _nothing(why: str) -> int:
    """Say that nothing is left of a command, and how to begin it again; the exit code."""
    common.say(f"{why}: no file was written. To begin again: {common.as_typed()}")
    return Exit.INTERRUPTED


def _preprocessed(chosen: Chosen, folder: Path, memory: int) -> int:
    """What there is of a unit in C++, which nothing reduces yet."""
    from flacheck.repro import preprocessed
    from flacheck.repro.compilers import Compilers, provided

    cell = chosen.cell
    ready = provided(cell.toolchain, cell.target, [cell.toolchain])
    with Compilers(ready, chosen.packages, memory) as compilers:
        files = preprocessed.write(preprocessed.texts(cell, compilers), folder)
    common.say("flacheck cannot reduce C++ yet: this is the preprocessed unit and its command")
    common.write([f"{path}\n" for path in files], None)
    return Exit.OK


def _budget(text: str) -> Budget:
    """`600` compiles or `120s` seconds."""
    from flacheck.repro.budget import Budget

    match = _BUDGET.fullmatch(text)
    if not match or int(match[1]) == 0:
        expected = "expected a number of compiles (600) or of seconds (120s)"
        raise UsageError(f"--budget {text}: {expected}")
    if match[2]:
        return Budget(seconds=int(match[1]))
    return Budget(compiles=int(match[1]))


def _finish(
    reproduction: Reproduction, runs: int, interrupted: bool, folder: Path, format: str
) -> int:
    """Verify and write the best that was found before the search ended; the exit code."""
    from flacheck.reports import repro as repro_report
    from flacheck.repro.output import files

    if interrupted:
        common.say("interrupted: verifying the best so far; press Ctrl-C again to skip this")
        # Whatever the workers were asked, nobody waits for it any more.
        reproduction.compilers.reset()
    # What was found is on disk before it is verified, for that may be interrupted too.
    drafts = files.write(reproduction.draft(), folder)
    try:
        result = reproduction.finish(runs, everywhere=not interrupted)
    except KeyboardInterrupt:
        common.say(f"interrupted again: wrote {' and '.join(map(str, drafts))}, not verified")
        return Exit.INTERRUPTED
    # Again, for what was verified stands in the text.
    texts = files.contents(result)
    files.write(texts, folder)
    common.show(format, repro_report.report(result, folder, list(texts)))
    if interrupted:
        return Exit.INTERRUPTED
    if not result.reproduced:
        return Exit.FINDINGS
    if result.lost_neighbours:
        return Exit.INCOMPLETE
    return Exit.OK


def _show(event: Improvement) -> None:
    """One line that is written over on a terminal, a line an improvement elsewhere."""
    effort = event.effort
    rate = effort.ran / max(effort.seconds, 1e-3)
    size = f"{event.lines} lines, {event.nodes} nodes"
    text = f"{size} after {effort.ran} compiles, {rate:.1f} a second ({event.by})"
    if sys.stderr.isatty():
        print(f"\r\x1b[Kflacheck: {text}", end="", file=sys.stderr, flush=True)
    else:
        common.say(text)
