"""The search through a failing cell's candidates, compared with brute force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flacheck.model import Cell, Launch, Record, Verdict
from flacheck.pipeline.fallbacks.candidates import Space
from flacheck.pipeline.fallbacks.constexprs import Constexpr, Constexprs
from flacheck.pipeline.fallbacks.exploration import BRIEF, Exploration, Patience, explore
from flacheck.source.kernel_code import KernelCode
from tests import fake

TILES = ("BK", "BV")
BLOCKS = {name: Constexpr(name, 64, "tunable", "") for name in TILES}
ARGS = {name: {"constexpr": 64} for name in TILES}
AXES = {"num_warps": [1, 2, 8, 16], "num_stages": [1, 2, 4], "BK": [16, 32, 128], "BV": [16, 32]}


def _space(axes: Mapping[str, Sequence[int]]) -> Space:
    constexprs_ = Constexprs(BLOCKS, KernelCode(blocks=frozenset(TILES)))
    failing = {"num_warps": 4, "num_stages": 3, "BK": 64, "BV": 64}
    return Space(failing, axes, constexprs_, ARGS)


@dataclass
class Table:
    """An oracle by a set of settings that compile, with a count of compiles."""

    good: set[tuple[Any, ...]]
    compile_total: int = 0
    signature: str = "FC302:x"

    def __call__(self, cells: Sequence[Cell]) -> dict[str, Record]:
        self.compile_total += len(cells)
        return {
            cell.key: _record(cell, _settings(cell) in self.good, self.signature) for cell in cells
        }


def _settings(cell: Cell) -> tuple[Any, ...]:
    assert cell.launch
    tiles = tuple(cell.launch.args[name]["constexpr"] for name in TILES)
    return cell.options.get("num_warps", 4), cell.options.get("num_stages", 3), *tiles


def _record(cell: Cell, good: bool, signature: str) -> Record:
    blank = dict.fromkeys(Record.__dataclass_fields__)
    constexprs_: dict[str, Any] = {"cell": cell, "verdict": Verdict.COMPILES}
    if not good:
        constexprs_.update(verdict=Verdict.FAILS, signature=signature)
    return Record(**{**blank, **constexprs_})  # type: ignore[arg-type]


def _cell(name: str = "k", version: str = "1.0", target: str = "sm90", **options: int) -> Cell:
    cell = fake.cell(name, version, target, **options)
    return replace(cell, launch=Launch({"x": {"dtype": "bf16", "align": 16}, **ARGS}))


POINTS = st.sets(
    st.tuples(*(st.sampled_from([here, *AXES[name]]) for name, here in zip(AXES, (4, 3, 64, 64)))),
    max_size=12,
)


@given(good=POINTS, axes=st.sets(st.sampled_from(sorted(AXES)), min_size=1))
@settings(max_examples=150, deadline=None)
def test_the_answer_is_the_nearest_that_brute_force_finds(
    good: set[tuple[int, ...]], axes: set[str]
) -> None:
    """The answer is the nearest setting that compiles."""
    space = _space({name: AXES[name] for name in AXES if name in axes})
    order = list(space.nearest_first())
    assert len(order) == len(space)
    assert order == sorted(order, key=space.rank)
    way = Exploration([_cell()], "FC302:other", space, budget=len(space))
    explore([way], Table(good))
    nearest = next((each for each in order if _settings(each.of(_cell())) in good), None)
    assert way.answer == nearest


@given(good=POINTS, budget=st.integers(1, 60), width=st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_a_budget_bounds_the_search_and_never_makes_it_lie(
    good: set[tuple[int, ...]], budget: int, width: int
) -> None:
    """An answer compiles, and the budget is not exceeded."""
    space, table = _space(AXES), Table(good)
    way = Exploration([_cell()], "FC302:other", space, budget)
    while not way.is_done:
        way.learn(table(way.next_cells(width)))
    assert table.compile_total <= budget
    assert way.answer is None or _settings(way.answer.of(_cell())) in good


@given(good=POINTS)
@settings(max_examples=40, deadline=None)
def test_the_width_of_the_search_does_not_change_its_answer(good: set[tuple[int, ...]]) -> None:
    """The answer does not depend on the number of parallel candidates."""
    answers = []
    for width in (1, 5):
        way = Exploration([_cell()], "FC302:x", _space(AXES), 60)
        table = Table(good)
        while not way.is_done:
            way.learn(table(way.next_cells(width)))
        answers.append(way.answer)
    assert answers[0] == answers[1]


@pytest.mark.parametrize(("patience", "compile_total"), [(Patience(), 13), (BRIEF, 3)])
def test_a_failure_that_no_setting_changes_is_given_up_early(
    patience: Patience, compile_total: int
) -> None:
    """The search ends early if the nearest and smallest settings fail alike."""
    table = Table(set())
    way = Exploration([_cell()], table.signature, _space(AXES), 60, patience)
    explore([way], table)
    assert way.answer is None
    assert way.hopeless
    assert table.compile_total == way.compile_count == compile_total


def test_a_corner_that_compiles_is_the_answer_of_a_spent_budget() -> None:
    """A distant setting is the answer if no nearer one compiles."""
    corner = (8, 1, 16, 16)
    way = Exploration([_cell()], "FC302:x", _space(AXES), 30)
    explore([way], Table({corner}))
    assert not way.hopeless
    assert way.compile_count == 30
    assert way.answer
    assert dict(way.answer.use) == {
        "BK": 16,
        "BV": 16,
        "num_stages": 1,
        "num_warps": 8,
    }


def test_what_is_no_lighter_than_a_time_out_is_not_tried() -> None:
    """Settings at least as heavy as a timeout are not tried."""

    def oracle(cells: Sequence[Cell]) -> dict[str, Record]:
        settings_seen.update(map(_settings, cells))
        records = {cell.key: _record(cell, False, "FC302:y") for cell in cells}
        slow = {"verdict": Verdict.UNKNOWN, "code": "FC901", "signature": None}
        return {
            c.key: replace(records[c.key], **slow) if _settings(c)[0] <= 2 else records[c.key]
            for c in cells
        }

    settings_seen: set[tuple[Any, ...]] = set()
    space = _space({"num_warps": [1, 2, 8], "BK": [32, 128]})
    way = Exploration([_cell()], "FC302:x", space, len(space))
    while not way.is_done:
        way.learn(oracle(way.next_cells(1)))
    assert settings_seen == {(w, 3, k, 64) for w in (2, 8) for k in (32, 64, 128)} - {
        (2, 3, 128, 64)
    } | {
        (4, 3, 32, 64),
        (4, 3, 128, 64),
    }


def test_a_candidate_has_to_compile_everywhere() -> None:
    """The second place compiles only what the first one did."""
    first, second = _cell(version="1.0"), _cell(version="2.0")
    good = {"1.0": {(2, 3, 64, 64), (8, 3, 64, 64)}, "2.0": {(8, 3, 64, 64)}}

    def oracle(cells: Sequence[Cell]) -> dict[str, Record]:
        compiles.extend(cells)
        return {
            c.key: _record(c, _settings(c) in good[c.toolchain.partition("==")[2]], "FC302:x")
            for c in cells
        }

    compiles: list[Cell] = []
    way = Exploration([first, second], "FC302:x", _space({"num_warps": [2, 8, 16]}))
    explore([way], oracle)
    assert way.answer
    assert dict(way.answer.use) == {"num_warps": 8}
    assert sum(cell.toolchain == "fake==2.0" for cell in compiles) == 2
