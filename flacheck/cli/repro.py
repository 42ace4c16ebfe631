"""flacheck repro: a failing cell as a minimal standalone script, verified on every release."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flacheck.cli import common
from flacheck.errors import Exit, UsageError

if TYPE_CHECKING:
    from flacheck.inputs.cells import Chosen
    from flacheck.inputs.expand import Selection
    from flacheck.repro.oracle import Budget
    from flacheck.repro.output.result import Result
    from flacheck.repro.reproduction import Reproduction

_BUDGET = re.compile(r"(\d+)(s?)")
_DEFAULT_BUDGET = "1000"


@common.command
def repro(
    cell: common.Cell = None,
    kernel: common.Kernel = [],
    target: common.Target = [],
    dtype: common.Dtype = [],
    num_warps: common.NumWarps = [],
    num_stages: common.NumStages = [],
    triton: Annotated[
        list[str], typer.Option(help="The release on which the cell fails.", metavar="X")
    ] = [],
    releases: Annotated[
        list[str],
        typer.Option("--releases", help="Verify on these alone; all without it.", metavar="SPEC"),
    ] = [],
    budget: Annotated[
        str, typer.Option(metavar="N|Ns", help="Compiles, or seconds, the reduction may take.")
    ] = _DEFAULT_BUDGET,
    runs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Runs of the script on the failing release.")
    ] = 3,
    memory: common.Memory = 8192,
    trust: common.Trust = False,
    store: common.StoreDir = Path(".flacheck"),
    format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="table or json.")
    ] = "table",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Where the files go; repro-KEY8 without it.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Reduce CELL's failure to a script that imports only Triton, with the text of an issue."""
    from flacheck.repro import at_hand
    from flacheck.repro.compilers import Compilers
    from flacheck.repro.reproduction import Reproduction

    if format not in ("table", "json"):
        raise UsageError(f"unknown format {format!r}: repro knows table and json")
    allowance = _budget(budget)
    selection = common.selection(kernel, target, dtype, num_warps, num_stages, triton)
    with _terminable():
        chosen = _chosen(cell, selection, store, memory, trust)
        package = next(iter(chosen.packages.values()), None)
        with Compilers(at_hand.releases(chosen.cell, releases, common.say), memory) as compilers:
            reproduction = Reproduction(chosen.cell, package, compilers, allowance, runs)
            folder = output or Path(f"repro-{chosen.cell.key[:8]}")
            interrupted = _searched(reproduction)
            result = _verified(reproduction, folder, complete=not interrupted)
    return Exit.INTERRUPTED if result is None else _told(result, folder, format, interrupted)


def _verified(reproduction: Reproduction, folder: Path, complete: bool) -> Result | None:
    """None when interrupted once more; what was found is in the folder all the same."""
    from flacheck.repro.output import files

    drafts = files.save(reproduction.draft(), folder)
    try:
        return reproduction.finish(complete)
    except KeyboardInterrupt:
        reproduction.compilers.reset()
        names = " and ".join(map(str, drafts)) or "nothing"
        common.say(f"interrupted again: {names} was left, and nobody has verified it")
        return None


def _budget(text: str) -> Budget:
    from flacheck.repro.oracle import Budget

    found = _BUDGET.fullmatch(text)
    if not found or int(found[1]) == 0:
        raise UsageError(
            f"--budget {text}: a number of compiles (600) or of seconds (120s) is wanted"
        )
    number = int(found[1])
    return Budget(seconds=number) if found[2] else Budget(compiles=number)


def _chosen(
    cell: str | None, selection: Selection, store: Path, memory: int, trust: bool
) -> Chosen:
    from flacheck.inputs import cells
    from flacheck.scan.session import Session
    from flacheck.store import Store

    with Store.open(store, create=not cells.needs_store(cell)) as opened:
        chosen = cells.choose(
            cell,
            selection,
            opened,
            lambda plan: Session(plan, opened, None, 0, memory, False, purpose="repro").records(
                common.say
            ),
            common.say,
            trust,
        )
    for warning in chosen.warnings:
        common.say(warning)
    return chosen


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends a reduction as Ctrl-C does: with what there is."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _searched(reproduction: Reproduction) -> bool:
    """Run the search and tell how far it is; whether it was interrupted."""
    from flacheck.cli.progress import steps

    try:
        with steps() as told:
            for progress in reproduction.steps():
                told(progress)
    except KeyboardInterrupt:
        common.say("interrupted: verifying the best so far; once more to leave without it")
        reproduction.compilers.reset()
        return True
    return False


def _told(result: Result, folder: Path, format: str, interrupted: bool) -> int:
    from flacheck.repro.output import files
    from flacheck.repro.wording import summary

    written = files.write(result, folder)
    if format == "json":
        text = (
            json.dumps(
                result.to_json([file.name for file in written]), indent=2, ensure_ascii=False
            )
            + "\n"
        )
        common.write([text], None)
    else:
        common.write((f"{line}\n" for line in summary(result, folder)), None)
    if interrupted:
        return Exit.INTERRUPTED
    return Exit.OK if result.reproduced else Exit.FINDINGS
