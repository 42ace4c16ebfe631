"""Waivers: scope, expiry and errors."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from flacheck.capabilities.scan import views as session
from flacheck.errors import Exit, UsageError
from flacheck.evidence.analysis.context import Context
from flacheck.evidence.analysis.exit_code import exit_code
from flacheck.evidence.analysis.observation import observe
from flacheck.evidence.analysis.summary import summarise
from flacheck.evidence.baseline.standings import baseline_of
from flacheck.store import Store
from flacheck.tables.settings import waivers
from flacheck.tables.settings.waivers import Waiver
from tests.made_records import failure, record, whole

BROKEN = failure(options={"num_warps": 8})


@pytest.mark.parametrize(
    ("entry", "covers"),
    [
        ({"signature": BROKEN.signature}, True),
        ({"signature": "FC302:other"}, False),
        ({"kernel": "chunk_gated_*"}, True),
        ({"kernel": "fla.ops.common.chunk_delta_h:*"}, True),
        ({"kernel": "delta"}, False),
        ({"kernel": "chunk_gated_*", "signature": BROKEN.signature}, True),
        ({"kernel": "other", "signature": BROKEN.signature}, False),
    ],
)
def test_a_waiver_covers_a_signature_a_kernel_or_both(entry: dict[str, Any], covers: bool) -> None:
    """A glob matches the whole name or its last part."""
    (waiver,) = waivers.from_toml(
        [{"reason": "known", **entry}], lambda *place: f"pyproject.toml:{7 + len(place)}"
    )
    assert waiver.covers(BROKEN) is covers


def test_the_last_part_of_a_corpus_kernel_is_after_the_point() -> None:
    """The last part of a corpus kernel is after the point."""
    assert Waiver(reason="x", kernel="chunk_fwd_o").names("retention.chunk_fwd_o")
    assert not Waiver(reason="x", kernel="chunk_fwd").names("retention.chunk_fwd_o")


@pytest.mark.parametrize("expires", [date(2027, 3, 31), datetime(2027, 3, 31, 12), "2027-03-31"])
def test_its_last_day_is_included(expires: Any) -> None:
    """A waiver is valid on its last day."""
    (waiver,) = waivers.from_toml([{"kernel": "*", "reason": "known", "expires": expires}], str)
    assert not waiver.has_expired(date(2027, 3, 31))
    assert waiver.has_expired(date(2027, 4, 1))
    assert not Waiver(reason="without an end", kernel="*").has_expired(date.max)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ("all", r"write \[\[tool.flacheck.waivers\]\]"),
        (["all"], "waiver 1: Expected `object`, got `str`; write kernel"),
        ([{"kernel": "*"}], "waiver 1: .*missing required field `reason`"),
        ([{"kernel": "*", "reason": " "}], r"waiver 1: Expected `str` .* at `\$.reason`"),
        ([{"kernel": 3, "reason": "x"}], r"waiver 1: Expected `str . null`, got `int`"),
        ([{"kernel": "*", "reason": "x"}, {"reason": "x"}], "waiver 2: name what is waived"),
        (
            [{"kernel": "*", "reason": "x", "until": "2027"}],
            "waiver 1: .* unknown field `until`",
        ),
        (
            [{"kernel": "*", "reason": "x", "expires": "soon"}],
            r"waiver 1: .* date - at `\$.expires`; .* expires = 2027-03-31",
        ),
    ],
)
def test_a_malformed_waiver_is_named(entries: Any, message: str) -> None:
    """The error has file, entry and the valid form."""
    with pytest.raises(UsageError, match=rf"^pyproject.toml:[78]: .*{message}"):
        waivers.from_toml(entries, lambda *place: f"pyproject.toml:{7 + len(place)}")


def test_a_waived_failure_does_not_decide_the_exit_code() -> None:
    """A waived failure is counted and leaves the release not known good."""
    with_waiver = Context(waives=lambda cell: cell.signature == BROKEN.signature)
    plain, passing = (
        summarise([record(), BROKEN], context) for context in (Context(), with_waiver)
    )
    assert (exit_code(plain.tally), exit_code(passing.tally)) == (Exit.FINDINGS, Exit.OK)
    assert (passing.tally.fails, passing.tally.blocking, passing.tally.waived_count) == (1, 0, 1)
    assert passing.known_good == ()


def test_a_stored_run_is_judged_with_the_waivers(tmp_path: Path) -> None:
    """Only waivers that are valid today excuse a stored failure."""
    with Store.open(tmp_path) as store:
        store.add_many(store.begin_run({}, "mine", {}), [record(), BROKEN])
        valid, over = (
            Waiver(reason="known", signature=BROKEN.signature, expires=day)
            for day in (date.max, date(2026, 1, 1))
        )
        codes = [
            exit_code(session.view(store, ["last"], active_waivers).summary.tally)
            for active_waivers in ((), (valid,), (over,))
        ]
    assert codes == [Exit.FINDINGS, Exit.OK, Exit.FINDINGS]


def test_another_failure_beside_a_waived_one_still_counts() -> None:
    """A failure outside the waiver counts."""
    other = failure("FC401", "ptxas error", options={"num_warps": 2})
    context = Context(waives=lambda cell: cell.signature == BROKEN.signature)
    assert exit_code(summarise([record(), BROKEN, other], context).tally) is Exit.FINDINGS


def test_what_is_let_pass_is_waived_or_known() -> None:
    """A failure is excused by a valid waiver or by the baseline."""
    valid, over = (
        Waiver(reason="known", signature=BROKEN.signature, expires=day)
        for day in (date.max, date(2026, 1, 1))
    )
    (broken,) = observe([BROKEN])
    baseline = baseline_of(whole([record(), BROKEN]), "1.0")
    assert session.excuse_of([valid], None)(broken)
    assert session.excuse_of([over], baseline)(broken)
    assert not session.excuse_of([over], None)(broken)
