"""The configurations of a launch that are compiled, and its alternatives."""

from __future__ import annotations

from typing import Any

import pytest

from flacheck.model import Cell, Imported, Kernel, Launch
from flacheck.subjects.inputs.configurations import choices
from flacheck.subjects.inputs.expand import Selection, Source, expand
from flacheck.subjects.inputs.matrix import Block, Matrix

CONFIGS = (
    {"kwargs": {"BK": 64}, "num_warps": 4, "num_stages": 4},
    {"kwargs": {"BK": 32}, "num_warps": 8, "num_stages": 3},
    {"kwargs": {"BK": 32}, "num_warps": 4, "num_stages": 3},
    {"kwargs": {"BK": 64}, "num_warps": 2, "num_stages": 1},
)
LAUNCH = Launch({"x": {"dtype": "bf16", "align": 16}}, ("BK",), CONFIGS, ("N",))


def settings(axes: dict[str, Any], **selected: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """Each choice and its alternatives: (BK, num_warps, num_stages)."""

    def brief(constants: Any, options: Any) -> tuple[Any, ...]:
        return constants["BK"], options["num_warps"], options["num_stages"]

    return [
        (brief(each.constants, each.options), *(brief(*other) for other in each.others))
        for each in choices(LAUNCH, axes, selected)
    ]


def cells(configs: str, made_up: bool = False) -> list[Cell]:
    axes = {"target": ("sm90",), "toolchain": ("triton==3.6.0",), "configs": (configs,)}
    source = Source(Kernel("m:k", None, "d", Imported("m", "k", made_up)), (LAUNCH,))
    return list(expand(Matrix("m", "m", (Block(axes),)), [source], Selection(), lambda s: (s,)))


def test_the_one_that_is_usual_has_the_others_behind_it() -> None:
    """The alternatives are ordered by memory: few stages of a small tile come first."""
    assert settings({"configs": ("usual",)}) == [
        ((32, 4, 3), (64, 2, 1), (32, 8, 3), (64, 4, 4)),
    ]


@pytest.mark.parametrize("warps", [None, 0, -1])
def test_a_configuration_without_warps_is_usual_only_where_others_are_none(
    warps: int | None,
) -> None:
    """Triton has a default for None, and refuses less than one warp."""
    configs = ({"kwargs": {"BK": 32}, "num_warps": warps, "num_stages": None}, CONFIGS[1])
    (choice,) = choices(Launch(LAUNCH.args, ("BK",), configs), {"configs": ("usual",)}, {})
    assert (choice.options.get("num_warps") == 8) == (warps is not None)


def test_a_choice_that_was_made_by_name_has_none() -> None:
    """A selection of all or of the first leaves no alternatives."""
    for which in ("own", "first"):
        assert all(len(each) == 1 for each in settings({"configs": (which,)}))
    assert len(settings({"configs": ("own",)})) == len(CONFIGS)


def test_what_is_selected_holds_for_the_alternatives() -> None:
    """Alternatives that differ in nothing else are one."""
    assert settings({"configs": ("usual",)}, num_warps=(1,), num_stages=()) == [
        ((32, 1, 3), (64, 1, 1), (64, 1, 4)),
    ]
    two = settings({"configs": ("usual",)}, num_warps=(1, 2))
    assert [{warps for _, warps, _ in each} for each in two] == [{1}, {2}]


def test_a_configuration_that_tunes_other_constants_is_none() -> None:
    """A configuration of other constants would leave part of the launch without a value."""
    other = Launch(LAUNCH.args, (), (CONFIGS[0], {"kwargs": {"BV": 8}, "num_warps": 4}))
    (choice,) = choices(other, {"configs": ("usual",)}, {})
    assert choice.others == ()


def test_the_axes_of_a_matrix_leave_nothing_to_choose() -> None:
    """Warps of a matrix are combined with every tile."""
    choices_made = list(choices(LAUNCH, {"num_warps": (4,)}, {}))
    assert [(dict(each.constants), dict(each.options), each.others) for each in choices_made] == [
        ({"BK": 64}, {"num_warps": 4}, ()),
        ({"BK": 32}, {"num_warps": 4}, ()),
    ]


def test_an_alternative_is_the_cell_that_a_scan_of_all_asks() -> None:
    """One record serves both."""
    (usual,) = cells("usual")
    everything = {cell.key: cell for cell in cells("own")}
    others = list(usual.others())
    assert {usual.key, *(other.key for other in others)} == everything.keys()
    assert all(not other.alternatives and not other.is_widened for other in others)
    assert [other.configs for other in others] == [CONFIGS] * 3


def test_a_made_up_launch_has_no_alternatives() -> None:
    """A made-up launch that does not fit stays untested."""
    (cell,) = cells("usual")
    (made_up,) = cells("usual", made_up=True)
    assert (len(cell.alternatives), made_up.alternatives) == (3, ())
