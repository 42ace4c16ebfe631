"""Which questions a store's scans ask, and on which releases and targets.

A later scan of the same question takes the place of an earlier one: its package was captured again,
or its matrix was edited. Shards ask the whole question, each with the same keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from flacheck.model import Purpose, Question, RequestedCells, RequestedPlace
from flacheck.store import Store, StoredRun

OLD = "the scan was stored by an older flacheck, which kept no question; scan again"
UNFINISHED = "the capture of the package did not end; scan again"


def of_runs(store: Store, runs: Sequence[StoredRun]) -> list[RequestedPlace]:
    """All that these runs ask, each question once on each place; runs that are no scans ask
    nothing. Two scans of one name with different keys stay apart: they are no whole."""
    places: dict[tuple[object, ...], RequestedPlace] = {}
    for run in runs:
        for place in _places(store, run):
            identity = (place.question.scope, place.request.place, place.request.keys, place.note)
            places.setdefault(identity, place)
    captured = {
        (place.question.scope, place.request.place)
        for place in places.values()
        if place.request.keys
    }
    # A capture that was interrupted is overtaken by one that ended.
    kept = [
        place
        for place in places.values()
        if place.note != UNFINISHED or (place.question.scope, place.request.place) not in captured
    ]
    return _with_keys(store, kept)


def in_force(store: Store) -> list[RequestedPlace]:
    """The questions that a decision has to go by: of each the latest keys on every place.

    Runs of an older flacheck count where no later scan asked for the same matrix.
    """
    latest: dict[tuple[object, ...], RequestedPlace] = {}
    for run in reversed(store.runs()):
        # What was compiled with --until is no answer for anybody who compiles to the end.
        if run.question and "until" in run.question.selection:
            continue
        for place in _places(store, run):
            identity = (place.question.scope, place.request.place)
            later = latest.get(identity)
            # A capture that did not end gives way to an earlier one that did.
            if later is None or (later.note == UNFINISHED and place.request.keys):
                latest[identity] = place
    asked_again = {
        (place.question.about, place.request.place)
        for place in latest.values()
        if place.note != OLD
    }
    kept: dict[tuple[object, ...], RequestedPlace] = {}
    for (scope, where), place in latest.items():
        if place.note == OLD and (place.question.about, where) in asked_again:
            continue
        # A copy of a launches file asks the same.
        kept.setdefault((place.request.keys or scope, where), place)
    return _with_keys(store, kept.values())


def _with_keys(store: Store, places: Iterable[RequestedPlace]) -> list[RequestedPlace]:
    return [replace(place, keys=store.key_set(place.request)) for place in places]


def mixed_captures(places: Iterable[RequestedPlace]) -> list[tuple[str, str, str]]:
    """(question, toolchain, target) of which there are different key sets: shards of two captures,
    which do not make a whole."""
    seen: dict[tuple[object, ...], RequestedPlace] = {}
    mixed: dict[tuple[str, str, str], None] = {}
    for place in places:
        first = seen.setdefault((place.question.scope, place.request.place), place)
        known = place.request.keys and first.request.keys
        if known and first.request.keys != place.request.keys:
            toolchain, target = place.request.place
            mixed[place.question.name, toolchain, target] = None
    return list(mixed)


def unfinished_shards(store: Store) -> list[tuple[str, str, str]]:
    """(question, toolchain, target) of which scans asked different cells, and the latest is not
    answered as a whole: shards that do not belong together, most likely."""
    mixed = set(mixed_captures(of_runs(store, store.runs())))
    return [
        (place.question.name, *place.request.place)
        for place in in_force(store)
        if (place.question.name, *place.request.place) in mixed
        and len(list(store.current(place.known_keys))) < len(place.known_keys)
    ]


def _places(store: Store, run: StoredRun) -> Iterator[RequestedPlace]:
    if run.purpose is not Purpose.SCAN:
        return
    question = run.question
    if question is None or any(each.cells and not each.keys for each in question.asked):
        yield from _unasked(store, run)
        return
    for asked in question.asked:
        note = ""
        if asked.keys is None:
            note = UNFINISHED
        yield RequestedPlace(question, asked, None, note=note)


def _unasked(store: Store, run: StoredRun) -> Iterator[RequestedPlace]:
    """The places of a run whose question was not stored: only what it answered is known."""
    about = run.matrix or f"run {run.id}"
    answered: dict[tuple[str, str], list[str]] = {}
    for key, toolchain, target in store.places_of(run.id):
        answered.setdefault((toolchain, target), []).append(key)
    for place, keys in answered.items():
        yield RequestedPlace(Question(about), RequestedCells(*place), None, tuple(keys), OLD)
