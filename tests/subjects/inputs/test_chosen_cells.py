"""The cells of recorded launches that are compiled: the usual ones, those of `edges`, or all."""

from __future__ import annotations

from typing import Any

import pytest

from flacheck.model import Cell, Imported, Kernel, Launch
from flacheck.subjects.inputs import chosen_cells
from flacheck.subjects.inputs.chosen_cells import RecordedKernels, choose_cells
from flacheck.subjects.inputs.expand import Selection, Source
from flacheck.subjects.inputs.matrix import Block, Matrix

CONFIGS = tuple(
    {"kwargs": {"BV": tile}, "num_warps": warps, "num_stages": 2}
    for tile in (16, 32, 64)
    for warps in (2, 4, 8)
)
AXES: dict[str, Any] = {"target": ("sm80", "sm90"), "toolchain": ("triton==3.6.0",)}


def kernels_of(made_up: bool = False) -> RecordedKernels:
    """A kernel that is launched with two head sizes."""
    kernel = Kernel("m:k", None, "d", Imported("m", "k", made_up))
    launches = []
    for size in (64, 256):
        args = {"x": {"dtype": "bf16", "align": 16}, "K": {"constexpr": size}}
        launches.append(Launch(args, ("BV",), CONFIGS, ("K",)))
    matrix = Matrix("m", "m", (Block(AXES),))
    return RecordedKernels(
        matrix, [Source(kernel, tuple(launches[:1]))], [Source(kernel, tuple(launches))]
    )


def choose(configs: str | None, made_up: bool = False) -> chosen_cells.ChosenCells:
    return choose_cells(kernels_of(made_up), configs, Selection(), lambda spec: (spec,))


def brief(cells: Any) -> set[tuple[str, int, int, int]]:
    rows = set()
    for cell in cells:
        args = cell.launch.args
        size, tile = args["K"]["constexpr"], args["BV"]["constexpr"]
        rows.add((cell.target, size, tile, cell.options["num_warps"]))
    return rows


def test_edges_are_the_usual_cells_and_a_few_of_all() -> None:
    """The cells are the same on every target, each once."""
    usual, edges, own = (choose(name) for name in ("usual", "edges", "own"))
    assert brief(usual.usual) == {("sm80", 64, 16, 4), ("sm90", 64, 16, 4)}
    assert usual.others == []
    assert brief(edges.usual) == brief(own.usual) == brief(usual.usual)
    assert {row[1:] for row in brief(edges.others)} == {(256, 64, 8), (64, 16, 8)}
    assert len(edges.others) == 4
    assert {cell.key for cell in edges.others} < {cell.key for cell in own.others}
    assert len(own.usual) + len(own.others) == 2 * 2 * len(CONFIGS)


def test_each_added_cell_has_the_other_configurations_of_its_launch() -> None:
    """If its autotuner skips it, another one shows that the launch compiles."""
    own = {cell.key for cell in (*choose("own").usual, *choose("own").others)}
    for cell in choose("edges").others:
        others = list(cell.others())
        assert {other.key for other in others} <= own - {cell.key}
        assert len(others) == len(CONFIGS) - 1
        assert brief(others[:1]) == {(*brief([cell]).pop()[:2], 16, 4)}
        assert {each.launch.args["K"]["constexpr"] for each in others if each.launch} == {
            cell.launch.args["K"]["constexpr"] if cell.launch else None
        }
    assert all(not cell.alternatives for cell in choose("edges", made_up=True).others)


@pytest.mark.parametrize(("most", "configs"), [(17, "edges"), (18, "own")])
def test_the_default_depends_on_the_number_of_configurations(
    monkeypatch: pytest.MonkeyPatch, most: int, configs: str
) -> None:
    """The number is counted for each toolchain and target."""
    monkeypatch.setattr(chosen_cells, "MOST_OWN", most)
    assert choose(None).configs == configs


def test_the_usual_cells_do_not_depend_on_what_follows() -> None:
    """A later scan of all configurations reuses their records."""

    def keys(cells: Any) -> list[str]:
        return [cell.key for cell in cells if isinstance(cell, Cell)]

    assert keys(choose("usual").usual) == keys(choose("own").usual) == keys(choose("edges").usual)
