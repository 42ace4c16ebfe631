"""Wrong results in the store: a failure of the release, with the launch that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import convert, structs

from flacheck.engine import judge
from flacheck.evidence.measured.results import (
    CardFacts,
    LaunchResult,
    MeasureDocument,
    Result,
    State,
)
from flacheck.model import Json, Purpose, Record
from flacheck.model.wire import JsonStruct, Natural, to_plain
from flacheck.pipeline.measurement.bundle import BundledLaunch
from flacheck.rules import RULES
from flacheck.store import Store

WRONG = "FC706"
# The field of a run's context that holds the launches of its wrong results.
FIELD = "wrong_launches"
# The stage of a failure that no compile shows.
_STAGE = "run"
_GOOD = (State.SAME, State.ROUNDING)


class WrongLaunch(JsonStruct, frozen=True):
    """A launch whose result is wrong under the second of its two variants, beside a right one."""

    launch: BundledLaunch
    seed: Natural


def wrong_record(record: Record, result: Result, card: CardFacts, **facts: Any) -> Record:
    """Return the record of a compile whose binary computes a wrong result on a card."""
    message = f"wrong result on {card.name}, driver {card.driver}: {result.state.value}"
    facts |= {"card": card.name, "state": result.state.value}
    finding = RULES[WRONG].finding(f"{message}\n{result.reason}", facts=facts)
    return judge.fail_on_card(record, finding, _STAGE)


def wrong_records(document: MeasureDocument, records: Mapping[str, Record]) -> Iterator[Record]:
    """Yield the records of wrong results: failures of the release on this card.

    `records` are those of the compiles, by key.
    """
    for _, result in document.wrong:
        if result.key in records:
            yield wrong_record(records[result.key], result, document.card)


def wrong_launches(
    document: MeasureDocument, launches: Sequence[BundledLaunch], seed: int
) -> Iterator[Json]:
    """Yield the launch of each wrong result with a right variant, for a run's context."""
    by_key = {each.key: (own, each) for own in launches for each in own.variants}
    for launch, wrong in document.wrong:
        right = _right_beside(launch, wrong)
        if right is not None and {right.key, wrong.key} <= by_key.keys():
            own, _ = by_key[wrong.key]
            variants = []
            for result in (right, wrong):
                _, variant = by_key[result.key]
                variants.append(structs.replace(variant, binary=None))
            yield to_plain(WrongLaunch(structs.replace(own, variants=tuple(variants)), seed))


def _right_beside(launch: LaunchResult, wrong: Result) -> Result | None:
    """Return a right result in the same configuration, else in any."""
    right = [each for each in launch.results if each.state in _GOOD and not each.is_wrong]
    right.sort(key=lambda each: each.config != wrong.config)
    return next(iter(right), None)


def stored_launch(store: Store, key: str) -> WrongLaunch | None:
    """Return the newest stored launch of a wrong result; None if an older flacheck stored it."""
    newest = None
    for run in store.runs():
        for plain in run.context.get(FIELD, ()) if run.purpose is Purpose.MEASURE else ():
            try:
                own = convert(plain, WrongLaunch)
            except msgspec.ValidationError:
                continue
            if own.launch.variants[-1].key == key:
                newest = own
    return newest
