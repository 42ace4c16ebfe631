"""What the package index lists, asked once a day."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from flacheck.toolchains import cache, index, wheels


def test_versions_are_listed_once_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the index said is kept, prereleases and local versions left out."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path))
    runs: list[str] = []

    def run(command: list[str], what: str) -> tuple[int, str]:
        runs.append(what)
        return 0, "triton (3.9.0)\nAvailable versions: 3.9.0, 3.8.0rc1, 3.4.0+cpu, 3.4.0\n"

    monkeypatch.setattr(wheels, "run", run)
    monkeypatch.setattr(wheels, "installers", lambda: [wheels.Installer("pip", (), ("pip",))])
    assert [str(v) for v in index.available("triton")] == ["3.4.0", "3.9.0"]
    assert index.available("triton") == index.available("triton")
    assert runs == ["triton"]


def test_what_was_read_once_serves_while_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older than a day it is asked again, and kept when nobody answers."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(wheels, "installers", lambda: [wheels.Installer("pip", (), ("pip",))])
    monkeypatch.setattr(
        wheels, "run", lambda *_: (1, "WARNING: Retrying (Retry(total=0)) after connection broken")
    )
    with pytest.raises(wheels.Offline, match="cannot look up triton"):
        index.available("triton")
    old = {f"{cache.python_tag()}:here:wheels": {"time": 0, "versions": ["3.9.0"]}}
    cache.write_json("index/triton.json", old)
    assert index.available("triton") == [Version("3.9.0")]
