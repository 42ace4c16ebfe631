"""Sources that a build generates: the scan warns that it does not find them."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.errors import UsageError
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job
from flacheck.source.builds import generated_sources
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject

SETUP = """
import subprocess, sys
from setuptools import setup
from torch.utils.cpp_extension import CUDAExtension

for script in ("autogen_fna.py", "bump_version.py"):
    subprocess.check_call([sys.executable, f"scripts/{script}", "-o", "csrc/autogen"])
setup(name="made", ext_modules=[CUDAExtension("made", ["csrc/api.cu"])])
"""
CMAKE = """
project(made LANGUAGES CXX CUDA)
file(GLOB FIXED ${CMAKE_CURRENT_SOURCE_DIR}/src/*.cu)
file(GLOB AUTOGEN ./autogen/src/cuda/fna/*.cu)
file(GLOB ELSEWHERE ${THIRD_PARTY}/*.cu)
"""
GENERATOR = 'with open("autogen/src/cuda/fna/source_0.cu", "w") as file:\n    file.write("")\n'


def project(root: Path) -> Path:
    """Write a project whose setup.py runs a script that writes CUDA sources."""
    for folder in ("csrc/src", "scripts"):
        (root / folder).mkdir(parents=True)
    (root / "setup.py").write_text(SETUP)
    (root / "csrc" / "CMakeLists.txt").write_text(CMAKE)
    (root / "csrc" / "src" / "api.cu").touch()
    (root / "csrc" / "api.cu").touch()
    (root / "scripts" / "autogen_fna.py").write_text(GENERATOR)
    (root / "scripts" / "bump_version.py").write_text('open("version.txt", "w")\n')
    return root


def test_a_scan_names_what_generates_sources_that_are_missing(tmp_path: Path) -> None:
    """The warning names the script that writes the sources, and the folder."""
    (warning,) = generated_sources.find_warnings(project(tmp_path))
    assert warning == (
        "sources that the build generates are not scanned unless they exist; they are written by"
        " scripts/autogen_fna.py; no file matches csrc/autogen/src/cuda/fna/*.cu: build the project"
        " once, or run what writes them, and scan it again"
    )


def test_the_plan_of_such_a_project_has_the_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warning is beside the units, and in the error if there are none."""
    root = project(tmp_path)
    setup = root / "setup.py"
    text = setup.read_text().replace("torch.utils.cpp_extension", "setuptools")
    setup.write_text(text.replace("CUDAExtension", "Extension"))
    job = Job(Subject(package=str(root)), Selection(toolchains=("nvcc==13.0.88",)))
    plan = planning.plan_job(job)
    assert [cell.kernel.name for cell in plan.cells] == ["csrc/api.cu"]
    assert any("scripts/autogen_fna.py" in warning for warning in plan.warnings)
    (root / "csrc" / "api.cu").unlink()
    (root / "csrc" / "CMakeLists.txt").unlink()
    with pytest.raises(UsageError, match=r"written by scripts/autogen_fna\.py"):
        planning.plan_job(job)


def test_a_setup_script_that_writes_sources_itself_is_named(tmp_path: Path) -> None:
    """A script that fills in a template for each head size is named."""
    (tmp_path / "setup.py").write_text(
        'for size in (64, 128):\n    open(f"csrc/fwd_{size}.cu", "w").write(text)\n'
    )
    (warning,) = generated_sources.find_warnings(tmp_path)
    assert "written by setup.py" in warning


def test_a_project_whose_sources_all_exist_has_no_warning(tmp_path: Path) -> None:
    """A script without a caller, and one in a missing submodule, do not count as parts of the
    build."""
    root = project(tmp_path)
    (root / "setup.py").write_text(SETUP.replace("autogen_fna.py", "third_party/gen.py"))
    (root / "csrc" / "autogen" / "src" / "cuda" / "fna").mkdir(parents=True)
    (root / "csrc" / "autogen" / "src" / "cuda" / "fna" / "source_0.cu").touch()
    assert list(generated_sources.find_warnings(root)) == []
