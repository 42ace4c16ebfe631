"""The extreme configurations that are compiled besides the usual one."""

from __future__ import annotations

from typing import Any

from flacheck.subjects.inputs.edges import EACH, MOST, Group, LaunchSettings, choose

TENSOR = {"dtype": "bf16", "align": 16}


def settings(
    tile: int, warps: int, stages: int = 2, made_up: bool = False, **args: Any
) -> LaunchSettings:
    options = {"num_warps": warps, "num_stages": stages}
    return LaunchSettings({"x": TENSOR, **args}, options, {"BV": tile}, made_up)


def choose_edges(usual: LaunchSettings, *candidates: LaunchSettings) -> list[LaunchSettings]:
    (indices,) = choose([Group([usual], candidates)])
    return [candidates[index] for index in indices]


def test_many_warps_are_tried_on_the_smallest_and_on_the_largest_tile() -> None:
    """Both may fail where the usual configuration compiles."""
    usual = settings(32, 4)
    every = [settings(tile, warps) for tile in (16, 32, 64) for warps in (2, 4, 8)]
    assert choose_edges(usual, *every) == [settings(64, 8), settings(16, 8)]


def test_a_launch_without_an_argument_is_tried() -> None:
    """Without the argument the kernel takes another branch."""
    usual, other = settings(32, 4, g=TENSOR), settings(32, 4, g=None)
    assert choose_edges(usual, usual, settings(32, 4, g=TENSOR), other) == [other]


def test_the_largest_constant_of_a_launch_is_tried() -> None:
    """A number that specialises nothing is not tried."""
    usual = settings(32, 4, K={"constexpr": 64}, T={"int": 64})
    large = settings(32, 4, K={"constexpr": 256}, T={"int": 64})
    between = settings(32, 4, K={"constexpr": 128}, T={"int": 8192})
    assert choose_edges(usual, between, large) == [large]
    assert choose_edges(usual, settings(32, 4, K={"constexpr": 64}, T={"int": 8192})) == []


def test_constants_that_are_equal_elsewhere_are_tried_apart() -> None:
    """A kernel may confuse the head sizes of keys and values; neither size is an extreme."""
    usual, between, large = (
        settings(32, 4, K={"constexpr": size}, V={"constexpr": size}) for size in (16, 64, 256)
    )
    apart = settings(32, 4, K={"constexpr": 64}, V={"constexpr": 128})
    assert choose_edges(usual, between, large, apart) == [large, apart]


def test_a_launch_of_a_program_comes_before_one_with_invented_arguments() -> None:
    """This applies if both have the same traits."""
    usual = settings(32, 4)
    made_up, plain = settings(32, 8, made_up=True), settings(32, 8)
    assert choose_edges(usual, made_up, plain) == [plain]


def many() -> list[LaunchSettings]:
    """Return more traits than one kernel may have configurations."""
    args = dict.fromkeys(("g", "h0", "mask", "lengths", "bias"), TENSOR)
    every = []
    for tile in (16, 32, 64, 128):
        for warps in (1, 2, 4, 8, 16):
            every.append(settings(tile, warps, **args))
    for name in args:
        every.append(settings(32, 4, **{**args, name: None}))
    return every


def test_three_times_the_usual_compiles_are_the_most() -> None:
    """A kernel that needs fewer leaves the others more, up to a limit."""
    usual = settings(32, 4)
    large, small = Group([usual], many()), Group([usual], [usual])
    assert [len(indices) for indices in choose([large, large])] == [EACH, EACH]
    assert [len(indices) for indices in choose([small, large, small])] == [0, MOST, 0]
    first, none, second = (len(indices) for indices in choose([large, small, large]))
    assert (first + second, none) == (3 * EACH, 0)


def test_nothing_is_added_to_the_only_configuration() -> None:
    """The only configuration is the usual one."""
    assert choose_edges(settings(32, 4), settings(32, 4)) == []
