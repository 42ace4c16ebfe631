"""Planning a scan of what a project's build compiles: its C++ translation units under CUDA
toolkits. Nothing of the project is run."""

import re
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from flacheck.capture.travelling import Captures
from flacheck.engine.plan import Plan
from flacheck.engine.provider import torch_folder
from flacheck.errors import INSTALL_TORCH, EmptySelection, IncompleteError, UsageError
from flacheck.inputs.expand import Selection, Source, check_kernels, expand
from flacheck.inputs.matrix import Block, Matrix
from flacheck.model import Json, Kernel, Launch, Question, Unit, digest
from flacheck.packages import checkouts, source_trees
from flacheck.packages.package import Package
from flacheck.source import builds
from flacheck.source.builds import ProjectBuild
from flacheck.source.builds.arguments import BuildUnit
from flacheck.toolchains import Resolver

# What most of these projects are written for.
DEFAULT_TARGETS = ("sm90a",)
# Libraries of the toolkit whose headers are no part of its compiler, and how a source that wants
# them names them: torch's CUDA context holds handles of the first three.
_LIBRARIES = {
    "nvidia-cublas": re.compile(r"ATen/cuda/(?:CUDAContext|CUDABlas)|<cublas"),
    "nvidia-cusparse": re.compile(r"ATen/cuda/(?:CUDAContext|CUDASparse)|<cusparse"),
    "nvidia-cusolver": re.compile(r"ATen/cuda/CUDAContext|<cusolver"),
    "nvidia-curand": re.compile(r"ATen/cuda/CUDAGenerator|ATen/CUDAGenerator|<curand"),
    "nvidia-cufft": re.compile(r"<cufft"),
    "nvidia-cutlass": re.compile(r"<cutlass/|<cute/|\"cutlass/|\"cute/"),
}
_PINS = {"nvidia-cutlass": ""}
# Their headers change little between the toolkits of one major version.
_LIBRARY_PIN = ">=10,<14"
_HEADERS = (".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc", ".cxx")
# torch's CPU wheel lacks a header that CMake generates; this macro says to do without.
_GENERATED = Path("c10") / "cuda" / "impl" / "cuda_cmake_macros.h"
_WITHOUT_GENERATED = "-DC10_USING_CUSTOM_GENERATED_MACROS"


def announced(spec: str, selection: Selection) -> Question | None:
    """Nothing: the cells of a build are known at once."""
    return None


def plan(
    spec: str,
    selection: Selection,
    configs: str,
    until: str | None,
    travelling: Captures | None = None,
) -> Plan:
    """The units of a project's build on every target and toolkit asked."""
    if selection.ops:
        raise EmptySelection(f"{spec}: no call path leads to a translation unit; use --kernel")
    package = source_trees.provide_sources(spec)
    root = Path(package.path)
    build = builds.find(root)
    if not build.units:
        raise UsageError(
            f"--package {spec}: no translation unit was found; flacheck reads "
            "compile_commands.json, build.ninja, and the extensions in setup.py"
        )
    package = replace(package, includes=tuple(_includes(build, root)))
    sources = sources_of(package, build)
    check_kernels(selection.kernels, (source.kernel.name for source in sources))
    specs = selection.toolchains
    axes = {"target": selection.targets or DEFAULT_TARGETS, "toolchain": specs}
    matrix = Matrix(package.identity, str(build.file), (Block(axes),))
    resolver = Resolver()
    cells = list(expand(matrix, sources, selection, resolver, until))
    return Plan(
        name=package.identity,
        source=_source(spec),
        cells=cells,
        choices=resolver.choices,
        packages={package.identity: package},
        warnings=(*dict.fromkeys(resolver.warnings), *_dropped(build)),
    )


def current(kernel: Kernel, spec: str) -> tuple[Kernel, Package]:
    """A stored unit as its package has it now."""
    package = source_trees.provide_sources(spec)
    root = Path(package.path)
    build = builds.find(root)
    package = replace(package, includes=tuple(_includes(build, root)))
    for source in sources_of(package, build):
        if source.kernel.name == kernel.name:
            return source.kernel, package
    raise UsageError(f"{kernel.name} is no translation unit of {package.identity} any more")


def sources_of(package: Package, build: ProjectBuild) -> list[Source]:
    """The units of a build as kernels; a file that is compiled with several sets of defines is one
    kernel with several launches."""
    launches: dict[str, tuple[Kernel, list[Launch]]] = {}
    for unit in build.units:
        kernel = _kernel(package, unit)
        listed = launches.setdefault(kernel.name, (kernel, []))[1]
        args = {name: {"constexpr": value} for name, value in unit.defines.items()}
        config: Json = {"kwargs": {}}
        if unit.standard:
            config["std"] = unit.standard
        launch = Launch(args, configs=(config,))
        if launch not in listed:
            listed.append(launch)
    return [Source(kernel, tuple(listed)) for kernel, listed in launches.values()]


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
    return [version.read_text()] if version.is_file() else []


def _lacks_generated(folder: Path) -> bool:
    return (folder / "c10" / "cuda").is_dir() and not (folder / _GENERATED).is_file()


def _includes(build: ProjectBuild, root: Path) -> Iterator[str]:
    """Folders of headers outside of the project: torch's and Python's, those of the toolkit's
    libraries, and those that the build names and this machine has."""
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
        if wanted.search(text):
            pin = _PINS.get(name, _LIBRARY_PIN)
            yield from source_trees.library_headers(f"{name}{pin}")
    named = {folder for unit in build.units for folder in unit.includes}
    for folder_name in sorted(named):
        there = folder_name.startswith("/") and Path(folder_name).is_dir()
        if there and "torch/include" not in folder_name:
            yield folder_name


def _texts(root: Path) -> Iterator[str]:
    for file in sorted(root.rglob("*")):
        if file.suffix in _HEADERS and file.is_file():
            yield file.read_text(encoding="utf-8", errors="replace")


def _dropped(build: ProjectBuild) -> Sequence[str]:
    """A word on arguments that flacheck does not pass on, but for those that it chooses itself."""
    own = re.compile(r"-(?:-generate-code|gencode|arch|code|-gpu|o|c|t|-threads|x|M|ccbin)\b")
    dropped = {flag for unit in build.units for flag in unit.dropped if not own.match(flag)}
    dropped -= {"-c", "-v"}
    if not dropped:
        return ()
    return (f"arguments of the build that are not passed on: {' '.join(sorted(dropped))}",)


def _source(spec: str) -> str:
    """A checkout by its folder: every edit changes its version, and asks the same of the new
    state."""
    if checkouts.is_path(spec):
        return str(Path(spec).expanduser().resolve())
    return ""
