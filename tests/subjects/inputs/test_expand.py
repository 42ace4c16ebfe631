"""Expansion of a matrix and a selection to cells."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flacheck.errors import UsageError
from flacheck.model import Cell, Corpus, Kernel, Launch, Unit
from flacheck.subjects.inputs.expand import Selection, Source, expand, matches_kernel
from flacheck.subjects.inputs.matrix import Block, Matrix

TEMPLATE = {
    "args": {
        "q": {"dtype": "{dtype}", "align": 16},
        "T": {"int": "{T}"},
        "K": {"constexpr": "{K}"},
    },
    "omitted": ["BK"],
    "configs": [
        {"kwargs": {"BK": 32}, "num_warps": 4, "num_stages": 2},
        {"kwargs": {"BK": 64}, "num_warps": 8, "num_stages": 2},
    ],
    "keys": ["K"],
}
SOURCE = Source(
    Kernel("fam.kernel", None, "d", Corpus("fam", "kernel")),
    (Launch.from_json(TEMPLATE),),
    ({"T": 64, "K": 32}, {"T": 128, "K": 64}),
)


def cells(
    selection: Selection = Selection(), exclude: tuple[Any, ...] = (), **axes: Any
) -> list[Cell]:
    block = Block({"target": ("sm90",), "dtype": ("bf16",), "toolchain": ("1",), **axes})
    matrix = Matrix("m", "m.yaml", (block,), exclude=exclude)
    return list(
        expand(matrix, [SOURCE], selection, lambda spec: [f"triton=={v}" for v in spec.split("|")])
    )


def test_own_configurations_bring_their_constants() -> None:
    """Shapes × configurations, the tuned constants in the launch."""
    cells_made = cells()
    assert len(cells_made) == 4
    assert {
        (c.launch.args["BK"]["constexpr"], c.options["num_warps"]) for c in cells_made if c.launch
    } == {(32, 4), (64, 8)}
    assert all(
        c.launch and not c.launch.omitted and not c.launch.configs and not c.is_widened
        for c in cells_made
    )


def test_kernels_of_another_language_are_left_out_before_anything_is_filled_in() -> None:
    """Names of other languages' launches are not looked up in the block's shapes."""
    launch = Launch.from_json({"args": {"D": {"constexpr": "{HEAD_DIM}"}}})
    unit = Kernel("fam.unit", None, "d", Unit("fam.cu"))
    block = Block({"target": ("sm90",), "toolchain": ("1",), "shape": ({"T": 64, "K": 32},)})
    matrix = Matrix("m", "m.yaml", (block,))
    sources = [SOURCE, Source(unit, (launch,))]
    cells_made = list(expand(matrix, sources, Selection(), lambda spec: ["triton==3.6.0"]))
    assert {cell.kernel.name for cell in cells_made} == {"fam.kernel"}


def test_one_configuration_is_the_first_or_the_usual_one() -> None:
    """Among equal warps the smallest tile is usual, and four warps come before all."""
    larger = [
        {"kwargs": {"BK": 16}, "num_warps": 2},
        {"kwargs": {"BK": 128}, "num_warps": 4},
        *TEMPLATE["configs"],
    ]
    source = Source(
        SOURCE.kernel, (Launch.from_json({**TEMPLATE, "configs": larger}),), SOURCE.shapes[:1]
    )
    for which, values in (("first", (16, 2)), ("usual", (32, 4))):
        matrix = Matrix(
            "m", "m.yaml", (Block({"target": ("sm90",), "dtype": ("bf16",), "configs": (which,)}),)
        )
        (cell,) = expand(matrix, [source], Selection(), lambda spec: [spec])
        assert cell.launch
        assert (cell.launch.args["BK"]["constexpr"], cell.options["num_warps"]) == values


def test_names_substitute_with_their_type() -> None:
    """A shape's entry stays a number."""
    launch = cells()[0].launch
    assert launch
    assert launch.args["T"] == {"int": 64}
    assert launch.args["q"] == {"dtype": "bf16", "align": 16}


def test_a_selection_widens_own_configurations_and_says_so() -> None:
    """num_warps 8 with the tiles of another configuration is not in the list."""
    cells_made = cells(Selection(num_warps=(8,)))
    assert {(c.launch.args["BK"]["constexpr"], c.is_widened) for c in cells_made if c.launch} == {
        (32, True),
        (64, False),
    }


def test_a_selection_replaces_the_matrix_axis() -> None:
    """Explicit num_warps in a matrix are replaced; those no configuration has still widen."""
    cells_made = cells(Selection(num_warps=(2,), targets=("sm80",)), num_warps=(4, 8))
    assert {(c.target, c.options["num_warps"], c.is_widened) for c in cells_made} == {
        ("sm80", 2, True)
    }


def test_an_autotuner_run_is_one_cell_with_configurations_and_keys() -> None:
    """Stage autotune, no options."""
    cells_made = cells(stage=("autotune",))
    assert [
        (c.stage, c.options, len(c.launch.configs), c.launch.keys) for c in cells_made if c.launch
    ] == [("autotune", {}, 2, ("K",))] * 2


def test_exclude_needs_every_entry_to_match() -> None:
    """A mapping in exclude is an and, its lists an or."""
    exclude = ({"num_warps": (8,), "shape": ({"T": 64},), "toolchain": ("1",)},)
    assert len(cells(exclude=exclude)) == 3


def test_constants_replace_those_of_the_launch_and_widen() -> None:
    """BK 16 is in no configuration; K as the launch has it widens nothing."""
    cells_made = cells(constants=({"BK": 16}, {"K": 32}), shape=({"T": 64, "K": 32},))
    assert {(c.launch.args["BK"]["constexpr"], c.is_widened) for c in cells_made if c.launch} == {
        (16, True),
        (32, False),
        (64, False),
    }


def test_toolchains_come_one_after_another() -> None:
    """This order keeps workers warm."""
    names = [cell.toolchain for cell in cells(toolchain=("1|2",))]
    assert names == sorted(names)
    assert len(set(names)) == 2


def test_an_unknown_name_in_a_launch_is_an_error() -> None:
    """The message shows the shape that lacks it."""
    with pytest.raises(UsageError, match="is not a name of the shape"):
        cells(shape=({"T": 1},))


@pytest.mark.parametrize("glob", ["fam.kernel", "kernel", "ker*", "fam.*", "*"])
def test_globs_match_the_whole_name_or_its_last_part(glob: str) -> None:
    """Globs match flacheck's own names as they match module:qualname."""
    assert matches_kernel([glob], "fam.kernel")
    assert matches_kernel(["chunk_*"], "fla.ops.x:chunk_o")


def test_a_glob_that_nothing_matches_suggests_what_is_near() -> None:
    """Unknown kernels are a usage error, not an empty selection."""
    with pytest.raises(UsageError, match=r"did you mean .*kernel"):
        cells(Selection(kernels=("kernl",)))


@given(st.integers(1, 9), st.permutations(["bf16", "fp16", "fp32"]))
def test_a_cells_key_depends_on_its_content_alone(count: int, dtypes: list[str]) -> None:
    """The order of axes changes nothing; every cell has another key."""
    one = cells(dtype=tuple(dtypes), num_stages=tuple(range(1, count + 1)))
    two = cells(dtype=tuple(sorted(dtypes)), num_stages=tuple(range(count, 0, -1)))
    assert {c.key for c in one} == {c.key for c in two}
    assert len({c.key for c in one}) == len(one) == 12 * count
