"""The sizes in a package's own tests and configuration classes."""

# The driver imports torch.
# ruff: noqa: E402

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.search.package_sizes import package_sizes
from flacheck.guest.search.real_sizes import RealSizes

TESTS = """
import pytest
import torch

@pytest.mark.parametrize(
    ("B", "T", "H", "D", "dtype"),
    [
        pytest.param(*case, id="case")
        for case in [(1, 63, 1, 48, torch.float16), (2, 500, 4, 96, torch.float16)]
    ],
)
def test_scan(B, T, H, D, dtype): ...

@pytest.mark.parametrize("K, V", [(32, 64), (32, make(2))])
@pytest.mark.parametrize("flag", [True, False])
def test_other(K, V, flag): ...
"""


class ScanConfig:
    def __init__(self, hidden_size: int = 2048, num_heads: int = 4, expand_v: float = 2.0): ...


class PlainConfig:
    def __init__(self, layers: int = 2): ...


def shop() -> ModuleType:
    """Return a module with the configuration classes."""
    module = ModuleType(__name__)
    module.ScanConfig, module.PlainConfig = ScanConfig, PlainConfig  # type: ignore[attr-defined]
    return module


def test_sizes_come_from_the_tests_and_then_from_configuration_classes(tmp_path: Path) -> None:
    """A head size is given, or the model's size divided by its heads."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_scan.py").write_text(TESTS)
    rows = package_sizes([shop()], str(tmp_path))
    assert [(row["name"], row["sizes"]["K"], row["sizes"]["V"]) for row in rows] == [
        ("the package's tests", 48, 48),
        ("the package's tests", 96, 96),
        ("the package's tests", 32, 64),
        ("the package's tests", 32, 32),
        ("the package's ScanConfig", 512, 1024),
    ]
    assert package_sizes([shop()], None) == rows[4:]


def test_the_package_is_a_source_of_sizes_before_models() -> None:
    """Its own head sizes are called, too; those of models are in the grid."""
    rows = [
        {"name": "the package's tests", "sizes": {"K": 64, "V": 64}},
        {"name": "the package's tests", "sizes": {"K": 96, "V": 192}},
        {"name": "Large", "sizes": {"K": 64, "V": 64}},
        {"name": "Large", "sizes": {"K": 128, "V": 128}},
        {"name": "Large", "sizes": {"K": 48, "V": 48}},
    ]
    sizes = RealSizes(rows)
    assert sizes.first == "Large"
    sources = {(each.sizes["K"], each.sizes["V"]): each.source for each in sizes.heads}
    assert sources[64, 64] == sources[96, 192] == "the package's tests"
    assert sources[256, 512] == "the size grid"
    assert (48, 48) not in sources
    complete = [each.sizes for each in RealSizes(rows, is_complete=True).heads]
    assert {"K": 48, "V": 48, "D": 48} in complete
