"""The linker that AMD's targets need under old releases."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from flacheck.toolchains import lld


def test_the_linker_is_wanted_by_old_releases_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3.3 and 3.4 refuse linker 14; from 3.5.0 on none is needed."""
    linker = tmp_path / "ld.lld"
    linker.write_text("#!/bin/sh\necho 'Debian LLD 14.0.6 (compatible with GNU linkers)'\n")
    linker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(lld, "ROCM", str(tmp_path / "rocm"))
    assert lld.find(Version("3.2.0")).environment == {"TRITON_HIP_LLD_PATH": str(linker)}
    assert "15 or newer" in (lld.find(Version("3.4.0")).problem or "")
    assert lld.find(Version("3.5.0")) == lld.Linker()
