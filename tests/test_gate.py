"""The gate: what pins admit, what the records say of it, what to change, and waivers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from flacheck.config.waivers import Waiver
from flacheck.errors import Exit, UsageError
from flacheck.gate import evidence, sources
from flacheck.gate.admitted import Admission, Releases, admit
from flacheck.gate.evidence import Evidence, RecordFilter, cell_identity, of_store
from flacheck.gate.fix import edited, fix
from flacheck.gate.judging import Gate
from flacheck.gate.narrow import alternatives, narrowed
from flacheck.gate.pinned import Installation, Pin
from flacheck.gate.result import GateResult, WaiverUse
from flacheck.gate.states import ReleaseState
from flacheck.gate.suggest import Acceptance, PinChange, suggest, with_changes
from flacheck.model import Record
from flacheck.store import Store
from tests.made_records import DELTA, PACKAGE, failure, record, skipped, unknown

RELEASES = Releases(
    ("3.1.0", "3.2.0", "3.3.0", "3.3.1", "3.4.0", "3.5.0", "3.8.0"),
    {
        "2.5.1": "==3.1.0",
        "2.6.0": "==3.2.0",
        "2.7.0": "==3.3.0",
        "2.7.1": "==3.3.1",
        "2.8.0": "==3.4.0",
        "2.9.0": "==3.5.0",
        "2.14.0": "~=3.8.0",
        "2.14.1": "~=3.8.0",
    },
)
TODAY = date(2026, 11, 21)
GOLDEN = Path(__file__).parent / "golden" / "fix"


def installation(*requirements: str) -> Installation:
    """Pins as the lines of one requirements file have them."""
    names = ["torch" if text.startswith("torch") else "triton" for text in requirements]
    pins = [
        Pin("r.txt", line, name, text.removeprefix(name), (0, 0))
        for line, (name, text) in enumerate(zip(names, requirements), 1)
    ]
    return Installation("r.txt", tuple(pins))


def admitted(*requirements: str) -> Admission:
    return admit(installation(*requirements), RELEASES)


def gate(
    records: Sequence[Record], *requirements: str, history: Sequence[Record] = (), **changes: Any
) -> GateResult:
    judge = Gate(**{"releases": RELEASES, "advise": lambda *asked: (), "today": TODAY, **changes})
    known = Evidence(
        {cell_identity(r): r for r in records},
        lambda signature: [r for r in history if r.signature == signature],
    )
    return judge.judge([installation(*requirements)], known)


def on(release: str, **more: Any) -> dict[str, Any]:
    return {"toolchain": f"triton=={release}", **more}


BROKEN = failure(**on("3.2.0"), options={"num_warps": 8})
COMPILES = [record(**on(release)) for release in ("3.1.0", "3.4.0", "3.5.0", "3.8.0")]
RECORDS = [BROKEN, record(**on("3.2.0")), failure(**on("3.3.0")), *COMPILES]


def states(outcome: GateResult) -> dict[str, str]:
    return {version.triton: version.state.value for version in outcome.versions}


# What pins admit


@pytest.mark.parametrize(
    ("pins", "pairs"),
    [
        (["triton>=3.2,<3.4"], [(None, "3.2.0"), (None, "3.3.0"), (None, "3.3.1")]),
        (["torch==2.7.1"], [("2.7.1", "3.3.1")]),
        (["torch==2.7.1+cu126"], [("2.7.1+cu126", "3.3.1")]),
        (["torch>=2.6,<2.8", "triton!=3.3.0"], [("2.6.0", "3.2.0"), ("2.7.1", "3.3.1")]),
        (["torch>=2.5,<3", "triton==3.2.0"], [("2.6.0", "3.2.0")]),
        (["torch==2.8.0", "triton>=3.2"], [("2.8.0", "3.4.0")]),
        (["torch==2.7.1+cpu", "triton==3.2.0"], [(None, "3.2.0")]),
        (["triton>=3.2", "triton<3.3"], [(None, "3.2.0")]),
        (["triton==3.4.0+git1"], [(None, "3.4.0+git1")]),
        (["triton==3.2.7"], [(None, "3.2.7")]),
        (["torch==2.3.1", "triton==3.2.0"], [("2.3.1", "3.2.0")]),
        (["torch~=2.14.0"], [("2.14.0", "3.8.0"), ("2.14.1", "3.8.0")]),
    ],
)
def test_an_installation_admits_pairs(pins: list[str], pairs: list[tuple[str | None, str]]) -> None:
    """All pins hold, and torch's own; a build of torch without Triton says nothing of it."""
    pairs = [(torch and torch.partition("+")[0], triton) for torch, triton in pairs]
    assert [
        (torch and torch.partition("+")[0], triton) for torch, triton in admitted(*pins).pairs
    ] == pairs
    assert admitted(*pins).conflict is None


@pytest.mark.parametrize(
    ("pins", "unknown"),
    [
        (["triton>=3.4"], (">3.8.0",)),
        (["triton>=4"], (">3.8.0",)),
        (["triton>=3.4,<3.9"], ()),
        (["triton>=3.4,<4"], (">3.8.0",)),
        (["triton~=3.8.0"], ()),
        (["torch>=2.9"], (">3.8.0",)),
        (["torch>=2.9", "triton<3.9"], ()),
        (["torch<=2.9", "triton>=3.4"], ()),
        (["triton<3"], ("<3.1.0",)),
        (["torch==2.3.1"], ("of torch 2.3.1",)),
        (["torch==2.15.0"], (">3.8.0",)),
    ],
)
def test_what_nobody_knows_is_named(pins: list[str], unknown: tuple[str, ...]) -> None:
    """An open upper bound admits releases that are not there yet."""
    assert admitted(*pins).unknown == unknown


@pytest.mark.parametrize(
    ("pins", "lines", "reason"),
    [
        (
            ["torch==2.7.1", "triton==3.2.0"],
            [1, 2],
            "torch 2.7.1 requires triton==3.3.1, but r.txt:2 pins triton==3.2.0",
        ),
        (
            ["torch>=2.7,<2.8", "triton==3.2.0"],
            [1, 2],
            "torch 2.7.0 requires triton==3.3.0, torch 2.7.1 requires triton==3.3.1, but r.txt:2 pins triton==3.2.0",
        ),
        (
            ["triton>=3.1", "triton>=3.4", "triton<3.3"],
            [2, 3],
            "no release of triton satisfies triton>=3.4 (r.txt:2) and triton<3.3 (r.txt:3)",
        ),
        (["triton>3.2.0,<3.3"], [1], "no release of triton satisfies triton>3.2.0,<3.3 (r.txt:1)"),
        (
            ["torch==2.6.0", "torch==2.7.0"],
            [1, 2],
            "no release of torch satisfies torch==2.6.0 (r.txt:1) and torch==2.7.0",
        ),
    ],
)
def test_a_contradiction_names_the_pins_and_why(
    pins: list[str], lines: list[int], reason: str
) -> None:
    """Also where each pin is fine by itself."""
    conflict = admitted(*pins).conflict
    assert conflict is not None and conflict.reason.startswith(reason)
    assert [pin.line for pin in conflict.pins] == lines


# States and exit codes


@pytest.mark.parametrize(
    ("pins", "found", "code"),
    [
        (["triton==3.2.0"], {"3.2.0": "bad"}, Exit.FINDINGS),
        (["triton>=3.4,<3.9"], {"3.4.0": "good", "3.5.0": "good", "3.8.0": "good"}, Exit.OK),
        (["triton>=3.3.1,<3.5"], {"3.3.1": "untested", "3.4.0": "good"}, Exit.OK),
        (["triton==3.3.1"], {"3.3.1": "untested"}, Exit.INCOMPLETE),
        (["torch==2.7.1", "triton==3.4.0"], {}, Exit.FINDINGS),
        (["torch==2.6.0"], {"3.2.0": "bad"}, Exit.FINDINGS),
        (["torch==2.8.0"], {"3.4.0": "good"}, Exit.OK),
        (["triton>=3.5"], {"3.5.0": "good", "3.8.0": "good", ">3.8.0": "untested"}, Exit.OK),
    ],
)
def test_records_decide(pins: list[str], found: dict[str, str], code: Exit) -> None:
    """A failing release that is admitted is a finding, one without a record is none while another
    has one.
    """
    outcome = gate(RECORDS, *pins)
    assert (states(outcome), outcome.exit_code()) == (found, code)


def test_a_failing_release_names_codes_and_kernels() -> None:
    """And the torch releases that bring it."""
    (version,) = gate(RECORDS, "triton==3.2.0").to_json()["versions"]
    assert version == {
        "triton": "3.2.0",
        "torch": ["2.6.0"],
        "state": "bad",
        "codes": ["FC302"],
        "kernels": [DELTA],
    }


@pytest.mark.parametrize(
    ("records", "state", "why"),
    [
        (
            [record(**on("3.4.0")), unknown(**on("3.4.0"), options={"num_warps": 8})],
            "untested",
            "sm90: 1 cell without a verdict",
        ),
        ([skipped(**on("3.4.0"))], "untested", "only skipped cells"),
        ([record(**on("3.4.0")), skipped(**on("3.4.0"), target="sm120")], "good", ""),
        (
            [
                record(**on("3.4.0")),
                failure("FC501", tolerated=True, **on("3.4.0"), options={"num_warps": 8}),
            ],
            "good",
            "",
        ),
        ([failure("FC501", tolerated=True, **on("3.4.0"))], "bad", ""),
        ([record(**on("3.4.0")), failure(**on("3.4.0"), target="sm80")], "bad", ""),
        ([record(**on("3.4.0+local.0123abcd"))], "untested", "no record"),
    ],
)
def test_a_release_is_good_as_the_contract_has_it(
    records: list[Record], state: str, why: str
) -> None:
    """An unknown cell leaves it untested, a skipped one does not count, a tolerated failure is
    served by another.
    """
    (version,) = gate(records, "triton==3.4.0").versions
    assert (version.state.value, version.why) == (state, why)


def test_targets_that_are_asked_must_all_be_known() -> None:
    """Without targets those count that have records."""
    assert states(gate(RECORDS, "triton==3.4.0", targets=("sm90",))) == {"3.4.0": "good"}
    (version,) = gate(RECORDS, "triton==3.4.0", targets=("sm80", "sm90")).versions
    assert (version.state, version.why) == (ReleaseState.UNTESTED, "no record on sm80")


def test_an_advisory_makes_a_good_release_compile_but() -> None:
    """A finding only when strict; a failing release stays failing."""

    def advise(kernels: Any, triton: str, target: str) -> list[str]:
        return (
            [f"{triton} computes wrong gradients"] if DELTA in kernels and target == "sm90" else []
        )

    outcome = gate(RECORDS, "triton>=3.4,<3.5", advise=advise)
    assert states(outcome) == {"3.4.0": "advised"}
    assert outcome.versions[0].advisories == ("3.4.0 computes wrong gradients",)
    assert (outcome.exit_code(), outcome.exit_code(strict=True)) == (Exit.OK, Exit.FINDINGS)
    assert states(gate(RECORDS, "triton==3.2.0", advise=advise)) == {"3.2.0": "bad"}


def test_strictly_an_untested_release_is_incomplete() -> None:
    """And a finding comes before that."""
    assert gate(RECORDS, "triton>=3.5").exit_code(strict=True) is Exit.INCOMPLETE
    assert gate(RECORDS, "triton>=3.2").exit_code(strict=True) is Exit.FINDINGS


# Waivers


@pytest.mark.parametrize(
    "waiver",
    [
        Waiver(reason="known", signature=BROKEN.signature),
        Waiver(reason="known", kernel="chunk_gated_*"),
    ],
)
def test_a_waived_failure_is_no_finding(waiver: Waiver) -> None:
    """The release is judged by the rest, and the waiver says how many cells it lets pass."""
    outcome = gate([BROKEN, record(**on("3.2.0"))], "triton==3.2.0", waivers=(waiver,))
    assert states(outcome) == {"3.2.0": "good"} and outcome.exit_code() is Exit.OK
    assert [(found.use, found.cells) for found in outcome.waived] == [(WaiverUse.ACTIVE, 1)]
    assert outcome.to_json()["versions"][0]["codes"] == []


def test_a_release_all_of_whose_cells_are_waived_passes() -> None:
    """There is nothing left to ask of it."""
    outcome = gate([BROKEN], "triton==3.2.0", waivers=(Waiver(reason="known", kernel="*"),))
    assert outcome.exit_code() is Exit.OK


def test_an_expired_waiver_is_a_finding_and_waives_nothing() -> None:
    """Even where nothing that is admitted fails."""
    waiver = Waiver(reason="known", kernel="*", expires=date(2026, 11, 20))
    assert states(gate(RECORDS, "triton==3.2.0", waivers=(waiver,))) == {"3.2.0": "bad"}
    outcome = gate(COMPILES, "triton==3.4.0", waivers=(waiver,))
    assert [found.use for found in outcome.waived] == [
        WaiverUse.EXPIRED
    ] and outcome.exit_code() is Exit.FINDINGS


def test_a_waiver_whose_cell_compiles_again_is_a_finding() -> None:
    """By a kernel, or by the signature that the same cell once failed with."""
    by_kernel = gate(
        COMPILES, "triton==3.4.0", waivers=(Waiver(reason="known", kernel="chunk_gated_*"),)
    )
    mended = [*COMPILES, record(**on("3.2.0"), options={"num_warps": 8})]
    once = Waiver(reason="known", signature=BROKEN.signature)
    by_signature = gate(mended, "triton==3.4.0", waivers=(once,), history=[BROKEN])
    for outcome in (by_kernel, by_signature):
        assert [found.use for found in outcome.waived] == [
            WaiverUse.MENDED
        ] and outcome.exit_code() is Exit.FINDINGS


def test_a_waiver_of_something_that_was_not_tried_is_no_finding() -> None:
    """Another store may hold it."""
    unused = (
        Waiver(reason="known", kernel="other"),
        Waiver(reason="known", signature="FC302:other"),
    )
    outcome = gate(COMPILES, "triton==3.4.0", waivers=unused)
    assert {found.use for found in outcome.waived} == {
        WaiverUse.UNUSED
    } and outcome.exit_code() is Exit.OK


# Records


def test_only_the_records_that_are_asked_for_count(tmp_path: Path) -> None:
    """A matrix by its runs, a package, kernels and targets by what the record says."""
    other = record(**on("3.4.0"), kernel="retention.chunk_fwd_o", package=None, target="sm80")
    with Store.open(tmp_path) as store:
        store.add_many(store.begin_run({}, "seeds", {}), [BROKEN])
        store.add_many(store.begin_run({}, "mine", {}), [other])

        def kernels(**asked: Any) -> set[str]:
            return {found.kernel for found in of_store(store, RecordFilter(**asked)).records}

        assert kernels() == {DELTA, other.kernel}
        assert (
            kernels(matrix="seeds")
            == kernels(package=PACKAGE)
            == kernels(targets=("sm90",))
            == {DELTA}
        )
        assert (
            kernels(matrix="matrices/mine.yaml")
            == kernels(kernels=("chunk_fwd_o",))
            == {other.kernel}
        )
        assert kernels(matrix="quick") == set()
        # A package comes before a matrix, as it does for a scan.
        assert kernels(matrix="mine", package=PACKAGE) == {DELTA}


def test_the_newest_record_of_a_cell_counts_whatever_its_source_was(tmp_path: Path) -> None:
    """An edited kernel has other keys; a compile that was stopped on request proves nothing."""
    mended = record(**on("3.2.0"), options={"num_warps": 8}, key="edited")
    stopped = failure(**on("3.3.0")).with_(
        key="stopped", verdict=mended.verdict, reason="up to ttgir", code=None
    )
    with Store.open(tmp_path) as store:
        run = store.begin_run({}, "seeds", {})
        store.add_many(run, [BROKEN, failure(**on("3.3.0"))])
        store.add_many(run, [mended, stopped])
        found = of_store(store, RecordFilter())
        assert [(r.toolchain, r.verdict.value) for r in found.records] == [
            ("triton==3.2.0", "compiles"),
            ("triton==3.3.0", "fails"),
        ]
        assert [r.key for r in found.failed_with(BROKEN.signature or "")] == [
            BROKEN.key,
            failure(**on("3.3.0")).key,
        ]


def test_where_there_is_no_store_nothing_is_known(tmp_path: Path) -> None:
    """And none is made."""
    with evidence.opened(tmp_path / "no", RecordFilter()) as known:
        assert known.records == []
    assert not (tmp_path / "no").exists()
    assert gate([], "triton==3.4.0").exit_code() is Exit.INCOMPLETE


# Narrowing and suggesting

NUMBERS = st.builds("{}.{}.{}".format, st.integers(2, 4), st.integers(0, 4), st.integers(0, 2))
CLAUSES = st.one_of(
    st.builds("{}{}".format, st.sampled_from([">=", ">", "<=", "<", "!=", "~="]), NUMBERS),
    st.builds(
        "{}{}.*".format,
        st.sampled_from(["==", "!="]),
        st.builds("{}.{}".format, st.integers(2, 4), st.integers(0, 4)),
    ),
)
SPECIFIERS = st.lists(CLAUSES, max_size=4).map(",".join)
UNIVERSE = [
    f"{major}.{minor}.{patch}{rest}"
    for major in (2, 3, 4, 5)
    for minor in range(6)
    for patch in range(3)
    for rest in ("", ".post1", "rc1", "+local")
]


@settings(deadline=None)
@given(SPECIFIERS, st.lists(NUMBERS, unique=True, min_size=1, max_size=10), st.data())
def test_a_narrowed_specifier_keeps_loses_and_is_contained(
    specifier: str, known: list[str], data: st.DataObject
) -> None:
    """It admits all that is kept and nothing that is lost, and no version that the original did not
    admit.
    """
    inside = [version for version in known if SpecifierSet(specifier).contains(version)]
    if not inside:
        return
    keep = data.draw(st.lists(st.sampled_from(inside), unique=True, min_size=1))
    lose = [version for version in inside if version not in keep]
    found = SpecifierSet(narrowed(specifier, keep, lose))
    assert all(map(found.contains, keep)) and not any(map(found.contains, lose))
    original = SpecifierSet(specifier)
    for version in UNIVERSE:
        assert not found.contains(version, prereleases=True) or original.contains(
            version, prereleases=True
        )


@pytest.mark.parametrize(
    ("specifier", "keep", "lose", "found"),
    [
        (">=3.2", ["3.4.0", "3.5.0"], ["3.2.0", "3.3.0"], ">=3.4.0"),
        ("", ["3.1.0", "3.4.0"], ["3.2.0"], "!=3.2.0"),
        (">=3.1,!=3.3.0,<3.9", ["3.4.0", "3.5.0"], ["3.1.0", "3.8.0"], ">=3.4.0,<3.8"),
        ("~=3.2", ["3.3.1", "3.4.0"], ["3.2.0"], ">=3.3.1,~=3.2"),
        (">=3.2,<3.4", ["3.3.0", "3.3.1"], ["3.2.0"], ">=3.3.0,<3.4"),
        (">=3.2", ["3.3.0"], ["3.3.1", "3.4.0"], ">=3.2,<3.3.1"),
    ],
)
def test_a_narrowed_specifier_reads_as_a_person_would_write_it(
    specifier: str, keep: list[str], lose: list[str], found: str
) -> None:
    """A bound moves where that suffices; an exclusion that excludes nothing any more goes."""
    assert narrowed(specifier, keep, lose) == found


def test_alternatives_are_narrowed_each() -> None:
    """Poetry's `||`; one of which nothing is kept goes."""
    assert alternatives("==3.2.0 || >=3.3,<4", ["3.4.0"], ["3.2.0", "3.3.0"]) == ">=3.4.0,<4"
    assert alternatives(">=3.2 || <3.2", ["3.1.0", "3.4.0"], ["3.2.0"]) == ">=3.4.0 || <3.2"


def changes(records: Sequence[Record], *pins: str, **more: Any) -> dict[int | None, str]:
    """What to write in which line."""
    return {
        change.pin.line: change.pin.name + change.to
        for change in gate(records, *pins, **more).suggest
    }


@pytest.mark.parametrize(
    ("pins", "found"),
    [
        (["triton>=3.2,<3.9"], {1: "triton>=3.3.1,<3.9"}),
        (["triton>=3.1"], {1: "triton>=3.1,!=3.2.0,!=3.3.0"}),
        (["torch>=2.6", "triton>=3.2"], {2: "triton>=3.3.1"}),
        (["torch>=2.6"], {1: "torch>=2.7.1"}),
        (["triton==3.3.0"], {1: "triton==3.4.0"}),
        (["triton==3.2.0"], {1: "triton==3.1.0"}),
        (["torch==2.6.0"], {1: "torch==2.5.1"}),
        (["torch==2.8.0", "triton==3.5.0"], {1: "torch==2.9.0"}),
        (["torch==2.7.1", "triton==3.2.0"], {1: "torch==2.8.0", 2: "triton==3.4.0"}),
        (["triton==3.4.0", "triton==3.5.0"], {1: "triton==3.5.0"}),
        (["triton>=3.4"], {}),
        (["triton==3.3.1"], {}),
    ],
)
def test_the_fewest_and_smallest_changes_are_suggested(
    pins: list[str], found: dict[int, str]
) -> None:
    """Narrow what is admitted where some of it passes, else move to the nearest pair; what passes
    stays.
    """
    assert changes(RECORDS, *pins) == found


def test_one_changed_pin_is_better_than_two_nearer_ones() -> None:
    """2.4 is three torch releases back; 2.6 with another Triton would be one each."""
    releases = Releases(
        ("3.1.0", "3.2.0", "3.3.0"),
        {"2.4": "==3.1.0", "2.5": "==3.2.0", "2.6": "==3.2.0", "2.7": "==3.3.0"},
    )
    good = [record(**on("3.1.0")), record(**on("3.2.0"))]
    assert changes(good, "torch==2.7", "triton==3.1.0", releases=releases) == {1: "torch==2.4"}


def test_strictly_only_what_is_good_stays() -> None:
    """Untested releases go, and an open bound is closed."""
    assert changes(RECORDS, "triton>=3.2", strict=True) == {1: "triton>=3.4.0,<3.9"}


def test_where_nothing_is_good_nothing_is_suggested() -> None:
    """And that is said."""
    outcome = gate([BROKEN], "triton==3.2.0")
    assert (outcome.suggest, outcome.helpless) == ((), ("r.txt",))


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[Installation], Mapping[str, ReleaseState], bool]:
    """Pins of all kinds, and a state for each release."""
    exact = st.sampled_from(
        ["triton==" + v for v in RELEASES.triton] + ["torch==" + v for v in RELEASES.torch]
    )
    ranges = st.builds("triton>={}".format, st.sampled_from(RELEASES.triton)) | st.builds(
        "torch>={},<3".format, st.sampled_from(list(RELEASES.torch))
    )
    pins = st.lists(exact | ranges, min_size=1, max_size=3).map(lambda texts: installation(*texts))
    found = draw(
        st.fixed_dictionaries(
            {triton: st.sampled_from(list(ReleaseState)) for triton in RELEASES.triton}
        )
    )
    return draw(st.lists(pins, min_size=1, max_size=2)), found, draw(st.booleans())


@settings(deadline=None)
@given(questions())
def test_what_is_suggested_passes(
    asked: tuple[list[Installation], Mapping[str, ReleaseState], bool],
) -> None:
    """Every installation that was not given up passes after the changes, and one that was fine is
    not touched.
    """
    installations, found, strict = asked
    wanted = Acceptance(RELEASES, found, strict)
    changed, helpless = suggest(installations, wanted)
    new = {change.pin: change.to for change in changed}
    if len(installations) == 1:
        before, after = (
            admit(i, RELEASES) for i in (installations[0], with_changes(installations[0], new))
        )
        assert bool(new) <= (not wanted.is_harmless(before))
        assert helpless or wanted.is_harmless(after)
        assert wanted.passes(after) or not new
    if not any(map(wanted.is_proven, RELEASES.triton)):
        assert not new


def test_what_is_known_good_is_said_as_a_requirement() -> None:
    """Of Triton and of torch, whatever the pins admit; nothing where nothing is good."""
    assert gate(RECORDS, "triton==3.2.0").known_good == (
        "triton>=3.1.0,!=3.2.0,!=3.3.0,!=3.3.1,<3.9",
        "torch>=2.5.1,!=2.6.0,!=2.7.0,!=2.7.1,<2.15",
    )
    assert gate([BROKEN], "triton==3.2.0").known_good == ()
    assert (
        gate([BROKEN], "triton==3.2.0", waivers=(Waiver(reason="known", kernel="*"),)).known_good
        == ()
    )


def test_a_release_that_was_scanned_is_known() -> None:
    """Though no index named it; a local build is none that a range admits."""
    new = [record(**on("3.9.0")), record(**on("3.9.1+local.0123abcd"))]
    assert states(gate(new, "triton>=3.8")) == {
        "3.8.0": "untested",
        "3.9.0": "good",
        ">3.9.0": "untested",
    }


# Writing


def fixed(name: str, text: str, *records: Record) -> str:
    """The file after --fix."""
    Path(name).write_bytes(text.encode())
    judge = Gate(RELEASES, lambda *asked: (), today=TODAY)
    known = Evidence({cell_identity(r): r for r in records or RECORDS})
    fix(judge.judge(sources.of_files([Path(name)], lambda text: None), known).suggest)
    return Path(name).read_bytes().decode()


PYPROJECT = """\ufeff# top
[project]
name = "x"  # the name
dependencies = [
    "numpy",
    # old Triton crashes
    'triton >= 3.2 , <3.9 ; sys_platform == "linux"',   # keep me
  ]

[tool.other]
triton = "triton >= 3.2 , <3.9"
"""


def test_a_fix_changes_the_specifier_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comments, layout, quotes, markers, line ends and a byte order mark stay."""
    monkeypatch.chdir(tmp_path)
    for text in (PYPROJECT, PYPROJECT.replace("\n", "\r\n")):
        assert fixed("pyproject.toml", text) == text.replace(">= 3.2 , <3.9 ;", ">=3.3.1,<3.9 ;")
    poetry = '[tool.poetry.dependencies]\ntriton = {version = "^3.2", optional = false} # caret\n'
    assert fixed("pyproject.toml", poetry) == poetry.replace("^3.2", ">=3.3.1,<4")
    lines = "# x\nnumpy\ntriton[a]>=3.2 ; python_version > '3'  # why\r\n\n-r other.txt"
    Path("other.txt").write_text("torch\n")
    assert fixed("r.txt", lines) == lines.replace(">=3.2", ">=3.3.1")
    assert fixed("two.txt", "torch>=2.7,<2.8\ntriton==3.2.0\n") == "torch==2.5.1\ntriton==3.1.0\n"
    assert fixed("bare.txt", "triton  # any\n") == "triton!=3.2.0,!=3.3.0  # any\n"
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("name", ["pep621", "poetry", "dotted"])
def test_a_fixed_project_file_is_as_before_but_for_its_pins(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layouts as people make them: aligned, indented, commented, dotted, inline, tables told in
    pieces.
    """
    monkeypatch.chdir(tmp_path)
    before, after = ((GOLDEN / f"{name}{kind}.toml").read_text() for kind in ("", ".fixed"))
    assert before != after
    assert fixed("pyproject.toml", before) == after
    assert fixed("pyproject.toml", before.replace("\n", "\r\n")) == after.replace("\n", "\r\n")
    assert fixed("pyproject.toml", after) == after


def test_a_file_of_powershell_is_fixed_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UTF-16 with its mark."""
    monkeypatch.chdir(tmp_path)
    Path("r.txt").write_bytes("numpy\r\ntriton==3.3.0\r\n".encode("utf-16"))
    change = PinChange(sources.of_files([Path("r.txt")], print)[0].pins[0], "==3.4.0")
    fix([change])
    assert Path("r.txt").read_bytes() == "numpy\r\ntriton==3.4.0\r\n".encode("utf-16")


def test_a_file_given_under_two_names_is_fixed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link is followed, and stays one."""
    monkeypatch.chdir(tmp_path)
    Path("r.txt").write_text("triton==3.3.0\n")
    Path("link.txt").symlink_to("r.txt")
    pins = sources.of_files([Path("r.txt"), Path("link.txt")], print)[0].pins
    fix([PinChange(pin, "==3.4.0") for pin in pins])
    assert Path("r.txt").read_text() == "triton==3.4.0\n" and Path("link.txt").is_symlink()


REWRITES = """
import sys
from pathlib import Path
from flacheck.gate.fix import fix
from flacheck.gate.pinned import Pin
from flacheck.gate.suggest import PinChange

versions = ["==3.3.0", "==3.4.0"]
print("ready", flush=True)
while True:
    fix([PinChange(Pin("r.txt", 1, "triton", versions[0], (6, 13), versions[0]), versions[1])])
    versions.reverse()
"""


def test_a_kill_while_a_fix_is_written_leaves_a_whole_file(tmp_path: Path) -> None:
    """The old one or the new one, of a size that takes more than one write."""
    rest = "# rest\n" * 200_000
    whole = {f"triton=={version}\n{rest}" for version in ("3.3.0", "3.4.0")}
    file = tmp_path / "r.txt"
    seen = set()
    for number in range(12):
        file.write_text(f"triton==3.3.0\n{rest}")
        with subprocess.Popen(
            [sys.executable, "-c", REWRITES],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        ) as child:
            assert child.stdout and child.stdout.readline() == b"ready\n"
            time.sleep(0.02 + number * 0.007)
            child.kill()
            assert child.wait() == -signal.SIGKILL and child.stderr and child.stderr.read() == b""
        assert file.read_text() in whole
        seen.add(file.read_text()[:13])
        seen |= {"half" for left in tmp_path.glob(".r.txt.*")}
    assert len(seen) > 1, "no kill came while something was written"


def test_an_included_file_is_fixed_where_the_pin_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And keeps its mode."""
    monkeypatch.chdir(tmp_path)
    Path("limits.txt").write_text("triton==3.3.0\n")
    Path("limits.txt").chmod(0o640)
    assert fixed("r.txt", "-c limits.txt\ntorch\n") == "-c limits.txt\ntorch\n"
    assert (
        Path("limits.txt").read_text() == "triton==3.4.0\n"
        and Path("limits.txt").stat().st_mode & 0o777 == 0o640
    )


def test_what_cannot_be_written_is_left_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hashes are of one release, and a lock is its tool's."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "r.txt": "triton==3.3.0 --hash=sha256:aa\n",
        "uv.lock": '[[package]]\nname = "triton"\nversion = "3.3.0"\n',
    }.items():
        assert fixed(name, text) == text
        judge = Gate(RELEASES, lambda *asked: ())
        outcome = judge.judge(
            sources.of_files([Path(name)], lambda text: None),
            Evidence({cell_identity(r): r for r in RECORDS}),
        )
        written, left = fix(outcome.suggest)
        assert (
            written == [] and [change.to for change in left] == ["==3.4.0"] and left[0].pin.obstacle
        )


def test_a_file_that_changed_meanwhile_is_not_touched() -> None:
    """The pin must stand where it was read."""
    pin = Pin("r.txt", 1, "triton", "==3.3.0", (6, 13), "==3.3.0")
    assert edited(b"triton==3.3.0\n", "r.txt", [PinChange(pin, "==3.4.0")]) == b"triton==3.4.0\n"
    with pytest.raises(UsageError, match="was changed while the gate looked at it"):
        edited(b"# new\ntriton==3.3.0\n", "r.txt", [PinChange(pin, "==3.4.0")])


def test_a_file_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    """Nothing is left beside it."""
    pin = Pin(str(tmp_path / "gone" / "r.txt"), 1, "triton", "==3.3.0", (6, 13), "==3.3.0")
    with pytest.raises(UsageError, match="cannot be written"):
        fix([PinChange(pin, "==3.4.0")])
