"""flacheck scan: compile the cells of a matrix and report what works."""

from pathlib import Path
from typing import Annotated

import flacheck
from flacheck import Exit
from flacheck.api import settings
from flacheck.api.options.commands import ScanOptions
from flacheck.api.options.declaration import PathLike, switch
from flacheck.api.options.groups import MATRIX
from flacheck.cli import common, flags, loudness
from flacheck.cli.progress import follow

# A person at a terminal waits this long for a first answer.
_BUDGET = "3m"
_MATRIX = flags.argument("MATRIX", MATRIX, None, complete="matrices", selects=True)


class ScanCommand(ScanOptions, flags.FullReport, total=False):
    """The options of `flacheck scan`."""

    matrix: Annotated[PathLike | None, _MATRIX]
    dry_run: Annotated[bool, switch("--dry-run", "List the cells; compile nothing.")]


@common.command(
    ScanCommand,
    examples=[
        (
            "Which of these releases is good for my GPU?",
            "flacheck scan --triton 3.2.0,3.3.0,3.7.1 --target h100",
        ),
        (
            "Everything that a package launches, under the releases that torch requires",
            "flacheck scan --package flash-linear-attention==0.4.2 --torch 2.9,2.10 --target h100",
        ),
        (
            "My own kernels, recorded by `flacheck capture`",
            'flacheck scan launches.jsonl --triton ">=3.4"',
        ),
    ],
    exits={
        0: "every cell compiles, or its failures are tolerated or waived",
        1: "a failure that is not tolerated, waived or in the baseline",
        3: "no verdict was reached, or an exact release could not be had",
        4: "the selection is empty",
    },
)
def scan(call: common.Call[ScanCommand]) -> int:
    """Compile kernels under releases, GPUs and dtypes; name failures.

    The report lists what compiles, what fails and why, and which (torch, Triton) pairs are good.
    """
    from flacheck.reports import scan as scan_report

    formats = call.check_output()
    about = call.subject()
    budget = call.options["budget"]
    if budget is None and loudness.moves_cursor():
        budget = _BUDGET
    if not any([*about.values(), call.options["kernel"], call.options["op"]]):
        _show_packages()
    if call.options["dry_run"]:
        return _list_cells(call)
    with follow() as on_event:
        arguments = call.arguments(flacheck.scan, **about, budget=budget)
        run = flacheck.scan(**arguments, on_event=on_event)
    call.show_all(lambda: scan_report.report(run.view, run.baseline), formats)
    return run.exit_code


def _show_packages() -> None:
    """Print the packages with kernels that are installed here, as subjects for a scan."""
    from flacheck.api.nearby import look
    from flacheck.reports import nearby

    here = look(Path.cwd())
    if here is not None:
        common.say(*nearby.sentences(here))


def _list_cells(call: common.Call[ScanCommand]) -> int:
    """Write the cells that a scan would compile; return the exit code."""
    from flacheck.reports import plan as plan_report

    about = call.subject()
    if not call.is_typed("package"):
        settings.check_dry_run(about["package"])
    with follow(resumable=False) as on_event:
        arguments = call.arguments(flacheck.plan_scan, **about)
        plans = flacheck.plan_scan(**arguments, on_event=on_event)
    cells = [cell for plan in plans for cell in plan.cells]
    sizes_from = {cell.key: plan.sizes_from(cell) for plan in plans for cell in plan.cells}
    if call.options["format"] == "table":
        common.write(plan_report.lines(cells, sizes_from), call.options["output"])
    else:
        call.show(plan_report.report([plan.name for plan in plans], cells, sizes_from))
    common.say(f"{len(cells)} cells; nothing was compiled (--dry-run)")
    return Exit.OK
