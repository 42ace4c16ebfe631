"""Kernels that another release of a package has in another module."""

from __future__ import annotations

import pytest

from flacheck.capabilities.diff.matching import match
from flacheck.capabilities.diff.moved_kernels import find_moved_kernels, rename_kernels
from flacheck.model import Record
from tests.made_records import launch, record

OLD, NEW = "ops==1.0", "ops==2.0"


def kernels(package: str, *names: str, **constexprs: int) -> list[Record]:
    """Return one record of each kernel of a release, with these constexprs beside the arguments."""
    records = []
    for name in names:
        its_launch = launch(**(constexprs or {"BT": 64}))
        records.append(record(kernel=name, package=package, launch=its_launch))
    return records


def test_a_kernel_in_another_module_is_the_same_kernel() -> None:
    """A kernel that moved to another module is compared under its new name."""
    before = kernels(OLD, "ops.act:swish", "ops.act:gone")
    after = kernels(NEW, "ops.act.kernels:swish", "ops.act:added")
    new_names = find_moved_kernels(before, after)
    assert new_names == {"ops.act:swish": "ops.act.kernels:swish"}
    first, *rest = match(rename_kernels(before, new_names), after)
    assert (first.before is not None, first.after, first.exact) == (True, after[0], True)
    assert [pair.record.kernel for pair in rest] == ["ops.act:gone", "ops.act:added"]


def test_a_renamed_record_keeps_its_key() -> None:
    """A renamed record has the key of the stored result."""
    (before,) = kernels(OLD, "ops.act:swish")
    (after,) = rename_kernels([before], {"ops.act:swish": "ops:swish"})
    assert (after.kernel, after.key) == ("ops:swish", before.key)


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
    """A kernel that may be one of several is lost, and the others are new."""
    assert find_moved_kernels(kernels(OLD, *before), kernels(NEW, *after)) == {}


def test_the_nearest_module_is_taken() -> None:
    """Kernels of one name are matched by the parts of their modules' names."""
    before = kernels(OLD, "ops.loss:scale", "ops.entropy:scale")
    after = kernels(NEW, "ops.entropy.kernels:scale", "ops.loss.kernels:scale")
    assert find_moved_kernels(before, after) == {
        "ops.loss:scale": "ops.loss.kernels:scale",
        "ops.entropy:scale": "ops.entropy.kernels:scale",
    }


def test_another_list_of_parameters_is_another_kernel() -> None:
    """A kernel with other parameters is another kernel."""
    before = kernels(OLD, "ops.a:one", BT=64)
    after = kernels(NEW, "ops.b:one", BT=64, BK=32)
    assert find_moved_kernels(before, after) == {}
