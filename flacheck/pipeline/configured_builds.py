"""The units of a project: of its record of a build, its setup.py, its CMake project or Makefile.

All but the first run the project's code: it runs in the sandbox, with the rights of a package, and
builds nothing.
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from flacheck.errors import MatrixError
from flacheck.pipeline import build_stand_ins, setup_scripts
from flacheck.pipeline.build_sandbox import MOST_OUTPUT, SEARCH_PATH, BuildSandbox, sandbox_of
from flacheck.source import builds
from flacheck.source.builds import ProjectBuild, cmake_options, compile_commands, make_output
from flacheck.source.builds.arguments import BuildUnits
from flacheck.source.builds.build_file import is_file, read_text

_SETUP_SCRIPT = "setup.py"
_CMAKE_FILE = "CMakeLists.txt"
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_MOST_BYTES = 1 << 20
_ARCHITECTURE = "90a"
# Variables that some CMake projects and Makefiles read.
_GPU = {"TORCH_CUDA_ARCH_LIST": "9.0a"}


def find(root: Path) -> ProjectBuild:
    """Return the translation units of a project.

    They are those of the first build file that lists a unit: a record of a build, else setup.py,
    else its CMake project, else its Makefile.

    Raises MatrixError for a file that cannot be read.
    """
    build = builds.find(root)
    if build.units:
        return build
    warnings = list(build.warnings)
    script = setup_scripts.ScriptBuild(BuildUnits())
    file = root / _SETUP_SCRIPT
    if file.exists():
        script = setup_scripts.read(file, root)
        build = builds.checked(script.units, file, root)
        warnings += build.warnings
        if build.units:
            return replace(build, warnings=tuple(warnings))
    for file in _configurable(root):
        build = _configure(file, root, script.cmake_options)
        warnings += build.warnings
        if build.units:
            return replace(build, warnings=tuple(warnings))
    return ProjectBuild(None, (), tuple(warnings))


def _configurable(root: Path) -> Iterator[Path]:
    """Yield the CMake projects and Makefiles of a project that mention CUDA.

    A CMake project lies in the project's folder or, where a setup.py starts it, in one below.
    """
    for file in (root / _CMAKE_FILE, *sorted(root.glob(f"*/{_CMAKE_FILE}"))):
        text = _text(file, root)
        if "project" in text and ("CUDA" in text or "Torch" in text):
            yield file
            if file.parent == root:
                break
    for name in _MAKEFILES:
        text = _text(root / name, root).lower()
        if "nvcc" in text or ".cu" in text:
            yield root / name
            # make reads the first of these names.
            break


def _text(file: Path, root: Path) -> str:
    if not is_file(file):
        return ""
    try:
        return read_text(file, root, _MOST_BYTES)
    except MatrixError:
        return ""


def _configure(file: Path, root: Path, options: Sequence[str]) -> ProjectBuild:
    """Return the units that a CMake project or Makefile compiles, or a warning without any."""
    tool = "cmake" if file.name == _CMAKE_FILE else "make"
    program = shutil.which(tool, path=SEARCH_PATH)
    place = file.relative_to(root)
    if program is None:
        lacking = f"{place}: `{tool}` is not installed, so its units are not listed"
        if tool == "cmake":
            lacking += ": pip install cmake ninja"
        return ProjectBuild(None, (), (lacking,))
    with sandbox_of(root) as sandbox:
        if tool == "cmake":
            build = _of_cmake(program, file, sandbox, options)
        else:
            build = _of_make(program, file, sandbox)
        build = sandbox.without_own_folders(build)
    return builds.checked(build, file, root)


def _of_cmake(
    program: str, file: Path, sandbox: BuildSandbox, script_options: Sequence[str]
) -> BuildUnits:
    """Configure a CMake project, and return the units of its compilation database."""
    environment = {**sandbox.toolkit(), **_GPU}
    toolkit = environment["CUDA_HOME"]
    build = sandbox.scratch / "build"
    options = {
        "CMAKE_CUDA_ARCHITECTURES": _ARCHITECTURE,
        "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
        **cmake_options.read(sandbox.root, script_options),
        "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
        "CMAKE_CUDA_COMPILER": f"{toolkit}/bin/nvcc",
        "CUDAToolkit_ROOT": toolkit,
        "CUDA_TOOLKIT_ROOT_DIR": toolkit,
    }
    for name in ("Python", "Python3", "PYTHON"):
        options[f"{name}_EXECUTABLE"] = sys.executable
    for name, folder in build_stand_ins.cmake_packages(sandbox.tools).items():
        options[f"{name}_DIR"] = str(folder)
    arguments = ["-S", str(file.parent), "-B", str(build)]
    if shutil.which("ninja", path=SEARCH_PATH):
        arguments += ["-G", "Ninja"]
    else:
        arguments += ["-G", "Unix Makefiles"]
    arguments += [f"-D{name}={value}" for name, value in options.items()]
    end = sandbox.run(program, arguments, environment)
    database = sandbox.folder.read("build/compile_commands.json", MOST_OUTPUT)
    if end.exit_code != 0 or database is None:
        return BuildUnits((), (sandbox.failure(file, end),))
    return compile_commands.read_entries(database.decode(errors="replace"), file, sandbox.root)


def _of_make(program: str, file: Path, sandbox: BuildSandbox) -> BuildUnits:
    """Return the units of the commands that make would run for the Makefile's first target."""
    arguments = ["-n", "-B", "-k", "-w", "-C", str(sandbox.root), "-f", str(file)]
    end = sandbox.run(program, arguments, {**sandbox.toolkit(), **_GPU})
    units = make_output.read(sandbox.output(), sandbox.root, sandbox.root)
    if end.exit_code != 0:
        return BuildUnits(units.units, (sandbox.failure(file, end),))
    return units
