"""The table of GPUs and their names."""

from __future__ import annotations

import pytest

from flacheck.errors import Exit, UsageError
from flacheck.model import Resources
from flacheck.rules import over_limits
from flacheck.tables.targets import TARGETS, find


def test_the_table_holds_the_targets_of_the_contract() -> None:
    """Every target of the contract is a row, AMD's are experimental."""
    cuda = ["sm70", "sm75", "sm80", "sm86", "sm89", "sm90", "sm100", "sm120"]
    # Since then: Orin, B300, Thor and GB10.
    further = ["sm87", "sm103", "sm110", "sm121"]
    hip = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"]
    assert [name for name in TARGETS if name not in further] == cuda + hip
    assert set(TARGETS) == {*cuda, *further, *hip}
    assert [name for name, row in TARGETS.items() if row.experimental] == hip


def test_shared_memory_limits_are_the_documented_ones() -> None:
    """The opt-in limits a block, in bytes."""
    assert {name: row.shared_limit for name, row in TARGETS.items()} == {
        "sm70": 98_304,
        "sm75": 65_536,
        "sm80": 166_912,
        "sm86": 101_376,
        "sm87": 166_912,
        "sm89": 101_376,
        "sm90": 232_448,
        "sm100": 232_448,
        "sm103": 232_448,
        "sm110": 232_448,
        "sm120": 101_376,
        "sm121": 101_376,
        "gfx90a": 65_536,
        "gfx942": 65_536,
        "gfx950": 163_840,
        "gfx1100": 65_536,
        "gfx1201": 65_536,
    }


@pytest.mark.parametrize("name", TARGETS)
def test_every_row_is_consistent(name: str) -> None:
    """Name, architecture and capability agree, and each row has a source."""
    row = TARGETS[name]
    assert row.name == name
    assert row.source
    assert row.gpu
    assert row.warp_size in (32, 64)
    if row.backend == "cuda":
        assert name == f"sm{row.arch}" == f"sm{row.capability[0]}{row.capability[1]}"
        assert row.bf16 == (row.capability >= (8, 0))
    else:
        assert name == row.arch


@pytest.mark.parametrize(
    ("alias", "row_name"),
    [
        ("sm90", "sm90"),
        ("sm_90", "sm90"),
        ("sm_90a", "sm90"),
        ("SM90", "sm90"),
        ("90", "sm90"),
        ("9.0", "sm90"),
        ("compute_100f", "sm100"),
        ("cuda:120", "sm120"),
        ("12.0", "sm120"),
        ("h100", "sm90"),
        ("H200", "sm90"),
        ("NVIDIA A100", "sm80"),
        ("RTX 4090", "sm89"),
        ("geforce-rtx-5090", "sm120"),
        ("sm_103a", "sm103"),
        ("NVIDIA B300 SXM6 AC", "sm103"),
        ("GB300", "sm103"),
        ("11.0", "sm110"),
        ("Jetson AGX Thor", "sm110"),
        ("NVIDIA GB10", "sm121"),
        ("DGX Spark", "sm121"),
        ("Jetson AGX Orin", "sm87"),
        ("orin", "sm87"),
        ("NVIDIA A10G", "sm86"),
        ("gfx942", "gfx942"),
        ("hip:gfx90a", "gfx90a"),
        ("MI300X", "gfx942"),
    ],
)
def test_a_target_goes_by_several_names(alias: str, row_name: str) -> None:
    """Architectures and cards lead to their row in any spelling."""
    assert find(alias).name == row_name


@pytest.mark.parametrize("name", ["sm91", "", "rtx", "gfx000", "hopper90", "9"])
def test_an_unknown_target_is_a_usage_error_that_lists_the_targets(name: str) -> None:
    """The message has the name and the valid targets."""
    with pytest.raises(UsageError, match=r"sm70, sm75.*gfx1201") as caught:
        find(name)
    assert caught.value.exit_code == Exit.USAGE
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("name", TARGETS)
def test_every_alias_finds_its_row(name: str) -> None:
    """No alias is shadowed."""
    assert {find(alias).name for alias in TARGETS[name].aliases} <= {name}


@pytest.mark.parametrize(
    ("name", "registers", "threads", "fits"),
    [
        ("gfx942", 409, 256, True),
        ("gfx90a", 512, 256, True),
        ("gfx950", 512, 264, False),
        ("gfx1100", 192, 1024, True),
        ("gfx1201", 200, 1024, False),
        ("sm90", 255, 256, True),
        ("sm90", 255, 512, False),
    ],
)
def test_registers_are_those_of_the_targets_unit(
    name: str, registers: int, threads: int, fits: bool
) -> None:
    """409 registers for each of 256 threads fit on CDNA."""
    used = Resources(registers=registers, threads=threads)
    assert (over_limits(used, find(name)) == []) == fits
