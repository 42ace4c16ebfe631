"""`flacheck.list_cache`, `clean_cache`, `prune_cache`, `remove_runs`: what takes space on disk."""

from __future__ import annotations

from collections.abc import Sequence

from flacheck.api.arguments import duration, texts
from flacheck.api.options.declaration import STORE, PathLike, Texts
from flacheck.errors import UsageError, did_you_mean
from flacheck.model.housekeeping import Action, CacheListing, RunEntry, RunListing
from flacheck.store import Store, StoredRun
from flacheck.toolchains import cache, contents

_DAY = 86_400.0


def list_cache() -> CacheListing:
    """Return the folders of the cache with their sizes and the time since their last use."""
    return CacheListing(folder=str(cache.root()), entries=list(contents.entries()))


def clean_cache(kinds: Texts = (), *, dry_run: bool = False) -> CacheListing:
    """Remove the cache's folders of these kinds, or of every kind; return them.

    Folders that another process uses stay, and are marked. Stored results are not in the cache.

    Args:
        kinds: `toolchains`, `packages`, `captures` …
        dry_run: Only list what would be removed.

    Raises:
        UsageError: If a kind does not exist.
    """
    names = texts(kinds)
    for name in names:
        if name not in contents.KINDS:
            hint = did_you_mean(name, contents.KINDS)
            raise UsageError(f"unknown kind {name!r}: there are {', '.join(contents.KINDS)}{hint}")
    entries = [each for each in contents.entries() if not names or each.kind in names]
    return contents.remove(entries, dry_run)


def prune_cache(older: str | float, *, dry_run: bool = False) -> CacheListing:
    """Remove the cache's folders that no command used for some time; return them.

    Args:
        older: A duration: `30d`, `12h`, or seconds.
        dry_run: Only list what would be removed.

    Raises:
        UsageError: If the duration is malformed.
    """
    limit = duration("older", older) / _DAY
    entries = [each for each in contents.entries() if each.unused_days >= limit]
    return contents.remove(entries, dry_run)


def describe_runs(*, store: PathLike = STORE) -> RunListing:
    """Return the stored runs, oldest first, each with its subject and its number of records.

    Raises:
        UsageError: If the store is missing.
    """
    with Store.open(store, create=False) as open_store:
        counts = open_store.record_counts()
        entries = [_describe(run, counts.get(run.id, 0)) for run in open_store.runs()]
    return RunListing(store=str(store), runs=entries)


def remove_runs(
    runs: str | Sequence[str], *, store: PathLike = STORE, dry_run: bool = False
) -> RunListing:
    """Remove runs with their questions, and the records that no other run contains.

    Args:
        runs: Ids or unique prefixes, or `last`.
        store: The folder of the store.
        dry_run: Only count what would be removed.

    Raises:
        UsageError: If a run or the store is missing.
    """
    names = texts(runs)
    if not names:
        raise UsageError("name the runs to remove: `flacheck runs` lists them")
    action = Action.REMOVE
    if dry_run:
        action = Action.DRY_RUN
    with Store.open(store, create=False) as open_store:
        chosen = {run.id: run for run in map(open_store.run, names)}
        counts = open_store.record_counts()
        entries = [_describe(run, counts.get(run.id, 0)) for run in chosen.values()]
        records = open_store.remove_runs(list(chosen), dry_run)
    return RunListing(store=str(store), action=action, records_removed=records, runs=entries)


def _describe(run: StoredRun, records: int) -> RunEntry:
    about, cells = run.matrix or "-", None
    if run.question is not None:
        about = run.question.name
        numbers = [each.cells for each in run.question.asked]
        # The number of cells is unknown until a capture ends.
        if None not in numbers:
            cells = sum(filter(None, numbers))
    purpose = run.purpose.value
    return RunEntry(run.id, run.started, run.finished, purpose, about, records, cells)
