"""The number of cells of a matrix, computed before any cell is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from flacheck.errors import UsageError
from flacheck.model import Kernel, Launch, Stubbed
from flacheck.subjects.inputs import size
from flacheck.subjects.inputs.expand import Selection, Source, expand
from flacheck.subjects.inputs.matrix import Block, Matrix

RELEASES = ["triton==3.2.0", "triton==3.4.0"]


def source(name: str, configs: int = 2) -> Source:
    kernel = Kernel(f"m:{name}", "p==1", name, Stubbed("m", name))
    configs_made = tuple({"kwargs": {}, "num_warps": 2**number} for number in range(configs))
    return Source(kernel, (Launch({"x": {"dtype": "{dtype}", "align": 16}}, configs=configs_made),))


def is_allowed(
    axes: Mapping[str, tuple[Any, ...]], most: int, monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Return whether the cells of two kernels over these axes are few enough, as their real number
    confirms."""
    monkeypatch.setattr(size, "MOST_CELLS", most)
    matrix = Matrix("m", "m.yaml", (Block(axes),))
    sources = [source("one"), source("two")]
    try:
        size.check(matrix, sources, Selection(), lambda spec: RELEASES)
    except UsageError as error:
        assert f"m.yaml: has up to {len(cells(matrix, sources)):,} cells" in str(error)
        return False
    return True


def cells(matrix: Matrix, sources: list[Source]) -> list[Any]:
    return list(expand(matrix, sources, Selection(), lambda spec: RELEASES))


@pytest.mark.parametrize(
    ("axes", "count"),
    [
        ({"target": ("sm80", "sm90"), "dtype": ("bf16",), "configs": ("own",)}, 16),
        ({"target": ("sm90",), "dtype": ("bf16", "fp16"), "configs": ("own",)}, 16),
        ({"target": ("sm90",), "dtype": ("bf16",), "kernel": ("one",), "configs": ("own",)}, 4),
    ],
)
def test_cells_are_counted_as_they_are_made(
    axes: Mapping[str, tuple[Any, ...]], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cell more than the limit is refused."""
    assert is_allowed(axes, count, monkeypatch)
    assert not is_allowed(axes, count - 1, monkeypatch)
