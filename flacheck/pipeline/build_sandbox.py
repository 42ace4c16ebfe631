"""The sandbox in which a project's build is configured: its code has the rights of a package."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.engine import policies, programs
from flacheck.files import GuestFolder
from flacheck.pipeline import build_stand_ins
from flacheck.source.builds.arguments import BuildUnits, printable
from flacheck.toolchains.scratch import temporary_folder

# Output of `make -n` and databases may be large: one command line a unit.
MOST_OUTPUT = 64 << 20
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
SEARCH_PATH = f"{Path(sys.executable).parent}:{SYSTEM_PATH}"
_LOG = "log.txt"
_SECONDS = 300.0
_MEMORY_MB = 4096
# Lines of a failed configuration that a warning shows, and their length.
_MOST_LINES = 4
_LONGEST = 300


@dataclass(frozen=True)
class BuildSandbox:
    """A project, a folder with stand-ins that its build may execute, and one that it may write."""

    root: Path
    tools: Path
    scratch: Path

    @property
    def folder(self) -> GuestFolder:
        """The folder that the build may write, for bounded reads."""
        return GuestFolder(self.scratch)

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

    def toolkit(self, version: str = build_stand_ins.USUAL_TOOLKIT) -> dict[str, str]:
        """Make a stand-in for a CUDA toolkit, and return the variables that name it."""
        toolkit = str(build_stand_ins.toolkit(self.tools, version))
        return {
            "PATH": f"{toolkit}/bin:{SEARCH_PATH}",
            "CUDA_HOME": toolkit,
            "CUDA_PATH": toolkit,
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
        return self.folder.read_end(_LOG, MOST_OUTPUT)

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


@contextmanager
def sandbox_of(root: Path) -> Iterator[BuildSandbox]:
    """Yield a sandbox for a project's build, whose folders end with the context."""
    with temporary_folder() as tools, temporary_folder() as scratch:
        yield BuildSandbox(root, Path(tools), Path(scratch))


def _lies_below(folder: str, parent: Path) -> bool:
    return Path(folder).is_relative_to(parent)
