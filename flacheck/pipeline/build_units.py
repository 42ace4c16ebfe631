"""A project's CUDA C++ units through the pipeline."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck import files
from flacheck.engine.provider import torch_folder
from flacheck.errors import INSTALL_TORCH, EmptySelection, IncompleteError, UsageError
from flacheck.files import lies_inside
from flacheck.model import Json, Kernel, Launch, Unit, digest
from flacheck.pipeline import configured_builds
from flacheck.pipeline.job import Job
from flacheck.pipeline.plan import Plan
from flacheck.source import builds
from flacheck.source.builds import ProjectBuild, generated_sources
from flacheck.source.builds.arguments import BuildUnit, is_chosen_by_scan
from flacheck.source.builds.build_file import is_file, is_folder
from flacheck.source.packages import checkouts, source_trees
from flacheck.source.packages.package import Package
from flacheck.subjects.captures.capture_archive import Captures
from flacheck.subjects.inputs.expand import Source, check_kernels, expand
from flacheck.subjects.inputs.extents import extents, of_cells
from flacheck.subjects.inputs.matrix import Block, Matrix
from flacheck.toolchains import Resolver

# What most of these projects are written for.
DEFAULT_TARGETS = ("sm90a",)
# Libraries whose headers do not come with the compiler, and how sources include
# them: torch's CUDA context holds handles of the first three.
_LIBRARIES = {
    "nvidia-cublas": re.compile(r"ATen/cuda/(?:CUDAContext|CUDABlas)|<cublas"),
    "nvidia-cusparse": re.compile(r"ATen/cuda/(?:CUDAContext|CUDASparse)|<cusparse"),
    "nvidia-cusolver": re.compile(r"ATen/cuda/CUDAContext|<cusolver"),
    "nvidia-curand": re.compile(r"ATen/cuda/CUDAGenerator|ATen/CUDAGenerator|<curand"),
    "nvidia-cufft": re.compile(r"<cufft"),
    "nvidia-cutlass": re.compile(r"<cutlass/|<cute/|\"cutlass/|\"cute/"),
}
_PINS = {"nvidia-cutlass": ""}
# A header by which a project's own copy of a library shows.
_HEADER_OF = {"nvidia-cutlass": "cutlass/cutlass.h"}
# Their headers change little between the toolkits of one major version.
_LIBRARY_PIN = ">=10,<14"
_HEADERS = (".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc", ".cxx")
# torch's module that builds extensions, and the standards in its text.
_EXTENSIONS_OF_TORCH = Path("torch") / "utils" / "cpp_extension.py"
_STANDARD = re.compile(r"['\"]-std=(c\+\+\d+)['\"]")
# torch's CPU wheel lacks a header that CMake generates; this macro says to do without.
_GENERATED = Path("c10") / "cuda" / "impl" / "cuda_cmake_macros.h"
_WITHOUT_GENERATED = "-DC10_USING_CUSTOM_GENERATED_MACROS"


@dataclass(frozen=True)
class ResolvedBuild:
    """A project with CUDA C++ units and a job; its cells need no capture."""

    job: Job

    @property
    def question(self) -> None:
        """None: the cells of a build are known at once."""
        return

    def capture(self, archive: Captures | None = None) -> ResolvedBuild:
        """Return the build itself: its units need no capture."""
        return self

    def expand(self) -> Plan:
        """Return the plan of the job: each unit for every target and toolkit.

        Raises:
            UsageError: If the project has no unit.
            EmptySelection: If operators are selected, or no unit is left.
        """
        spec, selection = str(self.job.subject.package), self.job.selection
        if selection.ops:
            raise EmptySelection(f"{spec}: no call path leads to a translation unit; use --kernel")
        package = source_trees.provide_sources(spec)
        root = Path(package.path)
        build = configured_builds.find(root)
        if not build.units:
            missing_sources = tuple(generated_sources.find_warnings(root))
            raise UsageError(_without_units(spec, (*build.warnings, *missing_sources)))
        # Before the headers of libraries are downloaded: those take gigabytes.
        names = (source.kernel.name for source in sources_of(package, build))
        check_kernels(selection.kernels, names, f"flacheck scan --package {spec} --dry-run")
        package = replace(package, includes=tuple(include_folders(build, root)))
        sources = sources_of(package, build)
        axes = {
            "target": selection.targets or DEFAULT_TARGETS,
            "toolchain": selection.toolchains,
        }
        matrix = Matrix(package.identity, str(build.file), (Block(axes),))
        resolver = Resolver()
        cells = list(expand(matrix, sources, selection, resolver, self.job.until))
        return Plan(
            name=package.identity,
            source=checkouts.question_source(spec),
            cells=cells,
            extents=extents(of_cells(cells)),
            choices=resolver.choices,
            packages={package.identity: package},
            warnings=(
                *dict.fromkeys(resolver.warnings),
                *build.warnings,
                *generated_sources.find_warnings(root),
                *replaced_libraries(build, root),
                *_dropped(build),
            ),
        )


def _without_units(spec: str, warnings: Sequence[str]) -> str:
    message = (
        f"--package {spec}: no translation unit was found; flacheck reads compile_commands.json, "
        "build.ninja, the extensions in setup.py, CMakeLists.txt and Makefile"
    )
    return "; ".join((message, *warnings))


def current(kernel: Kernel, spec: str, may_run: bool) -> tuple[Kernel, Package]:
    """Return a stored unit in the present version of its package.

    Without `may_run` none of the project's code runs, so its unit must be in a record of a build.
    """
    package = source_trees.provide_sources(spec)
    root = Path(package.path)
    build = configured_builds.find(root) if may_run else builds.find(root)
    package = replace(package, includes=tuple(include_folders(build, root)))
    for source in sources_of(package, build):
        if source.kernel.name == kernel.name:
            return source.kernel, package
    remedy = f"`flacheck scan --package {spec}` lists its units"
    if not may_run:
        remedy = f"name the project with --package {spec} --kernel {kernel.name}, or add --trust"
    raise UsageError(f"{kernel.name} is in no build file of {package.identity}: {remedy}")


def sources_of(package: Package, build: ProjectBuild) -> list[Source]:
    """Return the units of a build as kernels.

    A file that is compiled with several sets of defines is one kernel with several launches; with
    several sets of flags or include folders it is several kernels.
    """
    by_file: dict[str, dict[Kernel, list[Launch]]] = {}
    for unit in build.units:
        launches = by_file.setdefault(unit.file, {}).setdefault(_kernel(package, unit), [])
        args = {name: {"constexpr": value} for name, value in unit.defines.items()}
        config: Json = {"kwargs": {}}
        standard = unit.standard
        if standard is None and unit.of_torch:
            standard = _standard_of_torch()
        if standard:
            config["std"] = standard
        launch = Launch(args, configs=(config,))
        if launch not in launches:
            launches.append(launch)
    sources = []
    for variants in by_file.values():
        names = _names_of(list(variants))
        for name, (kernel, launches) in zip(names, variants.items()):
            sources.append(Source(replace(kernel, name=name), tuple(launches)))
    return sources


def _names_of(variants: Sequence[Kernel]) -> list[str]:
    """Return a name for each kernel of one file: the file with the arguments that differ."""
    arguments = []
    for kernel in variants:
        assert isinstance(kernel.origin, Unit)
        folders = [f"-I{folder}" for folder in kernel.origin.includes]
        arguments.append([*kernel.origin.flags, *folders])
    common = set.intersection(*map(set, arguments))
    names: list[str] = []
    for kernel, own in zip(variants, arguments):
        differing = " ".join(argument for argument in own if argument not in common)
        name = kernel.name
        if differing:
            name += f" ({differing})"
        if name in names:
            # The same arguments in another order.
            name += f" #{len(names) + 1}"
        names.append(name)
    return names


def _kernel(package: Package, unit: BuildUnit) -> Kernel:
    flags = unit.flags
    outside = [folder for folder in package.includes if _lacks_generated(Path(folder))]
    if outside and unit.of_torch:
        flags = (*flags, _WITHOUT_GENERATED)
    own = tuple(folder for folder in unit.includes if not folder.startswith("/"))
    # Headers elsewhere are part of the identity by what they are of, not by where they lie here.
    identity = [package.digest, unit.file, list(flags), list(own), _versions(unit)]
    return Kernel(unit.file, package.identity, digest(identity), Unit(unit.file, flags, own))


def _versions(unit: BuildUnit) -> list[str]:
    if not unit.of_torch:
        return []
    folder = torch_folder()
    version = Path(folder or "") / "torch" / "version.py"
    return [files.read_text(version, links=True)] if version.is_file() else []


def _standard_of_torch() -> str | None:
    """Return the C++ standard that the installed torch passes where an extension names none."""
    file = Path(torch_folder() or "") / _EXTENSIONS_OF_TORCH
    if not file.is_file():
        return None
    standards = _STANDARD.findall(files.read_text(file, links=True))
    return max(standards, key=standards.count, default=None)


def _lacks_generated(folder: Path) -> bool:
    return (folder / "c10" / "cuda").is_dir() and not (folder / _GENERATED).is_file()


def include_folders(build: ProjectBuild, root: Path) -> Iterator[str]:
    """Yield the folders of headers outside of the project.

    They are torch's, Python's, those of the toolkit's libraries, and those of the build that exist.
    """
    if any(unit.of_torch for unit in build.units):
        folder = torch_folder()
        if folder is None:
            raise IncompleteError(
                "the build includes torch's headers, and torch is not installed in flacheck's "
                f"environment: {INSTALL_TORCH}"
            )
        torch = Path(folder) / "torch" / "include"
        yield str(torch)
        yield str(torch / "torch" / "csrc" / "api" / "include")
        yield sysconfig.get_paths()["include"]
    text = "\n".join(_texts(root))
    for name, wanted in _LIBRARIES.items():
        if wanted.search(text) and not _brings(build, root, name):
            pin = _PINS.get(name, _LIBRARY_PIN)
            # The Python packages that CUTLASS requires contain no headers.
            yield from source_trees.library_headers(f"{name}{pin}", alone=name in _PINS)
    for folder_name in _outside_folders(build):
        # The worker refuses files there except headers of the system and of the cache (FC812).
        if is_folder(Path(folder_name)):
            yield folder_name


def _outside_folders(build: ProjectBuild) -> list[str]:
    """Return the include folders of a build that lie outside of the project, except torch's."""
    folders = {folder for unit in build.units for folder in unit.includes}
    return sorted(each for each in folders if each.startswith("/") and "torch/include" not in each)


def _brings(build: ProjectBuild, root: Path, library: str) -> bool:
    """Return True for a library whose headers are in an include folder of the build."""
    header = _HEADER_OF.get(library)
    if header is None:
        return False
    folders = {folder for unit in build.units for folder in unit.includes}
    return any(is_file(root / folder / header) for folder in folders)


def replaced_libraries(build: ProjectBuild, root: Path) -> Iterator[str]:
    """Yield a warning for each library whose folder in the project is missing.

    An archive of a repository, and a clone without its submodules, lack such folders.
    """
    folders = sorted({folder for unit in build.units for folder in unit.includes})
    for library in _HEADER_OF:
        name = library.removeprefix("nvidia-")
        missing = [each for each in folders if name in each.lower() and not is_folder(root / each)]
        if missing and not _brings(build, root, library):
            yield (
                f"{missing[0]} is missing: the newest {library} of the package index is used, "
                "whose errors need not be those of the project's own version "
                "(`git submodule update --init` provides that)"
            )


def _texts(root: Path) -> Iterator[str]:
    for file in sorted(root.rglob("*")):
        if file.suffix in _HEADERS and file.is_file() and lies_inside(file, root):
            yield files.read_text(file, errors="replace")


def _dropped(build: ProjectBuild) -> Iterator[str]:
    """Yield warnings about the build's arguments that are not passed on.

    Arguments that a scan chooses itself need no warning.
    """
    every_flag = {flag for unit in build.units for flag in unit.dropped_flags}
    flags = sorted(flag for flag in every_flag if not is_chosen_by_scan(flag))
    if flags:
        yield f"arguments of the build that are not passed on: {' '.join(flags)}"
