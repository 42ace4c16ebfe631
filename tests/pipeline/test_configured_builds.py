"""The units of CMake projects and Makefiles, whose builds are configured in the sandbox."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from flacheck.guest.engine.escapes import Bait, lay_bait
from flacheck.pipeline import build_stand_ins, configured_builds
from flacheck.source.builds.arguments import BuildUnit
from tests.escaping import code, expected

CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(attention LANGUAGES CXX CUDA)
find_package(Torch REQUIRED)
find_package(pybind11 REQUIRED)
set(CMAKE_CUDA_STANDARD 17)
option(WITH_FP8 "Compile the fp8 kernels too" OFF)
pybind11_add_module(attention csrc/forward.cu csrc/api.cpp)
if(WITH_FP8)
  target_sources(attention PRIVATE csrc/fp8.cu)
endif()
target_include_directories(attention PRIVATE csrc ${CMAKE_BINARY_DIR}/generated)
target_compile_definitions(attention PRIVATE SPLIT=4)
target_compile_options(attention PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--use_fast_math>)
target_link_libraries(attention PRIVATE torch)
"""
MAKEFILE = """
FLAGS = -std=c++17 -O3 -DSPLIT=4 \\
  -Iinclude
all: a.o both sub
a.o: src/a.cu
\tnvcc $(FLAGS) -c src/a.cu -o a.o
both:
\tcd src && nvcc -c b.cu c.cpp -DBOTH
sub:
\t$(MAKE) -C below
\ttouch ran
"""
SCRIPT = """
import subprocess
from setuptools import Extension, setup

run = subprocess.run("{command}", shell=True, capture_output=True, text=True)
macros = [("OPEN", f"<{{(run.stdout + run.stderr).strip()}}>")]
setup(ext_modules=[Extension("m", ["a.cu"], define_macros=macros)])
"""
BUILD_CLASS = """
import subprocess
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class CMakeBuild(build_ext):
    def build_extension(self, extension):
        output = self.get_ext_fullpath(extension.name)
        subprocess.check_call(["cmake", ".", "-DWITH_FP8=1", f"-DOUTPUT={output}"])


setup(ext_modules=[Extension("m", [])], cmdclass={"build_ext": CMakeBuild})
"""
needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def cmake_project(root: Path, text: str = CMAKE) -> Path:
    """Write a CMake project."""
    (root / "csrc").mkdir()
    for name in ("forward.cu", "fp8.cu", "api.cpp"):
        (root / "csrc" / name).touch()
    (root / "CMakeLists.txt").write_text(text)
    return root


def units_of(root: Path) -> dict[str, BuildUnit]:
    """Return a project's units by file."""
    return {unit.file: unit for unit in configured_builds.find(root).units}


@needs_cmake
def test_a_cmake_project_is_configured(tmp_path: Path) -> None:
    """Macros, flags, standard and folders are those of the targets; torch is a stand-in."""
    build = configured_builds.find(cmake_project(tmp_path))
    forward, api = build.units
    assert (forward.file, api.file) == ("csrc/forward.cu", "csrc/api.cpp")
    assert forward.defines["SPLIT"] == 4 and forward.standard == "c++17"
    assert "--use_fast_math" in forward.flags and "--use_fast_math" not in api.flags
    assert forward.includes[0] == "csrc"
    assert any("headers that the build generates" in warning for warning in build.warnings)


@needs_cmake
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[tool.scikit-build.cmake.define]\nWITH_FP8 = true\n"),
        ("setup.py", "import subprocess\nsubprocess.run(['cmake', '.', f'-DWITH_FP8={1}'])\n"),
        ("setup.py", BUILD_CLASS),
    ],
)
def test_options_of_the_python_build_are_passed(name: str, text: str, tmp_path: Path) -> None:
    """A script or scikit-build's table configures the project with them."""
    root = cmake_project(tmp_path)
    (root / name).write_text(text)
    assert "csrc/fp8.cu" in units_of(root)


@needs_cmake
def test_units_of_torch_are_listed_without_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the compile of the units needs torch's headers."""
    monkeypatch.setattr(build_stand_ins, "torch_folder", lambda: None)
    forward = units_of(cmake_project(tmp_path))["csrc/forward.cu"]
    assert forward.of_torch
    assert not any("torch" in folder for folder in forward.includes)


@needs_cmake
def test_a_failed_configuration_is_a_warning(tmp_path: Path) -> None:
    """The warning quotes the error."""
    root = cmake_project(tmp_path, CMAKE + 'message(FATAL_ERROR "no such GPU")\n')
    build = configured_builds.find(root)
    assert build.units == ()
    assert "CMakeLists.txt: its build cannot be configured (exit status 1)" in build.warnings[0]
    assert "no such GPU" in build.warnings[0]


@needs_cmake
@pytest.mark.skipif("other processes" not in expected(), reason="this kernel has no Landlock")
def test_a_hostile_project_reads_and_writes_nothing(tmp_path: Path) -> None:
    """The project's code runs with the rights of a package: the user's files are out of reach."""
    secret = tmp_path / "secret"
    secret.write_text("a password")
    root = tmp_path / "project"
    root.mkdir()
    steal = f"execute_process(COMMAND cat {secret} OUTPUT_VARIABLE STOLEN)\n"
    write = f"execute_process(COMMAND touch {tmp_path}/written {root}/written)\n"
    use = 'target_compile_definitions(attention PRIVATE "STOLEN=<${STOLEN}>")\n'
    cmake_project(root, CMAKE + steal + write + use)
    assert units_of(root)["csrc/forward.cu"].defines["STOLEN"] == "<>"
    assert not (tmp_path / "written").exists()
    assert not (root / "written").exists()


def probe(bait: Bait, folder: Path) -> str:
    """The command of a program that prints the names of the ways that are open to it."""
    names = f"{sorted(expected('programs'))!r}"
    script = (
        f"{code(bait)}print(*(n.replace(' ', '_') for n in {names} if n not in closed), sep=',')"
    )
    (folder / "probe.py").write_text(script)
    return f"{sys.executable} {folder}/probe.py"


@pytest.mark.parametrize(
    "tool",
    [
        "setup.py",
        pytest.param("cmake", marks=needs_cmake),
        pytest.param("make", marks=needs_make),
    ],
)
def test_a_build_has_no_way_out(tool: str, tmp_path: Path) -> None:
    """Programs that it starts try each way that the machine can close."""
    root, outside = tmp_path / "project", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    with lay_bait(str(outside)) as bait:
        command = probe(bait, root)
        if tool == "setup.py":
            (root / "a.cu").touch()
            (root / "setup.py").write_text(SCRIPT.format(command=command))
            (unit, *_) = units_of(root).values()
        elif tool == "cmake":
            run = f"execute_process(COMMAND {command} OUTPUT_VARIABLE OPEN ERROR_VARIABLE OPEN)\n"
            use = 'target_compile_definitions(attention PRIVATE "OPEN=<${OPEN}>")\n'
            cmake_project(root, CMAKE + run + 'string(STRIP "${OPEN}" OPEN)\n' + use)
            (unit,) = [unit for name, unit in units_of(root).items() if name.endswith("forward.cu")]
        else:
            (root / "a.cu").touch()
            text = f"all:\n\tnvcc -c a.cu '-DOPEN=<$(shell {command} 2>&1)>'\n"
            (root / "Makefile").write_text(text)
            (unit,) = units_of(root).values()
    assert unit.defines["OPEN"] == "<>"


def test_a_missing_tool_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning has the command that installs the tool."""
    monkeypatch.setattr(configured_builds, "SEARCH_PATH", str(tmp_path))
    (warning,) = configured_builds.find(cmake_project(tmp_path)).warnings
    assert "`cmake` is not installed" in warning and "pip install cmake ninja" in warning


@needs_make
def test_a_makefile_is_read_and_nothing_is_built(tmp_path: Path) -> None:
    """Recursion, changes of folder and several sources in a command are followed."""
    for name in ("src/a.cu", "src/b.cu", "src/c.cpp", "below/d.cu"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "below" / "Makefile").write_text('all:\n\t@echo "it is"; nvcc -c d.cu -DNAME=1\n')
    units = units_of(tmp_path)
    assert list(units) == ["src/a.cu", "src/b.cu", "src/c.cpp", "below/d.cu"]
    assert units["src/a.cu"].standard == "c++17" and units["src/a.cu"].includes == ("include",)
    assert units["src/b.cu"].defines == units["src/c.cpp"].defines == {"BOTH": True}
    assert units["below/d.cu"].defines == {"NAME": 1}
    assert not (tmp_path / "ran").exists()


@needs_make
def test_a_makefile_that_fails_is_a_warning(tmp_path: Path) -> None:
    """The units of the other targets are kept."""
    (tmp_path / "a.cu").touch()
    (tmp_path / "Makefile").write_text("all: a.o b.o\na.o: a.cu\n\tnvcc -c a.cu\n")
    build = configured_builds.find(tmp_path)
    assert [unit.file for unit in build.units] == ["a.cu"]
    assert "No rule to make target 'b.o'" in build.warnings[0]


def test_build_files_that_need_no_run_come_first(tmp_path: Path) -> None:
    """A CMake project with a compilation database is not configured."""
    root = cmake_project(tmp_path, 'message(FATAL_ERROR "configured")\nproject(a LANGUAGES CUDA)\n')
    command = f'[{{"directory": "{root}", "command": "nvcc -c csrc/fp8.cu"}}]'
    (root / "compile_commands.json").write_text(command)
    assert [unit.file for unit in configured_builds.find(root).units] == ["csrc/fp8.cu"]


@pytest.mark.parametrize("kind", ["link", "pipe", "large"])
def test_a_build_file_that_cannot_be_read_is_passed(kind: str, tmp_path: Path) -> None:
    """A link out of the project, a pipe and a file of megabytes do not count as CMake projects."""
    root = tmp_path / "project"
    root.mkdir()
    file = root / "CMakeLists.txt"
    if kind == "link":
        (tmp_path / "outside").write_text(CMAKE)
        file.symlink_to(tmp_path / "outside")
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.write_text(CMAKE + " " * (2 << 20))
    assert configured_builds.find(root).file is None
