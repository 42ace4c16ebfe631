"""Kernels that another release of a package has in another module."""

from __future__ import annotations

import pytest

from flacheck.capabilities.diff.matching import match
from flacheck.capabilities.diff.moved_kernels import find_moved_kernels, rename_kernels
from flacheck.model import Record
from tests.made_records import launch, record

OLD, NEW = "ops==1.0", "ops==2.0"


def kernels(package: str, *names: str, **constexprs: int) -> list[Record]:
    """One record of each kernel of a release, with these constexprs beside the arguments."""
    made = []
    for name in names:
        its_launch = launch(**(constexprs or {"BT": 64}))
        made.append(record(kernel=name, package=package, launch=its_launch))
    return made


def test_a_kernel_in_another_module_is_the_same_kernel() -> None:
    """Its function and its parameters are the same, and it is compared under its new name."""
    before = kernels(OLD, "ops.act:swish", "ops.act:gone")
    after = kernels(NEW, "ops.act.kernels:swish", "ops.act:added")
    moved = find_moved_kernels(before, after)
    assert moved == {"ops.act:swish": "ops.act.kernels:swish"}
    first, *rest = match(rename_kernels(before, moved), after)
    assert (first.before is not None, first.after, first.exact) == (True, after[0], True)
    assert [pair.record.kernel for pair in rest] == ["ops.act:gone", "ops.act:added"]


def test_a_renamed_record_keeps_its_key() -> None:
    """The key is that of the stored result, which a report names."""
    (before,) = kernels(OLD, "ops.act:swish")
    (renamed,) = rename_kernels([before], {"ops.act:swish": "ops:swish"})
    assert (renamed.kernel, renamed.key) == ("ops:swish", before.key)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # Each name exists on both sides.
        (["ops.a:one", "ops.b:one"], ["ops.a:one", "ops.b:one"]),
        # Two modules are equally near.
        (["ops.a:one"], ["ops.b:one", "ops.c:one"]),
        # Two kernels have become one, and neither is nearer.
        (["ops.a:one", "ops.b:one"], ["ops.c:one"]),
        (["ops.a:one"], ["ops.a:two"]),
    ],
)
def test_no_guess_where_several_kernels_fit(before: list[str], after: list[str]) -> None:
    """A kernel that may be another one is gone, and the other one is new."""
    assert find_moved_kernels(kernels(OLD, *before), kernels(NEW, *after)) == {}


def test_the_nearest_module_is_taken() -> None:
    """Kernels of one name stay apart by the parts of their modules' names."""
    before = kernels(OLD, "ops.loss:scale", "ops.entropy:scale")
    after = kernels(NEW, "ops.entropy.kernels:scale", "ops.loss.kernels:scale")
    assert find_moved_kernels(before, after) == {
        "ops.loss:scale": "ops.loss.kernels:scale",
        "ops.entropy:scale": "ops.entropy.kernels:scale",
    }


def test_another_list_of_parameters_is_another_kernel() -> None:
    """Its launches cannot be compared."""
    before = kernels(OLD, "ops.a:one", BT=64)
    after = kernels(NEW, "ops.b:one", BT=64, BK=32)
    assert find_moved_kernels(before, after) == {}
