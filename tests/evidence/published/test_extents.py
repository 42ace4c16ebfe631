"""The launches of a question stored as numbers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from flacheck.evidence.published.extents import pack_extent, unpack_extent
from flacheck.model.extent import LaunchExtent, launch_identity
from tests.made_records import record

CELLS = [record().cell, record(options={"num_warps": 8, "num_stages": 2}).cell]
KERNEL = CELLS[0].kernel
assert CELLS[0].launch is not None
IDENTITY = launch_identity(KERNEL, CELLS[0].launch, ())
EXTENT = LaunchExtent(
    {KERNEL.name: {"f" * 16: 7, IDENTITY: 2}, "another:kernel": {"0" * 16: 1}},
    {},
    {"first": ("0" * 16, IDENTITY), "second": (IDENTITY, "f" * 16)},
    ("a.third:kernel",),
)


def test_the_launch_of_a_cell_keeps_its_identity() -> None:
    """Counts, kernels and operators are restored; a launch with a cell keeps its identity."""
    back = unpack_extent(pack_extent(EXTENT, CELLS), CELLS)
    assert [back.launch_of(cell) for cell in CELLS] == [IDENTITY, IDENTITY]
    assert back.configurations == EXTENT.configurations
    assert back.missing_kernels == EXTENT.missing_kernels
    assert {name: sorted(counts.values()) for name, counts in back.launches.items()} == {
        KERNEL.name: [2, 7],
        "another:kernel": [1],
    }
    (shared,) = set(back.operators["first"]) & set(back.operators["second"])
    assert shared == IDENTITY
    for name, launches in EXTENT.operators.items():
        counts = sorted(count_of(EXTENT, one) for one in launches)
        assert sorted(count_of(back, one) for one in back.operators[name]) == counts


def count_of(extent: LaunchExtent, identity: str) -> int:
    """Return the number of configurations of a launch."""
    (count,) = [own[identity] for own in extent.launches.values() if identity in own]
    return count


def test_a_number_that_names_nothing_is_refused() -> None:
    """A number beyond the last cell or launch is an error."""
    numbers = pack_extent(EXTENT, CELLS)
    with pytest.raises(LookupError):
        unpack_extent(replace(numbers, cells=((0, 99),)), CELLS)
    with pytest.raises(LookupError):
        unpack_extent(replace(numbers, operators={"first": (99,)}), CELLS)
