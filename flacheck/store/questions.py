"""The questions of a store's scans, with their releases and targets.

A later scan of the same question replaces an earlier one: its package was captured again, or its
matrix was edited. Shards share the whole question and its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from flacheck.model import Purpose, Record, RequestedPlace, Verdict
from flacheck.store import Store, StoredRun

UNFINISHED = "the capture of the package did not end; scan again"


def of_runs(store: Store, runs: Sequence[StoredRun]) -> list[RequestedPlace]:
    """Return all requested places of these runs, each question once on each place.

    Runs other than scans have no questions. Two scans of one name with different keys stay apart,
    because together they are not one capture.
    """
    places: dict[tuple[object, ...], RequestedPlace] = {}
    for run in runs:
        for place in _places(run):
            identity = (place.question.scope, place.request.place, place.request.keys, place.note)
            places.setdefault(identity, place)
    finished_captures = set()
    for place in places.values():
        if place.request.keys:
            finished_captures.add((place.question.scope, place.request.place))
    remaining = []
    for place in places.values():
        where = (place.question.scope, place.request.place)
        # A finished capture replaces an interrupted one.
        if place.note != UNFINISHED or where not in finished_captures:
            remaining.append(place)
    return _with_keys(store, remaining)


def in_force(store: Store) -> list[RequestedPlace]:
    """Return the questions for a decision, each with its latest keys on every place."""
    latest: dict[tuple[object, ...], RequestedPlace] = {}
    for run in reversed(store.runs()):
        # A compile with --until does not count for a question about complete compiles.
        if run.question and "until" in run.question.selection:
            continue
        for place in _places(run):
            identity = (place.question.scope, place.request.place)
            later = latest.get(identity)
            # An earlier finished capture is better than one that did not end.
            if later is None or (later.note == UNFINISHED and place.request.keys):
                latest[identity] = place
    remaining: dict[tuple[object, ...], RequestedPlace] = {}
    for (scope, where), place in latest.items():
        # A copy of a launches file is the same question.
        remaining.setdefault((place.request.keys or scope, where), place)
    return _with_keys(store, remaining.values())


def further_records(store: Store) -> Callable[[RequestedPlace], list[Record]]:
    """Return a lookup of further configurations of a place's launches, and of failures.

    Of commands other than a scan only failures count.
    """

    def find(place: RequestedPlace) -> list[Record]:
        if place.keys is None or place.keys.extent is None:
            return []
        launches = place.keys.extent.launches
        keys = []
        for key, kernel in store.keys_on(*place.request.place).items():
            if kernel in launches:
                keys.append(key)
        scanned_keys = store.keys_of_scans(keys)
        records = list(store.current(scanned_keys.difference(place.keys.kernels)))
        for record in store.latest_records(set(keys) - scanned_keys).values():
            if record.verdict is Verdict.FAILS:
                records.append(record)
        return records

    return find


def _with_keys(store: Store, places: Iterable[RequestedPlace]) -> list[RequestedPlace]:
    return [replace(place, keys=store.key_set(place.request)) for place in places]


def mixed_captures(places: Iterable[RequestedPlace]) -> list[tuple[str, str, str]]:
    """Return (question, toolchain, target) with different key sets.

    They come from shards of two captures, which do not make a whole.
    """
    first_places: dict[tuple[object, ...], RequestedPlace] = {}
    mixed: dict[tuple[str, str, str], None] = {}
    for place in places:
        first = first_places.setdefault((place.question.scope, place.request.place), place)
        are_known = place.request.keys and first.request.keys
        if are_known and first.request.keys != place.request.keys:
            toolchain, target = place.request.place
            mixed[place.question.name, toolchain, target] = None
    return list(mixed)


def unfinished_shards(store: Store) -> list[tuple[str, str, str]]:
    """Return (question, toolchain, target) with shards that probably do not belong together.

    Scans there have different cells, and the latest is not answered completely.
    """
    mixed = set(mixed_captures(of_runs(store, store.runs())))
    shards = []
    for place in in_force(store):
        toolchain, target = place.request.place
        name = (place.question.name, toolchain, target)
        if name not in mixed:
            continue
        records = list(store.current(place.known_keys))
        if len(records) < len(place.known_keys):
            shards.append(name)
    return shards


def _places(run: StoredRun) -> Iterator[RequestedPlace]:
    if run.purpose is not Purpose.SCAN or run.question is None:
        return
    for request in run.question.asked:
        note = ""
        if request.keys is None:
            note = UNFINISHED
        yield RequestedPlace(run.question, request, None, note=note)
