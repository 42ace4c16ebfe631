"""Cells and their keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flacheck.model import Launch
from flacheck.model.cell import Alternative, Cell
from tests import fake
from tests.made_records import record


def test_a_stored_key_is_not_taken_to_another_cell() -> None:
    """A changed cell does not keep its stored key."""
    cell = record().cell
    other = replace(cell, toolchain="triton==3.9.0")
    assert other.key != cell.key


def test_cells_with_the_same_content_are_one_key() -> None:
    """The shape and the autotuner's list are not in the key."""
    cell = fake.cell("k", num_warps=4)
    assert replace(cell, shape={"T": 8}, configs=({"num_warps": 4},)).key == cell.key
    assert replace(cell, until="ttir").key != cell.key


@pytest.mark.parametrize(
    "change",
    [
        {"toolchain": "fake==2.0"},
        {"target": "sm80"},
        {"options": {"num_warps": 8}},
        {"launch": Launch({"x": {"dtype": "fp16", "align": 16}})},
        {"launch": None},
        {"stage": "autotune"},
        {"until": "ttir"},
    ],
)
def test_whatever_can_change_the_outcome_changes_the_key(change: dict[str, object]) -> None:
    """A change of toolchain, target, options, launch or stage changes the key."""
    cell = fake.cell("k", num_warps=4)
    assert replace(cell, **change).key != cell.key  # type: ignore[arg-type]


def test_an_identity_leaves_out_what_two_cells_may_differ_in() -> None:
    """Without the toolchain, cells of two compilers are equal."""
    cell = fake.cell("k", num_warps=4)
    other = replace(cell, toolchain="fake==2.0")
    assert other.identity(without=["toolchain"]) == cell.identity(without=["toolchain"])
    assert other.identity(without=["stage"]) != cell.identity(without=["stage"])


def test_an_identity_can_ignore_options() -> None:
    """An ignored option does not separate two cells."""
    cell = fake.cell("k", num_warps=4)
    other = replace(cell, options={"num_warps": 4, "num_ctas": 1})
    assert other.identity([], ["num_ctas"]) == cell.identity([])
    assert other.identity([]) != cell.identity([])


def test_a_kernels_source_is_part_of_the_key() -> None:
    """An edited kernel has another key."""
    cell: Cell = fake.cell("k")
    assert replace(cell, kernel=replace(cell.kernel, digest="1")).key != cell.key


def test_options_in_another_order_are_the_same_cell() -> None:
    """The order of options does not matter."""
    one, other = (
        fake.cell("k", num_warps=4, num_stages=2),
        fake.cell("k", num_stages=2, num_warps=4),
    )
    assert one.key == other.key
    assert {one: 1}.keys() == {other: 1}.keys()


def test_a_record_knows_its_key_where_nobody_knows_the_source() -> None:
    """A stored key is not computed again."""
    assert fake.cell("k").with_key("0" * 32).key == "0" * 32


def test_an_alternative_is_a_cell_of_its_own_without_alternatives() -> None:
    """An alternative has its own constants and options, and no further alternatives."""
    launch = Launch({"x": {"dtype": "bf16", "align": 16}, "BK": {"constexpr": 64}})
    others = (
        Alternative({"BK": 32}, {"num_warps": 2}),
        Alternative({"BK": 16}, {"num_warps": 1}, is_widened=True),
    )
    cell = replace(fake.cell("k", num_warps=4), launch=launch, alternatives=others)
    first, second = cell.others()
    assert (first.alternatives, second.alternatives) == ((), ())
    assert first.launch is not None
    assert first.launch.args["BK"] == {"constexpr": 32}
    assert (first.options, second.options) == ({"num_warps": 2}, {"num_warps": 1})
    assert (first.is_widened, second.is_widened) == (False, True)
    assert len({cell.key, first.key, second.key}) == 3
