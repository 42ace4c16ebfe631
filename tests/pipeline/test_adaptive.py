"""The cells that an adaptive scan compiles: the most informative ones first."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import flacheck
from flacheck.evidence.analysis.ordered_search import State
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standing_state import StandingState
from flacheck.evidence.analysis.standings import standings
from flacheck.model import Cell, Verdict
from flacheck.pipeline import planning
from flacheck.pipeline import run as runs
from flacheck.pipeline.adaptive import Point, choose_rounds, point_of
from flacheck.pipeline.events import Progress, RecordSettled
from flacheck.pipeline.job import ADAPTIVE, Job, RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import run_plan
from flacheck.store import Store, questions
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.extents import extents, of_cells
from flacheck.subjects.inputs.subject import Subject
from tests import fake
from tests.made_toolkit import project, toolkit

KERNELS = [f"k{n}" for n in range(8)]
TARGETS = ["sm70", "sm80", "sm90"]
RELEASES = [f"triton==3.{minor}.0" for minor in range(10)]
WARPS = [1, 2, 4, 8]


def cross() -> dict[str, Point]:
    """All cells of eight kernels, three GPUs, ten releases and four numbers of warps."""
    points: dict[str, Point] = {}
    for values in itertools.product(KERNELS, TARGETS, RELEASES, WARPS):
        axes = ("kernel", "target", "toolchain", "option num_warps")
        points["/".join(map(str, values))] = dict(zip(axes, values))
    return points


def replay(
    points: Mapping[str, Point], state: Callable[[Point], State], share: float = 0.0
) -> dict[str, State]:
    """Return the states of the chosen cells, each computed by the function."""
    states: dict[str, State] = {}
    for keys in choose_rounds(points, states, share):
        assert not set(keys) & set(states)
        for key in keys:
            states[key] = state(points[key])
    return states


def pairs(points: Iterator[Point]) -> set[Any]:
    pairs_seen: set[Any] = set()
    for point in points:
        pairs_seen.update(map(frozenset, itertools.combinations(point.items(), 2)))
    return pairs_seen


@pytest.mark.parametrize("left_out", [0, 3])
def test_the_chosen_cells_hold_every_pair_of_values_that_cells_have(left_out: int) -> None:
    """This also holds for a part of a product: kernels have constants of their own."""
    points = {}
    for number, (key, point) in enumerate(cross().items()):
        if not left_out or number % left_out:
            points[key] = point
    states: dict[str, State] = {}
    first_round = next(choose_rounds(points, states, 0.15))
    assert pairs(points[key] for key in first_round) == pairs(iter(points.values()))
    assert len(first_round) < 0.15 * len(points)


def test_a_kernel_with_one_cell_for_each_dtype_is_compiled_in_one() -> None:
    """All pairs of a kernel and a dtype would be all cells."""
    points = {}
    for kernel, dtype in itertools.product(KERNELS, ["bf16", "fp16", "fp32"]):
        warps = 4 if kernel == KERNELS[0] else 8
        points[f"{kernel}/{dtype}"] = {"kernel": kernel, "dtype": dtype, "option num_warps": warps}
    states_of_chosen = replay(points, lambda point: "compiles", share=0.15)
    assert {points[key]["kernel"] for key in states_of_chosen} == set(KERNELS)
    # Both numbers of warps are compiled in each dtype.
    assert len(states_of_chosen) == len(KERNELS) + 2


def test_a_failure_is_searched_until_its_first_and_last_release_are_known() -> None:
    """The search also covers the neighbours of its GPU and its warps."""
    failing = set(RELEASES[3:8])

    def state(point: Point) -> State:
        fails = point["kernel"] == "k5" and point["toolchain"] in failing
        return "FC302" if fails else "compiles"

    points = cross()
    states = replay(points, state)
    first = next(points[key] for key in states if states[key] == "FC302")
    line = {}
    for key, each in states.items():
        if {**points[key], "toolchain": ""} == {**first, "toolchain": ""}:
            line[points[key]["toolchain"]] = each
    around = [RELEASES[place] for place in (2, 3, 7, 8)]
    assert [line.get(release) for release in around] == ["compiles", "FC302", "FC302", "compiles"]
    beside = [key for key in states if {**points[key], "target": ""} == {**first, "target": ""}]
    assert len(beside) == len(TARGETS)


def test_at_least_the_share_is_compiled_and_never_a_cell_twice() -> None:
    """Triples of values that no cell has had so far come first."""
    points = cross()
    states_of_chosen = replay(points, lambda point: "compiles", share=0.3)
    assert len(states_of_chosen) == 0.3 * len(points)


def test_all_is_compiled_where_every_cell_has_its_own_values() -> None:
    """Without shared values, no cell stands for another one."""
    points = {str(n): {"kernel": f"k{n}", "target": f"sm{n}"} for n in range(5)}
    assert set(replay(points, lambda point: None)) == set(points)


def test_values_of_a_single_axis_are_all_covered() -> None:
    """Kernels that differ in one axis have no pairs of values, and each value is covered."""
    points = {f"k{n}": {"kernel": f"k{n}", "target": "sm90", "launch": "x"} for n in range(5)}
    assert set(replay(points, lambda point: "compiles")) == set(points)


def unit_cells(root: Path, folder: Path) -> dict[str, Cell]:
    selection = Selection(targets=("sm90a",), toolchains=(str(toolkit(folder)),))
    plan = planning.plan_job(Job(Subject(package=str(root)), selection))
    return {cell.key: cell for cell in plan.cells}


def test_generated_units_are_covered_by_the_parts_of_their_names(tmp_path: Path) -> None:
    """Each part is in a compiled unit, and so is each macro; a unit with its own part is compiled."""
    features = ("", "_paged", "_split", "_paged_split")
    names = [f"fwd_{dtype}{feature}" for dtype in ("bf16", "fp16", "e4m3") for feature in features]
    root = project(tmp_path, **dict.fromkeys([*names, "api"], ""))
    cells = unit_cells(root, tmp_path)
    points = {key: point_of(cell) for key, cell in cells.items()}
    states_of_chosen = replay(points, lambda point: "compiles")
    assert len(cells) == 26 and len(states_of_chosen) < 13
    combinations = {
        (cells[key].kernel.name, points[key]["constant ELEMENT"]) for key in states_of_chosen
    }
    assert {("csrc/api.cu", "bf16"), ("csrc/api.cu", "fp8")} <= combinations
    parts = set()
    for name, _ in combinations:
        parts.update(re.findall("[a-z0-9]+", name))
    assert parts >= {"bf16", "fp16", "e4m3", "paged", "split"}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The fake compiler's failures; without any, all compiles."""
    table: dict[str, Any] = {}
    monkeypatch.setattr(runs, "Provider", lambda *_: fake.Provider(table))
    monkeypatch.setattr(runs.torch_pins, "refresh", lambda: None)
    return table


def many_cells() -> list[Cell]:
    cells = []
    for name, warps, stages in itertools.product("abcdef", (1, 2, 4, 8), (1, 2, 3, 4, 5)):
        cells.append(fake.cell(name, num_warps=warps, num_stages=stages))
    return cells


def standing_in(store: Store) -> Standing:
    (standing,) = standings(questions.in_force(store), store.current)
    return standing


def plan_of(cells: list[Cell]) -> Plan:
    return Plan("mine", cells, {}, extents=extents(of_cells(cells)))


def test_what_was_not_compiled_makes_the_answer_screened(
    store: Store, table: dict[str, Any]
) -> None:
    """The answer has both numbers; the whole question would be good."""
    cells = many_cells()
    events = list(run_plan(plan_of(cells), store, RunOptions(jobs=1, strategy=ADAPTIVE)))
    records = [event.record for event in events if isinstance(event, RecordSettled)]
    standing = standing_in(store)
    assert 0 < len(records) < len(cells)
    assert standing.state is StandingState.SCREENED
    assert standing.extent_text.startswith(f"{len(records)} of 120 configurations")
    sentence = f"{len(records)} of 120 cells compiled, {120 - len(records)} not tried"
    messages = [event.message for event in events if isinstance(event, Progress)]
    assert messages == [f"--strategy adaptive: {sentence}"]
    list(run_plan(plan_of(cells), store, RunOptions(jobs=1)))
    assert standing_in(store).state is StandingState.GOOD


def test_an_interrupted_choice_is_partial(store: Store, table: dict[str, Any]) -> None:
    """The question covers all cells until the choice has ended."""
    events = run_plan(plan_of(many_cells()), store, RunOptions(jobs=1, strategy=ADAPTIVE))
    for event in events:
        if isinstance(event, RecordSettled):
            break
    events.close()
    standing = standing_in(store)
    assert (standing.state, standing.requested_count) == (StandingState.PARTIAL, 120)


def test_a_kernel_that_fails_everywhere_is_found(store: Store, table: dict[str, Any]) -> None:
    """One failure makes the release bad."""
    table["c"] = "abort f.cpp:1: int f(int) const: Assertion `size == want' failed."
    events = run_plan(plan_of(many_cells()), store, RunOptions(jobs=1, strategy=ADAPTIVE))
    records = [event.record for event in events if isinstance(event, RecordSettled)]
    failing = {record.kernel for record in records if record.verdict is Verdict.FAILS}
    assert failing == {"fake.c"}
    standing = standing_in(store)
    assert standing.state is StandingState.BAD


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": "clever"}, "--strategy clever: expected all or adaptive"),
        ({"strategy": "adaptive", "shard": "1/2"}, "--strategy adaptive chooses by the results"),
    ],
)
def test_a_strategy_that_cannot_be_had_is_an_error(
    tmp_path: Path, arguments: dict[str, str], message: str
) -> None:
    """The error comes before any compile."""
    with pytest.raises(flacheck.FlacheckError, match=message) as error:
        flacheck.scan("quick", store=tmp_path / "store", **arguments)  # type: ignore[arg-type]
    assert error.value.exit_code == 2
    assert not (tmp_path / "store").exists()


def test_the_largest_cells_of_each_kernel_are_compiled_first() -> None:
    """One cell of a thousand is too large for its GPU; its values are common ones."""
    points = {}
    for number, (key, point) in enumerate(cross().items()):
        size = number % 7 if key != "k5/sm70/triton==3.4.0/4" else 7
        points[key] = {**point, "size": size}
    states = replay(points, lambda point: "FC501" if point["size"] == 7 else "compiles", 0.1)
    assert "FC501" in states.values()
    assert len(states) < 0.12 * len(points)
