"""What many tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flacheck.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store in a folder of the test's own."""
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's own folder as the current one: files are written there, and named from there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
