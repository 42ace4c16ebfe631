"""`flacheck.report`, `flacheck.merge`, `flacheck.list_runs`: stored runs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flacheck.api.arguments import one_package, split, subject_of, texts
from flacheck.api.options.commands import ReportOptions
from flacheck.api.options.declaration import STORE, PathLike, takes
from flacheck.api.results import library_or_none
from flacheck.api.runs import Run
from flacheck.capabilities.gate.evidence import RecordFilter
from flacheck.capabilities.scan.views import published_view, view
from flacheck.errors import UsageError
from flacheck.evidence.published.answers import why_not_published, widest_entries
from flacheck.evidence.published.evidence import published_evidence
from flacheck.evidence.published.library import nearest, why_not_valid
from flacheck.model import Purpose
from flacheck.pipeline.events import OnEvent, Progress, ignore
from flacheck.source.packages import checkouts
from flacheck.source.packages import package as packages
from flacheck.store import FILE, Store, StoredRun, questions
from flacheck.subjects.inputs.subject import Subject
from flacheck.tables.settings import settings
from flacheck.tables.settings.waivers import Waiver
from flacheck.tables.targets import find as find_target

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes(ReportOptions)
def report(runs: str | Sequence[str] = (), **options: Unpack[ReportOptions]) -> Run:
    """Return stored runs as one; the last run without any argument.

    About a package that no stored scan is about, published results are returned; those of
    `results` alone count.

    Args:
        runs: Ids or unique prefixes.
        **options: The options of `flacheck report`.

    Raises:
        UsageError: If a run or the store is missing.
    """
    operators, results, store = split(options["op"]), options["results"], options["store"]
    matrix, package = options["matrix"], options["package"]
    choices = {"matrix": matrix, "package": package, "op": operators}
    run_ids = texts(runs)
    is_selected = _is_selected(choices, run_ids)
    waived = settings.waivers(Path.cwd())
    about = subject_of(matrix, one_package(package, "report"))
    published: Run | None = None
    no_published = options["no_published"]
    if (about.package or about.matrix) and not operators and not no_published:
        published = _published(about, split(options["target"]), results, waived)
    has_store = (Path(store) / FILE).is_file()
    if published and (results is not None or not has_store):
        return published
    if not (has_store or no_published):
        _refuse_unpublished(about.package, results)
    with Store.open(store, create=False) as open_store:
        if is_selected:
            try:
                run_ids = (_last_about(open_store, about, operators),)
            except UsageError:
                if published is None:
                    raise
                return published
        library = None if no_published else library_or_none(results)
        return Run(view(open_store, run_ids or ["last"], waived, library=library))


def _is_selected(choices: Mapping[str, object], run_ids: Sequence[str]) -> bool:
    """Return True if options select a run; raise UsageError if ids do, too."""
    options_given = [name for name, value in choices.items() if value]
    if options_given and run_ids:
        raise UsageError(f"RUN and --{options_given[0]} were given: name one of them")
    return bool(options_given)


def _refuse_unpublished(package: str | None, results: PathLike | None) -> None:
    """Raise UsageError with the nearest published version, if another version is published."""
    if package is None or checkouts.is_path(package):
        return
    library = library_or_none(results)
    if library is None:
        return
    why = why_not_published(library, ["==".join(packages.parse(package))])
    if why:
        raise UsageError(f"{why}; `flacheck scan --package {package}` compiles here")


def _published(
    subject: Subject,
    targets: Sequence[str],
    results: PathLike | None,
    waived: Sequence[Waiver],
) -> Run | None:
    """Return the published results about a package or matrix as a run; None if there are none.

    Raises:
        UsageError: If a GPU is unknown, or `results` hold nothing about the package.
    """
    if subject.package is not None and checkouts.is_path(subject.package):
        return None
    library = library_or_none(results)
    if library is None:
        return None
    about = subject.matrix or ""
    if subject.package is not None:
        about = "==".join(packages.parse(subject.package))
    names = [find_target(target).name for target in targets]
    places = []
    for entry in widest_entries(library, about, names):
        place = library.place(entry)
        if place is None or why_not_valid(place.header) is not None:
            continue
        places.append(place)
    if places:
        beside = published_evidence(library, [about], names).standings
        return Run(published_view(places, waived, beside))
    if results is not None:
        near = nearest(about, library.abouts)
        hint = f"; the nearest published version is {near}" if near else ""
        raise UsageError(f"{results}: nothing is published about {about}{hint}")
    return None


def merge(
    stores: PathLike | Sequence[PathLike],
    *,
    store: PathLike = STORE,
    on_event: OnEvent | None = None,
) -> list[int]:
    """Copy the runs of other stores into a store; return the number of new records of each.

    All runs are copied or none. Events name each store, and each question whose shards are
    incomplete.

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
