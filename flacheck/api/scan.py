"""`flacheck.scan`: compile the cells of a matrix or a package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flacheck.api.arguments import (
    check_stage,
    read_baseline,
    run_options,
    selection_of,
    subjects_of,
)
from flacheck.api.baselines import summary_of, update_baseline
from flacheck.api.options.commands import PlanOptions, ScanOptions
from flacheck.api.options.declaration import PathLike, takes
from flacheck.api.results import library_if_intact
from flacheck.api.runs import Run
from flacheck.capabilities.scan.scanning import for_each, prepare, scan_all
from flacheck.capabilities.scan.views import excuse_of, view
from flacheck.errors import UsageError
from flacheck.evidence.baseline.comparing import compare
from flacheck.pipeline import planning
from flacheck.pipeline.events import OnEvent, Progress, drain, ignore
from flacheck.pipeline.job import ADAPTIVE, Job
from flacheck.pipeline.plan import Plan
from flacheck.store import Store
from flacheck.tables.settings import settings
from flacheck.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes(ScanOptions)
def scan(
    matrix: PathLike | None = None,
    *,
    on_event: OnEvent | None = None,
    **options: Unpack[ScanOptions],
) -> Run:
    """Compile the cells of a matrix, a launches file or a package; return the stored run.

    The file `baseline` may be missing if `write_baseline` is the same file.

    Args:
        matrix: A matrix's name, a YAML file or a launches file; None for `quick`.
        **options: The options of `flacheck scan`.
        on_event: Receives each event while the cells compile.

    Raises:
        UsageError: If an argument, a matrix or a launches file is wrong.
        EmptySelection: If no cell is left.
        IncompleteError: If the machine or the network cannot answer.
    """
    known_failures = read_baseline(options["baseline"], options["write_baseline"])
    project_waivers = settings.waivers(Path.cwd())
    check_stage(options["until"])
    selection, run = selection_of(options), run_options(options)
    if options["shard"] is not None and run.strategy == ADAPTIVE:
        raise UsageError(
            "--strategy adaptive chooses by the results of all cells, and --shard has a part of "
            "them: use --executor dask, or leave out one of the two"
        )
    jobs = [
        Job(subject, selection, run, options["until"], options["shard"])
        for subject in subjects_of(matrix, options)
    ]
    handle = on_event or ignore
    scans = prepare(jobs, handle)
    budget = options["fallback_budget"] if options["fallbacks"] else None
    with Store.open(options["store"]) as open_store:
        runs = drain(
            scan_all(scans, open_store, excuse_of(project_waivers, known_failures), budget), handle
        )
        library = library_if_intact(handle)
        run_view = view(open_store, runs, project_waivers, known_failures, library)
    comparison = None
    if known_failures is not None:
        standings, file = run_view.summary.standings, str(options["baseline"])
        comparison = compare(known_failures, standings, file, __version__)
    write_baseline = options["write_baseline"]
    if write_baseline is not None:
        new = update_baseline(write_baseline, run_view.summary.standings)
        handle(Progress(summary_of(write_baseline, new)))
    return Run(run_view, comparison, options["strict"])


@takes(PlanOptions)
def plan_scan(
    matrix: PathLike | None = None,
    *,
    on_event: OnEvent | None = None,
    **options: Unpack[PlanOptions],
) -> list[Plan]:
    """Return the plan of each subject: the cells that `scan` would compile. Makes no store.

    The launches of a package are captured. Errors are those of `scan`.

    Args:
        matrix: A matrix's name, a YAML file or a launches file; None for `quick`.
        **options: Those options of `flacheck scan` that select cells.
        on_event: Receives each event of the captures.
    """
    check_stage(options["until"])
    selection = selection_of(options)
    jobs = [
        Job(subject, selection, until=options["until"], shard=options["shard"])
        for subject in subjects_of(matrix, options)
    ]
    return for_each(jobs, planning.plan_job, on_event or ignore)
