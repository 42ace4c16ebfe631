"""A build's identity: a digest of the files that decide what it compiles."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from flacheck.toolchains import identity, wheels
from tests import fake_installer
from tests.made_toolchains import failure, identities


def test_a_file_edited_in_the_installers_cache_is_not_taken_for_the_release(
    installer_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linked installs share files with other environments, so the content is compared with its
    RECORD."""
    install = wheels.install

    def edit(requirements: list[str], into: Path, **rest: object) -> dict[str, object]:
        result = install(requirements, into, **rest)  # type: ignore[arg-type]
        (into / "triton" / "__init__.py").write_text("__version__ = 'edited'")
        return result

    monkeypatch.setattr(wheels, "install", edit)
    assert "edited files" in failure()


def test_a_folder_and_a_wheel_with_the_same_content_are_the_same_toolchain(
    installer_log: Path, tmp_path: Path
) -> None:
    """The identity is a digest of the files that decide, wherever they lie; one byte more changes
    it."""
    build = tmp_path / "src" / "python"
    fake_installer.distribution(build, "triton", "3.6.0")
    wheel = tmp_path / "triton-3.6.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in filter(Path.is_file, build.rglob("*")):
            archive.write(path, path.relative_to(build))
    (by_folder,) = identities(str(build.parent))
    assert identities(str(wheel)) == [by_folder]
    assert by_folder.startswith("triton==3.6.0+local.")
    assert len(by_folder.rpartition(".")[2]) == 8
    (build / "triton" / "_C" / "libtriton.so").write_text("another")
    assert identities(str(build.parent)) != [by_folder]


def test_installed_is_a_release_only_when_its_files_are(
    installer_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edited file, or an install from a URL, is a build of its own."""
    site = tmp_path / "site"
    fake_installer.distribution(site, "triton", "3.6.0")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(
        sys.modules, "triton", raising=False
    )  # another test may have imported the real one
    assert identities("installed") == ["triton==3.6.0"]
    url = site / "triton-3.6.0.dist-info" / "direct_url.json"
    url.write_text("{}")
    assert identities("installed")[0].startswith("triton==3.6.0+local.")
    url.unlink()
    (site / "triton" / "__init__.py").write_text("__version__ = '3.6.0'\nprint()")
    assert identities("installed")[0].startswith("triton==3.6.0+local.")


@pytest.mark.parametrize(
    "name, decides",
    [
        ("triton/language/core.py", True),
        ("triton/_C/libtriton.so", True),
        ("triton/_C/libproton.so", False),
        ("triton/backends/nvidia/bin/ptxas-blackwell", True),
        ("triton/backends/nvidia/bin/cuobjdump", False),
        ("triton/backends/nvidia/lib/libdevice.10.bc", True),
        ("triton/backends/nvidia/include/cuda.h", False),
        ("triton/backends/amd/lib/libtriton_amd_codegen.so", True),
        ("triton/backends/nvidia/lib/cupti/libcupti.so", False),
    ],
)
def test_only_files_that_change_code_count(name: str, decides: bool) -> None:
    """Headers, profilers and dump tools do not make another compiler."""
    assert identity.decides(name) is decides
