"""Releases on which every requested cell compiles, and their pins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings

from flacheck.evidence.analysis.context import Context
from flacheck.evidence.analysis.known_good import Specifier
from flacheck.evidence.analysis.standing_state import StandingState
from flacheck.evidence.analysis.summary import Summary, summarise
from flacheck.model import Record, Verdict
from tests.made_records import (
    CONTEXT,
    RUNS,
    failure,
    record,
    skipped,
    summary_of,
    unknown,
    whole,
)


def _good(*records: Record) -> list[str]:
    releases = summary_of(records).known_good
    return [release.triton for release in releases if release.state is StandingState.GOOD]


def test_specifiers_name_triton_and_torch_for_each_target() -> None:
    """Pins are listed for each target; a local build has none."""
    releases = ["3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.6.0+local.ab12cd34"]
    cells = [
        failure(toolchain=f"triton=={v}") if v == "3.2.0" else record(toolchain=f"triton=={v}")
        for v in releases
    ]
    summary = summary_of([*cells, record(toolchain="triton==3.2.0", target="sm80")])
    assert [release.triton for release in summary.known_good] == releases
    assert summary.known_good[-1].torch == ()
    assert summary.specifiers == (
        Specifier("sm80", "triton==3.2.0", "torch==2.6.0"),
        Specifier("sm90", "triton>=3.1.0,!=3.2.0,<=3.4.0", "torch>=2.5.0,!=2.6.0,<=2.8.0"),
    )


def test_a_specifier_knows_the_releases_that_nobody_asked_for() -> None:
    """The specifier is computed from all known releases."""
    calls = []

    def specifier(*arguments: object) -> str:
        calls.append(arguments)
        return "triton<9"

    context = Context(specifier=specifier, known_triton=["3.2.0", "3.9.0"])
    assert summary_of([record()], context).specifiers == (Specifier("sm90", "triton<9", None),)
    assert calls == [("triton", ["3.2.0"], ["3.2.0", "3.9.0"])]


def test_other_compilers_are_not_taken_for_triton() -> None:
    """A release of nvcc is known good by its own name, without pins."""
    summary = summary_of([record(toolchain="nvcc==13.1.115")], CONTEXT)
    (good,) = summary.known_good
    assert (good.toolchain, good.triton, good.torch) == ("nvcc==13.1.115", None, ())
    assert summary.specifiers == ()


@settings(deadline=None)
@given(RUNS)
def test_known_good_agrees_with_its_definition(cells: list[Record]) -> None:
    """A release is known good exactly if the contract's definition holds."""
    for triton in ("3.1.0", "3.2.0"):
        cells_of_release = [c for c in cells if c.toolchain == f"triton=={triton}"]
        holds = (
            any(c.verdict is not Verdict.SKIPPED for c in cells_of_release)
            and not any(c.verdict is Verdict.FAILS and not c.tolerated for c in cells_of_release)
            and {c.dtype for c in cells_of_release}
            == {c.dtype for c in cells_of_release if c.verdict is Verdict.COMPILES}
        )
        assert (triton in _good(*cells)) == holds


def test_a_compile_stopped_on_request_makes_no_release_known_good() -> None:
    """A compile stopped by --until is not evidence for the later stages."""
    assert summary_of([record()], Context()).known_good
    assert not summary_of([record(reason="up to ttgir")], Context()).known_good


def test_advisories_are_told_of_every_release_that_was_asked() -> None:
    """A failing release's advisories are listed once for all its targets."""
    context = replace(CONTEXT, advisories=lambda triton, target: [f"{triton} computes wrongly"])
    cells_of_release = [failure(), record(toolchain="triton==3.1.0"), record(target="sm80")]
    assert summary_of(cells_of_release, context).advisories == (
        ("3.1.0", ("sm90",), "3.1.0 computes wrongly"),
        ("3.2.0", ("sm80", "sm90"), "3.2.0 computes wrongly"),
    )


def _made_up(**more: Any) -> Record:
    """Return a record of an invented launch that the front end rejects."""
    return failure("FC000", "unsupported operand", stage="ast", **more)


def _with_made_up(cells: Sequence[Record]) -> Summary:
    """Return the summary of a scan whose front-end failures were invented launches."""
    made_up = [cell.key for cell in cells if cell.stage == "ast"]
    standings = whole(cells, made_up=made_up)
    return summarise(cells, replace(CONTEXT, standings=standings, made_up=frozenset(made_up)))


def test_known_good_counts_only_cells_with_evidence() -> None:
    """Untested launches, timeouts and skipped cells are not counted."""
    cells = [
        record(),
        record(options={"num_warps": 8}),
        failure("FC501", tolerated=True, options={"num_warps": 16}),
        unknown(options={"num_warps": 2}),
        skipped(options={"num_warps": 1}),
        *(_made_up(kernel=f"m:kernel_{number}") for number in range(4)),
    ]
    (release,) = _with_made_up(cells).known_good
    assert release.cells == 3
