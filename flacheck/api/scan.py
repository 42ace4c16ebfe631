"""`flacheck.scan`: compile the cells of a matrix or a package."""

from __future__ import annotations

from pathlib import Path

from flacheck.api.arguments import (
    STORE,
    PathLike,
    Several,
    Texts,
    check_stage,
    read_baseline,
    run_options,
    selection_of,
    subjects_of,
)
from flacheck.api.baselines import summary_of, update_baseline
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


def scan(
    matrix: PathLike | None = None,
    *,
    package: Texts | PathLike | None = None,
    configs: str | None = None,
    kernel: Several = (),
    op: Several = (),
    target: Several = (),
    dtype: Several = (),
    num_warps: Several = (),
    num_stages: Several = (),
    define: Texts = (),
    options: Texts = (),
    toolchain: Texts = (),
    triton: Texts = (),
    torch: Texts = (),
    jobs: int = 0,
    executor: str = "local",
    cache_from: PathLike | None = None,
    cache_to: PathLike | None = None,
    strategy: str = "all",
    shard: str | None = None,
    captured: PathLike | None = None,
    with_tests: bool = False,
    timeout: str | float = "auto",
    memory: int = 8192,
    until: str | None = None,
    fresh: bool = False,
    max_failures: int | None = None,
    trust: bool = False,
    fallbacks: bool = False,
    fallback_budget: int = 48,
    strict: bool = False,
    store: PathLike = STORE,
    baseline: PathLike | None = None,
    write_baseline: PathLike | None = None,
    on_event: OnEvent | None = None,
) -> Run:
    """Compile the cells of a matrix, a launches file or a package; return the stored run.

    Args:
        matrix: A matrix's name, a YAML file or a launches file; None for `quick`.
        package: `NAME==VERSION` or the folder of a checkout, one or several, instead of a matrix.
        configs: `usual` for one configuration of each usual launch, `edges` for those and a
            few extreme ones, `own` for all; None for `own` up to 1,000 configurations on a
            toolchain and target, else `edges`.
        kernel, op, target, dtype, num_warps, num_stages: The selection, one value or several.
        define, options: Macros and compiler options, each `NAME=VALUE`.
        toolchain, triton, torch: The compilers: `installed`, versions or specifiers.
        jobs: Number of workers; 0 for the number of CPUs.
        executor: `local`, `dask` for a local Dask cluster, or `dask:ADDRESS` of a scheduler.
        cache_from, cache_to: A folder or URL (`s3://`, `https://`) of a shared cache: verdicts
            are read from the first and new ones written to the second.
        strategy: `all` compiles every cell; `adaptive` compiles those that tell the most, and the
            answer is at most screened.
        shard: `I/N` for part I of N, split by cell key.
        captured: A file with the package's captures, which shards share.
        with_tests: Record the launches of a checkout's own tests as well.
        timeout: Seconds for each cell, or `auto`.
        memory: Megabytes for each worker.
        until: The last compiler stage to run.
        fresh: Compile cells again that have a stored result.
        max_failures: Stop after this many failures.
        trust: Install and import the packages that a launches file names.
        fallbacks: Search and compile fallbacks for each failure.
        fallback_budget: Candidates to compile for each failure.
        strict: Unknown cells make the exit code INCOMPLETE.
        store: The folder of the store.
        baseline: A file with known failures, which do not count.
        write_baseline: A baseline file to update with the answer. `baseline` may be missing when
            both name the same file.
        on_event: Receives each event while the cells compile.

    Raises:
        UsageError: If an argument, a matrix or a launches file is wrong.
        EmptySelection: If no cell is left.
        IncompleteError: If the machine or the network cannot answer.
    """
    known_failures = read_baseline(baseline, may_be_missing=baseline == write_baseline)
    project_waivers = settings.waivers(Path.cwd())
    check_stage(until)
    selection = selection_of(
        kernel=kernel,
        op=op,
        target=target,
        dtype=dtype,
        num_warps=num_warps,
        num_stages=num_stages,
        toolchain=toolchain,
        triton=triton,
        torch=torch,
        define=define,
        options=options,
    )
    run = run_options(
        timeout=timeout,
        jobs=jobs,
        executor=executor,
        cache_from=cache_from,
        cache_to=cache_to,
        memory=memory,
        fresh=fresh,
        max_failures=max_failures,
        strategy=strategy,
    )
    if shard is not None and strategy == ADAPTIVE:
        raise UsageError(
            "--strategy adaptive chooses by the results of all cells, and --shard has a part of "
            "them: use --executor dask, or leave out one of the two"
        )
    subjects = subjects_of(matrix, package, trust, configs, captured, with_tests)
    jobs_ = [Job(subject, selection, run, until, shard) for subject in subjects]
    handle = on_event or ignore
    scans = prepare(jobs_, handle)
    budget = fallback_budget if fallbacks else None
    with Store.open(store) as open_store:
        runs = drain(
            scan_all(scans, open_store, excuse_of(project_waivers, known_failures), budget), handle
        )
        library = library_if_intact(handle)
        run_view = view(open_store, runs, project_waivers, known_failures, library)
    comparison = None
    if known_failures is not None:
        comparison = compare(known_failures, run_view.summary.standings, str(baseline), __version__)
    if write_baseline is not None:
        new = update_baseline(write_baseline, run_view.summary.standings)
        handle(Progress(summary_of(write_baseline, new)))
    return Run(run_view, comparison, strict)


def plan_scan(
    matrix: PathLike | None = None,
    *,
    package: Texts | PathLike | None = None,
    configs: str | None = None,
    kernel: Several = (),
    op: Several = (),
    target: Several = (),
    dtype: Several = (),
    num_warps: Several = (),
    num_stages: Several = (),
    define: Texts = (),
    options: Texts = (),
    toolchain: Texts = (),
    triton: Texts = (),
    torch: Texts = (),
    shard: str | None = None,
    captured: PathLike | None = None,
    with_tests: bool = False,
    until: str | None = None,
    trust: bool = False,
    on_event: OnEvent | None = None,
) -> list[Plan]:
    """Return the plan of each subject: the cells that `scan` would compile. Makes no store.

    The launches of a package are captured. Arguments and errors are those of `scan`.
    """
    check_stage(until)
    selection = selection_of(
        kernel=kernel,
        op=op,
        target=target,
        dtype=dtype,
        num_warps=num_warps,
        num_stages=num_stages,
        toolchain=toolchain,
        triton=triton,
        torch=torch,
        define=define,
        options=options,
    )
    subjects = subjects_of(matrix, package, trust, configs, captured, with_tests)
    jobs = [Job(subject, selection, until=until, shard=shard) for subject in subjects]
    return for_each(jobs, planning.plan_job, on_event or ignore)
