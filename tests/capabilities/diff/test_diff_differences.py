"""The kind of difference between a pair of records."""

from __future__ import annotations

from typing import Any

import pytest

from flacheck.capabilities.diff.differences import Difference, DifferenceKind, differences
from flacheck.capabilities.diff.matching import Pair, match
from flacheck.model import Record
from tests.made_records import failure, record, skipped, unknown

OLD, NEW = "triton==3.1.0", "triton==3.2.0"


def change(
    before: Record, after: Record, untested_keys: Any = None, is_waived: bool = False
) -> Difference:
    (difference,) = differences(
        [Pair(before, after, exact=True)],
        untested_keys or {},
        lambda record: is_waived,
        lambda record: "gone",
        lambda record: "new",
    )
    return difference


def compiles(toolchain: str = OLD, **more: Any) -> Record:
    return record(toolchain=toolchain, **more)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (compiles(OLD), compiles(NEW), DifferenceKind.UNCHANGED),
        (compiles(OLD), failure(toolchain=NEW), DifferenceKind.REGRESSED),
        (failure(toolchain=OLD), compiles(NEW), DifferenceKind.MENDED),
        (failure(toolchain=OLD), failure(toolchain=NEW), DifferenceKind.UNCHANGED),
        (
            failure(toolchain=OLD),
            failure(line="another", toolchain=NEW),
            DifferenceKind.CHANGED_CAUSE,
        ),
        (compiles(OLD), unknown(toolchain=NEW), DifferenceKind.UNKNOWN),
        (unknown(toolchain=OLD), failure(toolchain=NEW), DifferenceKind.UNKNOWN),
        (skipped(toolchain=OLD), compiles(NEW), DifferenceKind.MENDED),
        (compiles(OLD), skipped(toolchain=NEW), DifferenceKind.REGRESSED),
    ],
)
def test_each_pair_of_verdicts_has_its_kind(
    before: Record, after: Record, kind: DifferenceKind
) -> None:
    """An unknown is never a regression; a target that TO does not know is one."""
    assert change(before, after).kind is kind


def test_what_only_one_side_has_is_never_unchanged() -> None:
    """A kernel of one side alone has that side's reason."""
    pairs = match([compiles(OLD)], [compiles(NEW, kernel="other")])
    pair = differences(pairs, {}, lambda _: False, lambda _: "not launched", lambda _: "new here")
    assert [(each.kind, each.reason) for each in pair] == [
        (DifferenceKind.ONLY_FROM, "not launched"),
        (DifferenceKind.ONLY_TO, "new here"),
    ]


def test_an_untested_launch_counts_neither_for_nor_against() -> None:
    """A failure of an untested launch is not a regression."""
    before, after = compiles(OLD), failure(toolchain=NEW)
    difference = change(before, after, untested_keys={after.key: "why"})
    assert difference.kind is DifferenceKind.UNTESTED
    assert difference.reason == f"under {NEW}: why"
    assert change(
        failure(toolchain=OLD), compiles(NEW), {failure(toolchain=OLD).key: "why"}
    ).kind is (DifferenceKind.UNTESTED)


def unit(toolchain: str, **figures: Any) -> Record:
    """Return a unit's record with two functions, of which `big` takes these figures."""
    big = {"name": "big", "registers": 168, "stack": 0, "spills": 0, "shared": 0, **figures}
    small = {"name": "small", "registers": 255, "stack": 64, "spills": 16, "shared": 49_152}
    whole = {name: max(big[name], small[name]) for name in small if name != "name"}
    return compiles(toolchain, resources={**whole, "functions": [small, big]})


def test_a_function_of_a_unit_that_takes_more_shows_behind_a_larger_one() -> None:
    """A smaller function that spills more is reported beside a larger one."""
    difference = change(
        unit("nvcc==13.0.88"), unit("nvcc==13.5.37", spills=8, stack=8, registers=170)
    )
    assert difference.more is None
    assert difference.functions == {
        "big": {"registers": (168, 170), "spills": (0, 8), "stack": (0, 8)}
    }
    assert difference.takes_more
    assert not change(unit("nvcc==13.0.88", spills=8), unit("nvcc==13.5.37")).takes_more


def test_a_function_that_one_side_lacks_is_compared_with_nothing() -> None:
    """A function that one toolkit inlines is not compared."""
    without_function = compiles(
        "nvcc==13.0.88", resources={"functions": [{"name": "other", "spills": 0}]}
    )
    assert change(without_function, unit("nvcc==13.5.37", spills=8)).functions == {}


@pytest.mark.parametrize(
    ("seconds", "slower"),
    [
        ((2.0, 12.0), 6.0),
        # Five seconds longer, and not three times as long.
        ((10.0, 16.0), None),
        # Ten times as long, and only a second.
        ((0.1, 1.0), None),
        ((0.0, 9.0), None),
    ],
)
def test_a_slower_compile_is_both_longer_and_a_multiple(
    seconds: tuple[float, float], slower: float | None
) -> None:
    """A compile is slower only by five seconds and a factor of three."""
    difference = change(compiles(OLD, seconds=seconds[0]), compiles(NEW, seconds=seconds[1]))
    assert difference.slower == slower


def resources(**held: int | None) -> dict[str, Any]:
    return {"shared": 0, "shared_limit": 1, "registers": 128, "stack": 0, "spills": 0, **held}


@pytest.mark.parametrize(
    ("old", "new", "more"),
    [
        ({"spills": 0}, {"spills": 4}, {"spills": (0, 4)}),
        # Registers are handed out eight a thread: 129 take as many as 136.
        ({"registers": 129}, {"registers": 136}, None),
        ({"registers": 128}, {"registers": 129}, {"registers": (128, 129)}),
        ({"shared": 100}, {"shared": 128}, None),
        ({"shared": 128}, {"shared": 256}, {"shared": (128, 256)}),
        # A figure that the assembler does not print is not growth.
        ({"spills": None}, {"spills": 8}, None),
        ({"registers": 200}, {"registers": 100}, None),
    ],
)
def test_more_resources_are_counted_in_what_a_gpu_hands_out(
    old: dict[str, Any], new: dict[str, Any], more: dict[str, tuple[int, int]] | None
) -> None:
    """Growth within one allocation unit of the GPU is not reported."""
    before = compiles(OLD, resources=resources(**old))
    difference = change(before, compiles(NEW, resources=resources(**new)))
    assert difference.more == more
