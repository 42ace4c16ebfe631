"""`flacheck.report`, `flacheck.merge`, `flacheck.list_runs`: stored runs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from flacheck.api.arguments import (
    STORE,
    PathLike,
    Several,
    Texts,
    one_package,
    split,
    subject_of,
    texts,
)
from flacheck.api.runs import Run
from flacheck.capabilities.gate.evidence import RecordFilter
from flacheck.capabilities.scan.views import view
from flacheck.config import settings
from flacheck.errors import UsageError
from flacheck.inputs.subject import Subject
from flacheck.model import Purpose
from flacheck.pipeline.events import OnEvent, Progress, ignore
from flacheck.store import Store, StoredRun, questions


def report(
    runs: str | Sequence[str] = (),
    *,
    matrix: PathLike | None = None,
    package: Texts | PathLike | None = None,
    op: Several = (),
    store: PathLike = STORE,
) -> Run:
    """Return stored runs as one; the last run without any argument.

    Args:
        runs: Ids or unique prefixes.
        matrix, package, op: Choose the last scan about them, instead of `runs`.
        store: The folder of the store.

    Raises:
        UsageError: If a run or the store is missing.
    """
    operators = split(op)
    options_given = [
        name for name, value in zip(("matrix", "package", "op"), (matrix, package, op)) if value
    ]
    run_ids = texts(runs)
    if options_given and run_ids:
        raise UsageError(f"RUN and --{options_given[0]} were given: name one of them")
    with Store.open(store, create=False) as open_store:
        if options_given:
            about = subject_of(matrix, one_package(package, "report"))
            run_ids = (_last_about(open_store, about, operators),)
        return Run(view(open_store, run_ids or ["last"], settings.waivers(Path.cwd())))


def merge(
    stores: PathLike | Sequence[PathLike],
    *,
    store: PathLike = STORE,
    on_event: OnEvent | None = None,
) -> list[int]:
    """Copy the runs of other stores into a store; return the number of new records of each.

    All runs are copied or none. Events name each store, and questions whose shards do not make a
    whole.

    Args:
        stores: The folder of a store, or several.
        store: The folder of the store that receives the runs.
        on_event: Receives a sentence for each store.

    Raises:
        UsageError: If a store is missing or damaged.
    """
    handle = on_event or ignore
    folders = [stores] if isinstance(stores, (str, Path)) else list(stores)
    with contextlib.ExitStack() as stack:
        open_store = stack.enter_context(Store.open(store, create=False))
        others = [stack.enter_context(Store.open(each, create=False)) for each in folders]
        counts = open_store.merge(*others)
        for folder, count in zip(folders, counts, strict=True):
            handle(Progress(f"{count} new records from {folder}"))
        for question, toolchain, target in questions.unfinished_shards(open_store):
            handle(
                Progress(
                    f"{question} on {toolchain}, {target}: these runs ask different cells, so they "
                    "do not make a whole; scan all shards with one --captured FILE"
                )
            )
    return list(counts)


def list_runs(*, store: PathLike = STORE) -> Sequence[StoredRun]:
    """Return the stored runs, oldest first."""
    with Store.open(store, create=False) as open_store:
        return open_store.runs()


def _last_about(store: Store, about: Subject, ops: tuple[str, ...]) -> str:
    """Return the id of the last scan of a subject, or of any, with these operators."""
    record_filter = RecordFilter(about.matrix, about.package)
    anything = about.matrix is None and about.package is None
    for run in reversed(store.runs()):
        if run.question is None or run.purpose is not Purpose.SCAN:
            continue
        same_ops = not ops or tuple(run.question.selection.get("ops", ())) == ops
        if same_ops and (anything or record_filter.is_about(run.question)):
            return run.id
    words = [about.package or about.matrix or "", *(f"--op {each}" for each in ops)]
    options_given = " ".join(filter(None, words))
    raise UsageError(
        f"{store.path}: no scan was about {options_given}; `flacheck report --list` shows what is "
        "stored"
    )
