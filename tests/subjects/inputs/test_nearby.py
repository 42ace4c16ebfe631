"""The subject of a scan without a name: packages with kernels, the GPU, the releases."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flacheck.source.kernel_files import kernels_in
from flacheck.subjects.inputs import nearby
from flacheck.toolchains import torch_pins
from tests.cli.test_cli import flacheck

KERNELS = (
    "import triton\n\n@triton.jit\ndef one(x): ...\n\n@triton.jit(debug=True)\ndef two(x): ...\n"
)


@pytest.fixture
def environment(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's own environment without anything in it, on a machine without a GPU."""
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setattr(nearby, "read_gpu", lambda: None)
    site = here / ".venv" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    return site


def install(site: Path, name: str, version: str, *needs: str, text: str = KERNELS) -> Path:
    """Make a package of one module and return the folder of its metadata."""
    metadata = site / f"{name}-{version}.dist-info"
    metadata.mkdir()
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in needs)]
    (metadata / "METADATA").write_text("\n".join(lines))
    (metadata / "RECORD").write_text(f"{name}/ops.py,,\n{name}/data.json,,\n{name}/gone.py,,\n")
    (site / name).mkdir()
    (site / name / "ops.py").write_text(text)
    return metadata


def test_kernels_are_counted_in_the_text(tmp_path: Path) -> None:
    """Triton's only: numba has a `jit`, too."""
    texts = [
        KERNELS,
        "from triton import cdiv, jit\n@jit\ndef one(x): ...\n",
        "from numba import jit\n# not triton\n@jit\ndef none(x): ...\n",
        "import triton\n# @triton.jit\n",
    ]
    files = [tmp_path / f"{place}.py" for place in range(len(texts))]
    for file, text in zip(files, texts):
        file.write_text(text)
    assert [kernels_in([file]) for file in files] == [2, 1, 0, 0]
    assert kernels_in([tmp_path / "gone.py"]) == 0


def test_nothing_is_said_where_no_package_has_kernels(environment: Path, here: Path) -> None:
    """The kernels of Torch and Triton themselves do not count."""
    install(environment, "torch", "2.9.1", "triton==3.5.1")
    install(environment, "triton", "3.5.1")
    install(environment, "plain", "1.0", "torch", text="x = 1\n")
    install(environment, "unrelated", "1.0", "numpy", "torch; extra == 'torch'")
    assert nearby.look(here) is None


def test_packages_are_scanned_for_the_releases_that_are_here(environment: Path, here: Path) -> None:
    """Packages with most kernels come first; a local build of Triton counts as its public
    version."""
    install(environment, "torch", "2.9.1+cu128", "triton==3.5.1")
    install(environment, "triton", "3.5.1+git12")
    install(environment, "few", "1.0", "torch>=2")
    install(environment, "Many_Kernels", "2.1", "Triton", text=KERNELS * 2)
    view = nearby.look(here)
    assert view is not None
    assert [(each.name, each.kernels) for each in view.packages] == [
        ("many-kernels", 4),
        ("few", 2),
    ]
    assert list(view.commands()) == [
        "flacheck scan --package many-kernels==2.1 --target a100,h100 --triton 3.5.1",
        "flacheck scan --package few==1.0 --target a100,h100 --triton 3.5.1",
    ]
    assert view.here == "Triton 3.5.1 (torch 2.9.1)"


@pytest.mark.parametrize(
    ("versions", "releases"),
    [
        ({"torch": "2.9.1+cpu"}, "--torch 2.9.1"),
        ({"torch": "2.99.0"}, "--torch 2.8,2.9,2.10"),
        ({"triton": "3.8.0.dev1"}, "--torch 2.8,2.9,2.10"),
        ({}, "--torch 2.8,2.9,2.10"),
    ],
)
def test_without_triton_torch_says_which_releases_count(
    environment: Path,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    versions: dict[str, str],
    releases: str,
) -> None:
    """The newest releases of torch decide where no known one is installed."""
    all_releases = ("2.7.1", "2.8.0", "2.9.0", "2.9.1", "2.10.0")
    monkeypatch.setattr(torch_pins, "pins", lambda: dict.fromkeys(all_releases, "==3.5.1"))
    for name, version in versions.items():
        install(environment, name, version)
    install(environment, "mine", "1.0", "torch")
    view = nearby.look(here)
    assert view is not None
    assert view.releases == releases


def test_a_project_is_scanned_as_it_stands(
    environment: Path, here: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Kernels of the project's tests do not count; an editable install is the project."""
    (here / "pyproject.toml").write_text('[project]\nname = "Mine"\n')
    for folder in ("mine", "tests"):
        (here / folder).mkdir()
        (here / folder / "ops.py").write_text(KERNELS)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "src").mkdir(parents=True)
    (elsewhere / "setup.py").write_text("")
    (elsewhere / "src" / "ops.py").write_text(KERNELS * 3)
    metadata = install(environment, "edited", "0.1", "torch", text="")
    direct: dict[str, Any] = {"url": elsewhere.as_uri(), "dir_info": {"editable": True}}
    (metadata / "direct_url.json").write_text(json.dumps(direct))
    view = nearby.look(here)
    assert view is not None
    rows = [(each.name, each.spec, each.kernels) for each in view.packages]
    assert rows == [("edited", str(elsewhere), 6), ("mine", ".", 2)]


def test_the_driver_says_which_gpu_is_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By nvidia-smi, else by the kernel's own files; None without either."""

    def smi(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, "NVIDIA H100 80GB HBM3\nNVIDIA H100\n", "")

    monkeypatch.setattr(subprocess, "run", smi)
    assert nearby.read_gpu() == "NVIDIA H100 80GB HBM3"

    def missing(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        raise FileNotFoundError("nvidia-smi")

    monkeypatch.setattr(subprocess, "run", missing)
    monkeypatch.setattr(nearby, "DRIVER", tmp_path)
    assert nearby.read_gpu() is None
    (tmp_path / "0000:01").mkdir()
    (tmp_path / "0000:01" / "information").write_text("Model: \t\t NVIDIA L40S\nIRQ: 1\n")
    assert nearby.read_gpu() == "NVIDIA L40S"


def test_a_plain_scan_says_how_to_scan_a_package_and_scans_quick(
    environment: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan with a matrix, a package or a kernel prints no hint."""
    monkeypatch.setenv("PATH", "")
    install(environment, "mine", "1.0", "torch")
    install(environment, "triton", "3.5.1")
    plain = flacheck("scan", "--dry-run", "--triton", "3.2.0", cwd=here)
    assert plain.returncode == 0, plain.stderr
    assert "packages with Triton kernels here: mine (2 kernels)" in plain.stderr
    assert "flacheck scan --package mine==1.0 --target a100,h100 --triton 3.5.1" in plain.stderr
    assert "scanning flacheck's own kernels (quick)" in plain.stderr
    assert "retention.chunk_fwd_o" in plain.stdout
    for more in (["quick"], ["-k", "retention.chunk_fwd_o"]):
        result = flacheck("scan", *more, "--dry-run", "--triton", "3.2.0", cwd=here)
        assert "packages with Triton" not in result.stderr
