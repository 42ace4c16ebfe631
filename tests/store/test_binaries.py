"""The binaries of cells in the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.store.binaries import Binaries
from flacheck.toolchains import contents


def test_a_binary_is_read_by_its_cells_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A binary that was never added, or is damaged, is missing."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path))
    key, bad_key = "ab" * 16, "cd" * 16
    binaries = Binaries()
    assert not binaries.has(key)
    binaries.add(key, {"digest": "12", "code": "x"})
    assert binaries.has(key)
    assert binaries.read(key) == {"digest": "12", "code": "x"}
    binaries.add(bad_key, {"digest": "34"})
    (tmp_path / "binaries" / "cd" / f"{bad_key}.json").write_text('{"digest"')
    assert binaries.read(bad_key) is None
    assert [(each.kind, each.name) for each in contents.entries()] == [("binaries", "binaries")]
