"""The units of a CMake project or of a Makefile, whose build is configured and not run.

To configure a build is to run the project's code: it runs in the sandbox, with the rights of a
package. The build files that can be read without that come first.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.engine import policies, programs
from flacheck.errors import MatrixError
from flacheck.files import GuestFolder
from flacheck.pipeline import build_stand_ins
from flacheck.source import builds
from flacheck.source.builds import ProjectBuild, cmake_options, compile_commands, make_output
from flacheck.source.builds.arguments import BuildUnits, printable
from flacheck.source.builds.build_file import is_file, read_text
from flacheck.toolchains.scratch import temporary_folder

_CMAKE_FILE = "CMakeLists.txt"
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_MOST_BYTES = 1 << 20
# Output of `make -n` and databases may be large: one command line a unit.
_MOST_OUTPUT = 64 << 20
_LOG = "log.txt"
_SECONDS = 300.0
_MEMORY_MB = 4096
_PROGRAMS_BESIDE_PYTHON = str(Path(sys.executable).parent)
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_SEARCH_PATH = f"{_PROGRAMS_BESIDE_PYTHON}:{_SYSTEM_PATH}"
# Lines of a failed configuration that a warning shows, and their length.
_MOST_LINES = 4
_LONGEST = 300
_ARCHITECTURE = "90a"


def find(root: Path) -> ProjectBuild:
    """Return the translation units of a project.

    They are those of the first build file that lists a unit, without running it if one can be read
    so, else of its CMake project, else of its Makefile.

    Raises MatrixError for a file that cannot be read.
    """
    build = builds.find(root)
    if build.units:
        return build
    warnings = list(build.warnings)
    for file in _configurable(root):
        configured = _configure(file, root)
        warnings += configured.warnings
        if configured.units:
            return replace(configured, warnings=tuple(warnings))
    return ProjectBuild(None, (), tuple(warnings))


def describes(root: Path) -> bool:
    """Return True if a folder contains a file that lists what is compiled."""
    return builds.describes(root) or any(True for _ in _configurable(root))


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


def _configure(file: Path, root: Path) -> ProjectBuild:
    """Return the units that a CMake project or a Makefile compiles, or a warning why none."""
    tool = "cmake" if file.name == _CMAKE_FILE else "make"
    program = shutil.which(tool, path=_SEARCH_PATH)
    place = file.relative_to(root)
    if program is None:
        lacking = f"{place}: `{tool}` is not installed, so its units are not listed"
        if tool == "cmake":
            lacking += ": pip install cmake ninja"
        return ProjectBuild(None, (), (lacking,))
    with temporary_folder() as tools, temporary_folder() as scratch:
        sandbox = _Sandbox(root, Path(tools), Path(scratch))
        if tool == "cmake":
            build = _of_cmake(program, file, sandbox)
        else:
            build = _of_make(program, file, sandbox)
        build = sandbox.without_own_folders(build)
    return builds.checked(build, file, root)


@dataclass(frozen=True)
class _Sandbox:
    """A project, a folder with stand-ins that its build may execute, and one that it may write."""

    root: Path
    tools: Path
    scratch: Path

    def run(
        self, program: str, arguments: Sequence[str], more: Mapping[str, str]
    ) -> programs.ProgramEnd:
        """Run a program of the machine on the project, confined like a package's code."""
        folders = [str(self.root), str(self.tools), str(Path(program).resolve().parent)]
        return programs.run(
            arguments,
            programs.environment(self.scratch, more),
            self.scratch,
            self.scratch / _LOG,
            seconds=_SECONDS,
            memory_mb=_MEMORY_MB,
            policy=policies.of_package(folders, str(self.scratch)),
            python=program,
        )

    def toolkit(self) -> dict[str, str]:
        """Make a stand-in for a CUDA toolkit, and return the variables that name it."""
        toolkit = str(build_stand_ins.toolkit(self.tools))
        return {
            "PATH": f"{toolkit}/bin:{_SEARCH_PATH}",
            "CUDA_HOME": toolkit,
            "CUDA_PATH": toolkit,
            "TORCH_CUDA_ARCH_LIST": "9.0a",
        }

    def failure(self, file: Path, end: programs.ProgramEnd) -> str:
        """Return a warning with the first lines of an error in the log."""
        lines = self.output().splitlines()
        for number, line in enumerate(lines):
            if line.startswith(("CMake Error", "make: ***", "Error")):
                lines = lines[number : number + _MOST_LINES]
                break
        else:
            lines = lines[-_MOST_LINES:]
        reason = printable(" ".join(" ".join(lines).split())[:_LONGEST])
        return (
            f"{file.relative_to(self.root)}: its build cannot be configured ({end.how}): {reason}"
        )

    def output(self) -> str:
        """Return the end of the last program's output, which no build needs more of."""
        return GuestFolder(self.scratch).read_end(_LOG, _MOST_OUTPUT)

    def without_own_folders(self, build: BuildUnits) -> BuildUnits:
        """Return a build without the include folders that end with this sandbox.

        Those with headers that the build generated are named in a warning.
        """
        units = []
        generated = set()
        for unit in build.units:
            kept = []
            for folder in unit.includes:
                if _lies_below(folder, self.scratch):
                    generated.add(os.path.relpath(folder, self.scratch))
                elif not _lies_below(folder, self.tools):
                    kept.append(folder)
            units.append(replace(unit, includes=tuple(kept)))
        warnings = build.warnings
        if generated:
            names = ", ".join(map(printable, sorted(generated)))
            warnings += (f"headers that the build generates are left out: {names}",)
        return BuildUnits(tuple(dict.fromkeys(units)), warnings)


def _lies_below(folder: str, parent: Path) -> bool:
    return Path(folder).is_relative_to(parent)


def _of_cmake(program: str, file: Path, sandbox: _Sandbox) -> BuildUnits:
    """Configure a CMake project, and return the units of its compilation database."""
    environment = sandbox.toolkit()
    toolkit = environment["CUDA_HOME"]
    build = sandbox.scratch / "build"
    options = {
        "CMAKE_CUDA_ARCHITECTURES": _ARCHITECTURE,
        "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
        **cmake_options.read(sandbox.root),
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
    if shutil.which("ninja", path=_SEARCH_PATH):
        arguments += ["-G", "Ninja"]
    else:
        arguments += ["-G", "Unix Makefiles"]
    arguments += [f"-D{name}={value}" for name, value in options.items()]
    end = sandbox.run(program, arguments, environment)
    database = GuestFolder(sandbox.scratch).read("build/compile_commands.json", _MOST_OUTPUT)
    if end.exit_code != 0 or database is None:
        return BuildUnits((), (sandbox.failure(file, end),))
    return compile_commands.read_entries(database.decode(errors="replace"), file, sandbox.root)


def _of_make(program: str, file: Path, sandbox: _Sandbox) -> BuildUnits:
    """Return the units of the commands that make would run for the Makefile's first target."""
    arguments = ["-n", "-B", "-k", "-w", "-C", str(sandbox.root), "-f", str(file)]
    end = sandbox.run(program, arguments, sandbox.toolkit())
    units = make_output.read(sandbox.output(), sandbox.root, sandbox.root)
    if end.exit_code != 0:
        return BuildUnits(units.units, (sandbox.failure(file, end),))
    return units
