"""Triton compilers that flacheck did not install: wheel files, folders, source builds."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from flacheck.errors import ToolchainError, UsageError
from flacheck.toolchains.triton import Triton


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))


def build(folder: Path, version: str = "3.4.0") -> Path:
    """A folder with a built Triton in it."""
    (folder / "triton" / "_C").mkdir(parents=True)
    (folder / "triton" / "__init__.py").write_text(f"__version__ = '{version}'\n")
    (folder / "triton" / "_C" / "libtriton.so").write_text("elf")
    return folder


def test_a_build_is_found_from_each_of_its_folders(tmp_path: Path) -> None:
    """The folder may be above the package, the source tree above `python/`, or the package."""
    parent = build(tmp_path / "source" / "python", "3.4.0+git1234")
    choices = [Triton().at(str(path)) for path in (parent, parent.parent, parent / "triton")]
    assert {choice.location for choice in choices} == {str(parent)}
    assert {choice.origin for choice in choices} == {"path"}
    assert choices[0].version == "3.4.0+git1234"
    assert choices[0].identity.startswith("triton==3.4.0+local.")


def test_an_edit_makes_another_compiler(tmp_path: Path) -> None:
    """The identity of a compiler is part of its cells' keys."""
    folder = build(tmp_path)
    before = Triton().at(str(folder)).identity
    (folder / "triton" / "compiler.py").write_text("x = 1\n")
    assert Triton().at(str(folder)).identity != before


def test_a_folder_without_a_built_triton_is_a_usage_error(tmp_path: Path) -> None:
    """The folder is missing, not built, too old, or has no version."""
    with pytest.raises(UsageError, match="holds no triton"):
        Triton().at(str(tmp_path))
    folder = build(tmp_path, "2.1.0")
    with pytest.raises(UsageError, match=r"flacheck supports 3\.0\.0 and newer"):
        Triton().at(str(folder))
    (folder / "triton" / "__init__.py").write_text("")
    with pytest.raises(UsageError, match="has no __version__"):
        Triton().at(str(folder))
    (folder / "triton" / "_C" / "libtriton.so").unlink()
    with pytest.raises(UsageError, match="is not built"):
        Triton().at(str(folder))


def test_a_wheel_for_another_python_cannot_be_had(tmp_path: Path) -> None:
    """It is a choice with a reason, so that its cells are unknown and not missing."""
    wheel = tmp_path / "triton-3.4.0-cp27-cp27m-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        record = "triton/__init__.py,sha256=AAAA,1\n"
        archive.writestr("triton-3.4.0.dist-info/RECORD", record)
    choice = Triton().at(str(wheel))
    assert choice.version == "3.4.0"
    assert "is not a wheel for CPython" in str(choice.reason)
    with pytest.raises(ToolchainError, match="cannot be installed"):
        Triton().provide(choice)


def test_what_is_no_wheel_is_a_usage_error(tmp_path: Path) -> None:
    """A wheel is refused for its name or for its content."""
    (tmp_path / "triton.whl").write_text("")
    with pytest.raises(UsageError, match="cannot be read as a wheel"):
        Triton().at(str(tmp_path / "triton.whl"))
    (tmp_path / "triton-3.4.0-py3-none-any.whl").write_text("no archive")
    with pytest.raises(UsageError, match="cannot be read as a wheel"):
        Triton().at(str(tmp_path / "triton-3.4.0-py3-none-any.whl"))
