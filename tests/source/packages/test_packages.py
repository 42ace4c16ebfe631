"""Packages whose kernels are compiled."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import pytest
from packaging.version import Version

from flacheck.engine.package_builds import provide_package
from flacheck.errors import UsageError
from flacheck.source.packages import checkouts
from flacheck.source.packages.package import parse, remove_torch_extensions
from flacheck.toolchains import index, wheels
from tests import fake_installer
from tests.cli.test_cli import flacheck


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", fake_installer.put_on_path(tmp_path / "bin"))
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_INSTALLER_LOG", str(tmp_path / "log"))
    monkeypatch.setattr(
        wheels, "installers", lambda: [wheels.Installer("uv", ("uv", "pip", "install"), ("uv",))]
    )
    return tmp_path


def test_a_package_is_named_as_the_index_names_it() -> None:
    """Names are normalised, versions exact."""
    assert parse("Flash_Linear.Attention == 0.2.2") == ("flash-linear-attention", "0.2.2")


@pytest.mark.parametrize(
    "spec", ["fla", "fla>=0.2", "fla==0.2.*", "fla==0.2,!=0.3", "==1", "not a name"]
)
def test_anything_but_an_exact_version_is_refused(spec: str) -> None:
    """The message shows the form."""
    with pytest.raises(UsageError, match="NAME==VERSION"):
        parse(spec)


def _link_torch(folder: Path, name: str, extension: str) -> None:
    (folder / name / extension).write_text("ELF libc10.so")
    with (folder / f"{name}-1.0.dist-info" / "RECORD").open("a") as record:
        record.write(f"{name}/{extension},,\n")


def test_a_requirement_that_is_linked_to_torch_is_absent(tmp_path: Path) -> None:
    """Beside another torch it could not be imported; one with kernels stays, and a library."""
    files = {"subject": "_C.so", "vision": "_C.so", "formers": "_C.so", "bridge": "libc.so"}
    for name, extension in files.items():
        fake_installer.distribution(tmp_path, name, "1.0")
        _link_torch(tmp_path, name, extension)
    fake_installer.distribution(tmp_path, "pure", "1.0", ("torch (==2.6.0)",))
    (tmp_path / "pure" / "empty.so").touch()
    with (tmp_path / "pure-1.0.dist-info" / "RECORD").open("a") as record:
        record.write("pure/empty.so,,\n")
    (tmp_path / "formers" / "__init__.py").write_text("import triton\n")
    remove_torch_extensions(tmp_path, "subject")
    names = (*files, "pure")
    left = {each for each in names if (tmp_path / each).exists()}
    assert left == {"subject", "formers", "bridge", "pure"}
    assert "vision" not in wheels.contents(tmp_path)


def test_only_a_packages_own_files_are_removed(tmp_path: Path) -> None:
    """Its list of files may name others'."""
    folder, outside = tmp_path / "packages", tmp_path / "outside"
    outside.write_text("")
    fake_installer.distribution(folder, "vision", "1.0")
    info = folder / "vision-1.0.dist-info"
    _link_torch(folder, "vision", "_C.so")
    with (info / "RECORD").open("a") as record:
        record.write(f"{outside},,\n../outside,,\n.,,\n")
    (folder / "vision" / "of_another.py").write_text("")
    remove_torch_extensions(folder, "subject")
    assert outside.exists()
    assert [path.name for path in folder.rglob("*.py")] == ["of_another.py"]
    assert not info.exists()


def test_the_digest_covers_the_package_and_what_it_pins(fake: Path) -> None:
    """The digest is the same for another installation and differs for another version."""
    first = provide_package("fake-package==1.2")
    assert first.identity == "fake-package==1.2"
    assert first.contains == {"fake-core": "1.0", "fake-package": "1.2"}
    assert provide_package("Fake_Package==1.2") == first
    assert provide_package("fake-package==1.3").digest != first.digest


def test_the_digest_is_that_of_another_machine(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves out scripts, into which the installer writes the path of its own Python."""
    first = provide_package("fake-package==1.2")
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(fake / "elsewhere"))
    second = provide_package("fake-package==1.2")
    assert second.path != first.path
    assert second.digest == first.digest


def test_own_modules_have_bytecode(fake: Path) -> None:
    """Captures can only read the folder, so they would compile the modules each time."""
    path = Path(provide_package("fake-package==1.2").path)
    modules = {str(file.parent / file.stem) for file in path.rglob("*.py")}
    tag = f".{sys.implementation.cache_tag}"
    bytecode = {
        str(file.parent.parent / file.stem.removesuffix(tag)) for file in path.rglob("*.pyc")
    }
    assert modules
    assert bytecode == modules


def test_a_package_without_room_for_bytecode_is_installed(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("flacheck.source.packages.installing.py_compile.compile", full)
    path = Path(provide_package("fake-package==1.2").path)
    assert not list(path.rglob("*.pyc"))


def test_a_version_that_does_not_exist_names_its_neighbours(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown version or package is the user's slip, not the machine's."""
    monkeypatch.setenv("FAKE_INSTALLER", "not-found")
    monkeypatch.setattr(index, "available", lambda *_, **__: [Version("1.1"), Version("1.4")])
    with pytest.raises(
        UsageError, match=r"there is no fake-package 1\.2; the nearest are 1\.1, 1\.4"
    ):
        provide_package("fake-package==1.2")


@pytest.mark.network
@pytest.mark.slow
def test_a_real_package_comes_without_torch_and_triton(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """flash-linear-attention has its dependencies except the large ones; no stand-in remains."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path))
    package = provide_package("flash-linear-attention==0.2.2")
    names = {path.name.partition("-")[0] for path in Path(package.path).iterdir()}
    assert "einops" in names
    assert "fla" in names
    assert not {name for name in names if name.startswith(("torch", "triton", "nvidia"))}
    assert package.digest == "cb005f393de9aead22865733fecd3445"
    assert sys.modules.get("fla") is None


PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "Tiny.Kernels"
version = "1.2"
dependencies = ["torch>=2", "triton>=3"]
[tool.setuptools]
packages = ["tiny"]
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small package's sources."""
    folder = tmp_path / "checkout"
    (folder / "tiny").mkdir(parents=True)
    (folder / "tiny" / "__init__.py").write_text("WARPS = 4\n")
    (folder / "pyproject.toml").write_text(PYPROJECT)
    return folder


@pytest.mark.network
def test_a_checkout_is_built_as_it_stands(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version names the checkout's state, which an edit changes and tools' leftovers do not."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(checkout.parent / "cache"))
    first = provide_package(str(checkout))
    assert first.identity.startswith("tiny-kernels==1.2+h")
    assert first.modules == ("tiny",)
    assert list(first.contains) == ["tiny-kernels"]
    assert {path.name for path in checkout.iterdir()} == {"tiny", "pyproject.toml"}
    (checkout / "build").mkdir()
    (checkout / "build" / "left.py").write_text("")
    assert provide_package(str(checkout)) == first
    (checkout / "tiny" / "__init__.py").write_text("WARPS = 8\n")
    second = provide_package(str(checkout))
    assert second.identity != first.identity
    assert second.digest != first.digest


SETUP = """
import torch
from torch.utils.cpp_extension import CUDAExtension
from setuptools import setup
setup(name="tiny", install_requires=["torch", "einops"], ext_modules=[CUDAExtension("c", [])])
"""


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "it has no build configuration"),
        ({"setup.py": SETUP}, "its setup.py imports torch"),
        (
            {"pyproject.toml": "[build-system]\nrequires = ['setuptools', 'torch']\n"},
            "its build requires torch",
        ),
        ({"pyproject.toml": PYPROJECT}, None),
        ({"pyproject.toml": "[build-system]\nrequires = ['torchless']\n"}, None),
        ({"pyproject.toml": "this is no TOML"}, None),
    ],
)
def test_a_checkout_may_not_be_built(
    tmp_path: Path, files: dict[str, str], why: str | None
) -> None:
    """A build that requires torch is not run, as it would download gigabytes."""
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert checkouts.cannot_build(tmp_path) == why


def test_a_checkout_without_a_build_is_taken_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The Python files are used without a build, and one sentence reports it."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "tiny"
    for name in ("shop", "tests"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("")
    (folder / "shop" / "ops.py").write_text("WARPS = 4\n")
    (folder / "shop" / "fast.so").write_text("")
    package = provide_package(str(folder))
    assert package.identity.startswith("tiny==0+h")
    assert package.modules == ("shop",)
    assert package.own_modules == ("shop", "shop.ops")
    assert not (Path(package.path) / "shop" / "fast.so").exists()
    assert "is not built (it has no build configuration)" in caplog.text
    assert provide_package(str(folder)) == package


def test_a_dry_run_builds_no_checkout_that_settings_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its setup.py would run before the user has seen the package."""
    project = tmp_path / "theirs"
    project.mkdir()
    (project / "setup.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\n")
    (project / "pyproject.toml").write_text('[tool.flacheck]\npackage = "."\n')
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    listing = flacheck("scan", "--dry-run", cwd=project)
    assert (listing.returncode, "give --package ." in listing.stderr) == (2, True), listing.stderr
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "cache" / "packages").exists()


def test_requirements_are_read_where_they_are_plain(tmp_path: Path) -> None:
    """A literal list in setup.py is read; torch and requirements that need a GPU are left out."""
    (tmp_path / "setup.py").write_text(SETUP)
    assert checkouts.read_metadata(tmp_path) == (tmp_path.name, "0", ["torch", "einops"])
    (tmp_path / "setup.py").write_text("def setup(:")
    assert checkouts.read_metadata(tmp_path) == (tmp_path.name, "0", [])


def test_a_folder_that_is_no_package_is_refused(tmp_path: Path) -> None:
    """A missing folder is refused too."""
    with pytest.raises(
        UsageError, match=r"neither pyproject\.toml nor setup\.py nor setup\.cfg is in it"
    ):
        provide_package(str(tmp_path))
    with pytest.raises(UsageError, match="there is no such folder"):
        provide_package("./nowhere/at/all")


@pytest.mark.parametrize(
    "spec",
    ["a[x]==1", "a==1; python_version > '3'", "a===foo", "a==1.*", "a @ file:///x", "a==", ""],
)
def test_what_names_no_package_at_one_version_is_an_error(spec: str) -> None:
    """An extra, a marker or an invalid version gives a line that shows how to write it."""
    with pytest.raises(UsageError, match="names no package: give NAME==VERSION"):
        parse(spec)
