"""flacheck diff: what changes between two releases, or two sets of stored results."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flacheck.cli import common, flags
from flacheck.cli.flags import option
from flacheck.config import settings

if TYPE_CHECKING:
    from flacheck.model import Record

_FROM = "torch==2.9.*, triton==3.5.1, installed, newest, run:ID, a launches file, or a run's JSON."
_TO = "The same, for the other side."
_CONFIGS = (
    "Compare one configuration of each kernel and dtype (usual), or all of them (own). Default: "
    "usual."
)
_STRICT = "Exit 3 when a kernel has no verdict or is not launched any more."


@common.command
def diff(
    context: typer.Context,
    from_: Annotated[str, typer.Argument(metavar="FROM", help=_FROM)],
    to: Annotated[str, typer.Argument(metavar="TO", help=_TO)],
    package: flags.Package = [],
    matrix: flags.Matrix = None,
    configs: str | None = option(None, metavar="usual|own", help=_CONFIGS),
    kernel: flags.Kernel = [],
    op: flags.Op = [],
    target: flags.Target = [],
    dtype: flags.Dtype = [],
    num_warps: flags.NumWarps = [],
    num_stages: flags.NumStages = [],
    define: flags.Define = [],
    options: flags.Option = [],
    triton: list[str] = option([], metavar="X", help="Choose this release of stored results."),
    jobs: flags.Jobs = 0,
    timeout: flags.Timeout = "auto",
    memory: flags.Memory = 8192,
    fresh: flags.Fresh = False,
    trust: flags.Trust = False,
    strict: bool = option(False, "--strict", help=_STRICT),
    store: flags.StoreDir = Path(".flacheck"),
    format: flags.Format = "table",
    output: flags.Output = None,
) -> int:
    """Say what changes between FROM and TO; compile what has no stored result.

    Example: flacheck diff 'torch==2.9.*' 'torch==2.12.*' --package flash-linear-attention==0.4.2
    --target h100
    """
    from contextlib import nullcontext

    from flacheck import reports
    from flacheck.cli.progress import follow
    from flacheck.config import waivers
    from flacheck.diff import asking, sides
    from flacheck.diff.session import Comparing
    from flacheck.reports import diff as diff_report
    from flacheck.store import Store

    reports.check(format)
    common.check_configs(configs)
    seconds = common.seconds(timeout)
    # A project's releases are what its scans ask; FROM and TO name these here.
    if not common.is_typed(context, "triton"):
        triton = []
    chosen_flags = (kernel, target, dtype, num_warps, num_stages, triton)
    selection = common.selection(*chosen_flags, op=op, define=define, options=options)
    before, after = sides.read(from_, store), sides.read(to, store)
    common.say(*sides.notes(before), *sides.notes(after))
    subject = common.subject(context, matrix, package, trust, configs)
    # A stored run and a launches file come before what a project is about.
    chosen = common.is_typed(context, "package") or common.is_typed(context, "matrix")
    asked = asking.ask(before, after, subject, chosen, selection)
    common.say(*asked.warnings)
    valid = waivers.in_force(settings.waivers(Path.cwd()), date.today())

    def waives(record: Record) -> bool:
        return waivers.waived(valid, record)

    # Two stored results are compared without a store.
    opening = nullcontext(None) if asked.plan is None else Store.open(store)
    with opening as opened:
        comparing = Comparing(asked, opened, waives, seconds, jobs, memory, fresh)
        try:
            if comparing.total:
                follow(comparing.records(), comparing.total)
        except KeyboardInterrupt:
            return common.interrupted()
        result = comparing.result()
    common.show(format, diff_report.report(result, common.as_typed()), output)
    return result.exit_code(strict)
