"""Signatures that an older flacheck computed otherwise: records have today's, and waivers and
baselines by the old one still find what they mean."""

from __future__ import annotations

import pytest

from flacheck import rules
from flacheck.capabilities.gate.result import WaiverUse
from flacheck.errors import Exit
from flacheck.evidence.baseline.comparing import compare
from flacheck.evidence.baseline.form import LINE
from flacheck.evidence.baseline.standings import baseline_of
from flacheck.model import MESSAGE_LIMIT, Record
from flacheck.reports.gate import waiver_item
from flacheck.store import Store
from flacheck.tables.settings.waivers import Waiver
from tests.made_gate import gate, states
from tests.made_records import failure, record, whole

OLD = "FC302:ttgir:-:00000000"
TODAY = failure().signature


def store_failure(store: Store, **more: object) -> Record:
    """The failure as it comes out of a store of an older flacheck."""
    store.add(store.begin_run({}, "m"), failure(signature=OLD, **more))
    (record,) = store.latest()
    return record


def test_a_stored_signature_is_computed_again(store: Store) -> None:
    """From the message; what it was is kept beside it, and JSON has today's alone."""
    record = store_failure(store)
    assert (record.signature, record.formerly) == (TODAY, OLD)
    assert record.to_json() == failure().to_json()
    assert store.failed_with(OLD) == store.failed_with(str(TODAY)) == [record]
    assert store.failed_with("FC302:ttgir:-:11111111") == []


def test_a_record_without_a_message_keeps_its_signature(store: Store) -> None:
    """There is nothing to compute it from."""
    assert store_failure(store, message="").signature == OLD


@pytest.mark.parametrize("length", [MESSAGE_LIMIT - 1, MESSAGE_LIMIT, MESSAGE_LIMIT + 1000])
def test_a_message_that_is_cut_gives_the_same(length: int) -> None:
    """The signature depends on the stored part of a message only."""
    line = "ab " * length
    whole_one = rules.signature(rules.RULES["FC302"].finding(line), "ttgir")
    assert rules.computed_again(whole_one, line[:MESSAGE_LIMIT]) == whole_one


def test_a_waiver_by_the_old_signature_holds_and_says_the_new(store: Store) -> None:
    """The waiver holds, and the report gives the new signature."""
    waiver = Waiver(signature=OLD, reason="known")
    outcome = gate([store_failure(store)], "triton==3.2.0", waivers=(waiver,))
    (match,) = outcome.judged_waivers
    assert (match.use, match.cells, match.renamed) == (
        WaiverUse.ACTIVE,
        1,
        (TODAY,),
    )
    assert f"its signature is {TODAY} today: write that" in waiver_item(match)
    assert outcome.exit_code() is not Exit.FINDINGS
    assert states(outcome)["3.2.0"] != "bad"


def test_a_waiver_by_the_old_signature_sees_what_was_mended(store: Store) -> None:
    """The cell compiles now; the failure is found by the signature of then."""
    store.add(store.begin_run({}, "m"), failure(signature=OLD))
    waiver = Waiver(signature=OLD, reason="known")
    outcome = gate([record()], "triton==3.2.0", waivers=(waiver,), history=list(store.latest()))
    assert outcome.judged_waivers[0].use is WaiverUse.MENDED


def test_a_baseline_with_the_old_signature_knows_the_failure(store: Store) -> None:
    """The failure is matched in stored and in new records, and none counts as mended."""
    old = baseline_of(whole([failure(signature=OLD)]), "0.9")
    for now in (store_failure(store), failure()):
        comparison = compare(old, whole([now]), "b.json", "1.0")
        assert (comparison.new, comparison.known_count, comparison.fixed_failures) == ((), 1, ())


def test_a_baseline_with_a_line_that_is_cut_knows_the_stored_record(store: Store) -> None:
    """A new record does not match a cut line, and the comparison names the other version of
    flacheck."""
    line = "a" * (LINE + 1)
    old = baseline_of(whole([failure(line=line, signature=OLD)]), "0.9")
    comparison = compare(old, whole([store_failure(store, line=line)]), "b.json", "1.0")
    assert (comparison.new, comparison.known_count, comparison.fixed_failures) == ((), 1, ())
    again = compare(old, whole([failure(line=line)]), "b.json", "1.0")
    assert len(again.new) == 1
    assert "a failure may have another signature" in again.notes[0]
