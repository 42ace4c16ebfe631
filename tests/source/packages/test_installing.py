"""Installing a package without torch: bounds on it, builds that need it, unavailable
requirements."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from flacheck.engine.package_builds import provide_package
from flacheck.errors import ToolchainError
from flacheck.guest.engine.confinement import available_confinement
from flacheck.source.packages import installing
from flacheck.toolchains import wheels
from tests import fake_installer


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide an index of its own: a folder of files."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "shop"
    folder.mkdir()
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX"):
        monkeypatch.setenv(name, "1")
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.setenv(name, str(folder))
    # What a person has set up is of no account here.
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def with_pip_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = wheels.installers
    monkeypatch.setattr(
        wheels, "installers", lambda: [each for each in everything() if each.name == "pip"]
    )


def wheel(folder: Path, name: str, requires: tuple[str, ...] = ()) -> None:
    """A wheel of one module."""
    tree = folder / f"{name}-tree"
    fake_installer.distribution(tree, name, "1.0", requires)
    tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    (tree / f"{name}-1.0.dist-info" / "WHEEL").write_text(tag)
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for each in filter(Path.is_file, sorted(tree.rglob("*"))):
            archive.write(each, each.relative_to(tree))


def sources(folder: Path, name: str, files: dict[str, str]) -> None:
    """A source distribution."""
    files["PKG-INFO"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    with tarfile.open(folder / f"{name}-1.0.tar.gz", "w:gz") as archive:
        for each, text in files.items():
            member = tarfile.TarInfo(f"{name}-1.0/{each}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


@pytest.mark.slow
def test_bounds_on_torch_are_met_under_pip_alone(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounds of the package and of its requirements are met, whichever pip names first."""
    with_pip_alone(monkeypatch)
    wheel(shop, "outer", ("torch<2.9", "inner", "deeper"))
    wheel(shop, "inner", ("torch>=2.4,<2.8", "triton==3.2.0"))
    wheel(shop, "deeper", ("torch!=2.7.1",))
    package = provide_package("outer==1.0")
    assert sorted(package.contains) == ["deeper", "inner", "outer"]
    assert package.modules == ("outer",)


@pytest.mark.slow
def test_requirements_that_nobody_has_are_left_out_and_named(
    shop: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One sentence names them at each use of the package; requirements that need a GPU are left
    out."""
    requires = ("inner", "nobody-has-this>=2", "nvidia-cudnn-cu12", "torch<2.9")
    wheel(shop, "outer", requires)
    wheel(shop, "inner")
    package = provide_package("outer==1.0")
    assert sorted(package.contains) == ["inner", "outer"]
    sentence = "what outer 1.0 requires and could not be installed: nobody-has-this>=2"
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        sentence
    ]


BUILD = "[build-system]\nrequires = ['setuptools', 'torch']\n"
SETUP = (
    "import torch\nfrom setuptools import setup\nsetup(install_requires=['inner', 'torch<2.9'])\n"
)


@pytest.mark.slow
def test_sources_whose_build_wants_torch_are_taken_as_they_stand(
    shop: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Their Python files hold the kernels; nothing is built, and torch is not fetched for it."""
    kernel = "import triton\n"
    files = {
        "pyproject.toml": BUILD,
        "setup.py": SETUP,
        "fast/__init__.py": "",
        "fast/ops.py": kernel,
    }
    sources(shop, "fast", {**files, "tests/__init__.py": "", "csrc/fast.cu": "__global__"})
    wheel(shop, "inner")
    package = provide_package("fast==1.0")
    assert (package.identity, package.modules) == ("fast==1.0", ("fast",))
    assert package.own_modules == ("fast", "fast.ops")
    assert sorted(package.contains) == ["fast", "inner"]
    assert "fast 1.0 is not built (its build requires torch)" in caplog.text


# A backend in the archive itself, so that its build requires nothing.
OWN_BACKEND = """
import os, zipfile

def build_wheel(folder, *_):
    try:
        open({outside!r}, "w").close()
    except OSError:
        pass
    with zipfile.ZipFile(f"{{folder}}/{name}-1.0-py3-none-any.whl", "w") as file:
        info = "{name}-1.0.dist-info"
        file.writestr("{name}.py", "")
        file.writestr(f"{{info}}/METADATA", "Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n")
        file.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        file.writestr(f"{{info}}/RECORD", "{name}.py,,\\n")
    return "{name}-1.0-py3-none-any.whl"
"""


def buildable(shop: Path, name: str, outside: Path) -> None:
    """A source distribution without a wheel, whose build tries to write a file outside."""
    system = "[build-system]\nrequires = []\nbuild-backend = 'own'\nbackend-path = ['.']\n"
    own = OWN_BACKEND.format(name=name, outside=str(outside))
    sources(shop, name, {"pyproject.toml": system, "own.py": own})


@pytest.mark.slow
@pytest.mark.parametrize("is_pip_alone", [False, True])
def test_sources_in_the_index_are_built_in_the_sandbox(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_pip_alone: bool
) -> None:
    """A requirement's requirement without a wheel; an installer would build it as the user."""
    if is_pip_alone:
        with_pip_alone(monkeypatch)
    outside = tmp_path / "outside"
    wheel(shop, "outer", ("inner",))
    wheel(shop, "inner", ("deepest",))
    buildable(shop, "deepest", outside)
    package = provide_package("outer==1.0")
    assert sorted(package.contains) == ["deepest", "inner", "outer"]
    assert outside.exists() is not bool(available_confinement()["landlock"])
    buildable(shop, "alone", outside)
    assert provide_package("alone==1.0").contains == {"alone": "1.0"}
    assert outside.exists() is not bool(available_confinement()["landlock"])


def test_a_requirement_at_an_address_is_left_out(
    shop: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The requirement would be fetched from the address and built with the user's rights."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "setup.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\n")
    wheel(shop, "outer", (f"theirs @ {theirs.as_uri()}", "inner"))
    wheel(shop, "inner")
    assert sorted(provide_package("outer==1.0").contains) == ["inner", "outer"]
    assert not (tmp_path / "run").exists()
    assert "could not be installed: theirs @ file:" in caplog.text


def test_the_highest_version_that_a_bound_admits_is_offered() -> None:
    """The highest version may be a CUDA build; without one the conflict is reported."""
    conflict = ToolchainError("they conflict")

    def fitting(bound: str) -> str:
        return installing.fitting_pins("torch", SpecifierSet(bound), conflict)

    assert fitting(">=2.4") == "9999.0"
    assert fitting("<2.8") == "2.7.1"
    assert fitting("==2.4.0+cu121") == "2.4.0+cu121"
    assert fitting("==2.6.*") == "2.6.0"
    with pytest.raises(ToolchainError, match="they conflict"):
        fitting("<1.0")


PIP_OLD = """
ERROR: Cannot install toy==1.0 because these package versions have conflicting dependencies.

The conflict is caused by:
    toy 1.0 depends on torch<2.8 and >=2.1
    The user requested (constraint) torch
"""
PIP_NEW = """
ERROR: Cannot install toy==1.0 because these package versions have conflicting dependencies.

The conflict is caused by:
    toy 1.0 depends on torch==2.4.0+cu121
    other 2 depends on triton!=3.1,>=3
    The user requested (constraint) torch (from file:///x/torch-9999.0-py3-none-any.whl)

Additionally, some packages in these conflicts have no matching distributions available for your environment:
    torch
"""


@pytest.mark.parametrize(
    ("message", "bounds"),
    [
        (PIP_OLD, {"torch": ">=2.1,<2.8"}),
        (PIP_NEW, {"torch": "==2.4.0+cu121", "triton": ">=3,!=3.1"}),
    ],
)
def test_the_bounds_in_a_conflict_are_read(message: str, bounds: dict[str, str]) -> None:
    """The messages of pip 23 and pip 26 are read."""
    error = wheels.diagnose(message, "install toy", Path("/x"), "pip")
    assert isinstance(error, wheels.BoundsConflict)
    assert error.bounds == {name: SpecifierSet(bound) for name, bound in bounds.items()}
