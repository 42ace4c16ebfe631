"""A gate that judges by a baseline where its store has no record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flacheck.capabilities.gate.baseline import accepted_releases, with_baseline
from flacheck.capabilities.gate.evidence import Evidence, RecordFilter
from flacheck.capabilities.gate.judged_pins import WaiverUse
from flacheck.capabilities.gate.judging import Judge
from flacheck.capabilities.gate.result import Gate
from flacheck.errors import Exit, UsageError
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standings import standing
from flacheck.evidence.baseline.form import Baseline
from flacheck.evidence.baseline.standings import baseline_of
from flacheck.model import KeySet, Question, Record, RequestedCells
from flacheck.tables.settings.waivers import Waiver
from tests.made_gate import RELEASES, TODAY, installation, on, states
from tests.made_records import DELTA, failure, record, unknown, whole

SPEC = "shop==1.0"
BROKEN = failure(**on("3.2.0"), options={"num_warps": 8})
# 3.2.0 fails, 3.4.0 compiles, 3.5.0 has no verdict.
RECORDS = [BROKEN, record(**on("3.2.0")), record(**on("3.4.0")), unknown(**on("3.5.0"))]


def write_baseline(records: Sequence[Record] = RECORDS, about: str = SPEC, **more: Any) -> Baseline:
    return baseline_of(whole(records, about=about), "1.0", **more)


def run_gate(
    baseline: Baseline,
    *requirements: str,
    store: Sequence[Standing] = (),
    record_filter: RecordFilter | None = None,
    flacheck: str = "1.0",
    **changes: Any,
) -> Gate:
    """Run a gate with a baseline and a store of these standings."""
    judge = Judge(**{"releases": RELEASES, "advise": lambda *asked: (), "today": TODAY, **changes})
    selection = record_filter or RecordFilter()
    evidence = with_baseline(Evidence(store), baseline, selection, "b.json", flacheck)
    return judge.judge([installation(*requirements)], evidence, selection.about)


def notes(result: Gate) -> tuple[str, ...]:
    assert result.baseline is not None
    return result.baseline.notes


def test_a_failure_that_the_pins_allowed_already_passes() -> None:
    """An accepted failure is counted and does not make a release known good."""
    result = run_gate(
        write_baseline(accepted_releases=["3.2.0", "3.4.0"]), "triton>=3.2,<3.5,!=3.3.*"
    )
    assert states(result) == {"3.2.0": "good", "3.4.0": "good"}
    assert [each.known for each in result.versions] == [1, 0]
    assert result.exit_code() is Exit.OK
    assert result.known_good == ("triton==3.4.0", "torch==2.8.0")


def test_a_new_failure_of_an_accepted_release_fails() -> None:
    """A failure outside the baseline fails, also of an accepted release."""
    new = failure(**on("3.2.0"), line="another", options={"num_warps": 16})
    now = whole([record(**on("3.2.0")), BROKEN, new], about=SPEC)
    result = run_gate(write_baseline(accepted_releases=["3.2.0"]), "triton==3.2.0", store=now)
    (release,) = result.versions
    assert (release.state.value, release.known) == ("bad", 1)
    assert [group.line for group in release.failures] == ["another"]
    only_known = whole([record(**on("3.2.0")), BROKEN], about=SPEC)
    assert (
        run_gate(
            write_baseline(accepted_releases=["3.2.0"]), "triton==3.2.0", store=only_known
        ).exit_code()
        == 0
    )


def test_what_was_mended_since_is_judged_by_the_store() -> None:
    """The store's newer verdict replaces the baseline's."""
    now = whole(
        [record(**on("3.2.0")), record(**on("3.2.0"), options={"num_warps": 8})], about=SPEC
    )
    result = run_gate(write_baseline(), "triton==3.2.0", store=now)
    assert states(result) == {"3.2.0": "good"}
    assert result.baseline is not None
    assert result.baseline.places == 2


def partial(records: Sequence[Record], about: str = SPEC) -> list[Standing]:
    """A scan of a question that was interrupted after these records."""
    keys = KeySet({**{each.key: each.kernel for each in records}, "missing": DELTA})
    place = RequestedCells(records[0].toolchain, "sm90", len(keys.kernels), keys.digest)
    return [standing(Question(about), place, keys, records)]


def test_the_baseline_answers_what_an_interrupted_scan_did_not() -> None:
    """An interrupted scan without a failure leaves the baseline's verdict."""
    fine = partial([record(**on("3.4.0"))])
    assert states(run_gate(write_baseline(), "triton==3.4.0", store=fine)) == {"3.4.0": "good"}
    broken = partial([failure(**on("3.4.0"))])
    assert states(run_gate(write_baseline(), "triton==3.4.0", store=broken)) == {"3.4.0": "bad"}


def test_a_partial_baseline_makes_nothing_good() -> None:
    """The reason has the number of answered cells."""
    baseline = baseline_of(partial([record(**on("3.4.0"))]), "1.0")
    (release,) = run_gate(baseline, "triton==3.4.0").versions
    assert (release.state.value, release.answered, release.asked) == ("partial", 1, 2)
    assert "1/2 cells of shop==1.0 on sm90" in release.why


def test_a_waiver_of_a_kernel_that_compiles_everywhere_has_to_go() -> None:
    """A waiver without a failure in the baseline is reported as fixed."""
    excuses = (Waiver(reason="x", kernel=DELTA),)
    result = run_gate(write_baseline([record(**on("3.4.0"))]), "triton==3.4.0", waivers=excuses)
    assert [each.use for each in result.judged_waivers] == [WaiverUse.MENDED]


def test_advisories_are_asked_about_the_baselines_kernels() -> None:
    """Advisories are looked up for the baseline's kernels and targets."""
    calls: list[tuple[set[str], str, str]] = []

    def advise(kernels: Any, triton: str, target: str, packages: Any) -> Sequence[str]:
        calls.append((set(kernels), triton, target))
        return ["it miscompiles"] * (triton == "3.4.0")

    result = run_gate(write_baseline(), "triton==3.4.0", advise=advise)
    assert states(result) == {"3.4.0": "advised"}
    assert ({DELTA}, "3.4.0", "sm90") in calls


@pytest.mark.parametrize(
    ("choice", "release"),
    [
        (RecordFilter(package=SPEC), "good"),
        (RecordFilter(package="Shop==1.0.0"), "good"),
        (RecordFilter(package="shop==1.1"), "no-record"),
        (RecordFilter(package="mill==1.0"), "no-record"),
        (RecordFilter(matrix="quick"), "no-record"),
        (RecordFilter(targets=("sm90",)), "good"),
        (RecordFilter(targets=("sm80",)), "no-record"),
        (RecordFilter(kernels=("chunk_*",)), "good"),
        (RecordFilter(kernels=("nothing",)), "no-record"),
    ],
)
def test_only_what_is_asked_about_is_taken(choice: RecordFilter, release: str) -> None:
    """A baseline of another package, version or target is not used."""
    result = run_gate(write_baseline(), "triton==3.4.0", record_filter=choice)
    assert states(result) == {"3.4.0": release}
    assert bool(notes(result)) is (release == "no-record")


def test_a_baseline_of_something_else_says_so() -> None:
    """The note names both packages, and the exit code is 3."""
    result = run_gate(
        write_baseline(), "triton==3.4.0", record_filter=RecordFilter(package="mill==2.0")
    )
    assert notes(result) == ("b.json is not about mill==2.0; it is about shop==1.0",)
    assert result.exit_code() is Exit.INCOMPLETE


def test_a_part_of_a_package_is_no_answer_about_the_package() -> None:
    """A baseline of a selection is partial for the package."""
    narrow = [
        replace(each, question=Question(SPEC, {"kernels": ["*fwd*"]}))
        for each in whole([record(**on("3.4.0"))], about=SPEC)
    ]
    baseline = baseline_of(narrow, "1.0")
    (release,) = run_gate(
        baseline, "triton==3.4.0", record_filter=RecordFilter(package=SPEC)
    ).versions
    assert release.state.value == "partial"
    assert "only --kernel *fwd* of shop is in the baseline" in release.why
    both = baseline_of([*narrow, *whole([record(**on("3.4.0"))], about=SPEC)], "1.0")
    result = run_gate(both, "triton==3.4.0", record_filter=RecordFilter(package=SPEC))
    assert states(result) == {"3.4.0": "good"}


def test_an_operators_question_is_answered_by_the_same_question_alone() -> None:
    """A whole package's counts are not used for a question about one operator."""
    fwd = [
        replace(each, question=Question(SPEC, {"ops": ["fwd"]}))
        for each in whole([record(**on("3.4.0"))], about=SPEC)
    ]
    choice = RecordFilter(package=SPEC, ops=("fwd",))
    assert states(run_gate(baseline_of(fwd, "1.0"), "triton==3.4.0", record_filter=choice)) == {
        "3.4.0": "good"
    }
    assert states(run_gate(write_baseline(), "triton==3.4.0", record_filter=choice)) == {
        "3.4.0": "no-record"
    }


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Create the sources of the package `shop`."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "pyproject.toml").write_text('[project]\nname = "Shop"\n')
    (tmp_path / "shop" / "k.py").write_text("x = 1\n")
    return tmp_path / "shop"


def test_a_checkout_is_known_by_its_name_and_says_when_it_changed(checkout: Path) -> None:
    """A changed checkout is judged by the same baseline, with a note."""
    from flacheck.source.packages import checkouts

    about = f"shop==1.0+h{checkouts.digest(checkout)[:8]}"
    baseline = write_baseline([record(**on("3.4.0"))], about)
    choice = RecordFilter(package=str(checkout))
    (checkout / ".flacheck-baseline.json").write_text("{}")
    result = run_gate(baseline, "triton==3.4.0", record_filter=choice)
    assert (states(result), notes(result)) == ({"3.4.0": "good"}, ())
    (checkout / "k.py").write_text("x = 2\n")
    result = run_gate(baseline, "triton==3.4.0", record_filter=choice)
    assert states(result) == {"3.4.0": "good"}
    assert notes(result) == (
        f"b.json is of {about}, and files in {checkout} have changed since: "
        "scan again where kernels have",
    )


def test_a_checkout_without_a_name_is_an_error(checkout: Path) -> None:
    """A checkout without a name is a usage error."""
    (checkout / "pyproject.toml").write_text("[project]\ndynamic = ['name']\n")
    with pytest.raises(UsageError, match="there is no name in"):
        run_gate(
            write_baseline(), "triton==3.4.0", record_filter=RecordFilter(package=str(checkout))
        )


def test_what_the_pins_allow_now_is_what_a_baseline_accepts() -> None:
    """A baseline accepts the existing releases that the pins allow."""
    result = run_gate(write_baseline(), "triton>=3.5")
    assert accepted_releases(result) == ["3.5.0", "3.8.0"]
    assert "baseline" in json.loads(json.dumps(result.to_json()))
