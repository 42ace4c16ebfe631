"""The extensions of a `setup.py`, which runs in the sandbox and builds nothing.

It runs once for each of a few machines, because its result depends on the GPU and the toolkit.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import Struct, ValidationError, convert

from flacheck.engine import programs
from flacheck.files import GuestFileError
from flacheck.pipeline import build_stand_ins
from flacheck.pipeline.build_sandbox import BuildSandbox, sandbox_of
from flacheck.source.builds.arguments import (
    SUFFIXES,
    BuildUnit,
    BuildUnits,
    printable,
    relative,
    split_arguments,
)
from flacheck.source.builds.build_file import read_text

_MOST_SCRIPT = 1 << 20
# A thousand sources of an extension take 100 kB.
_MOST_ANSWER = 8 << 20
_ANSWER = "answer.json"
_MOST_NAMES = 3
# Defines that torch's CUDAExtension passes to nvcc before the project's own flags
# (torch.utils.cpp_extension, COMMON_NVCC_FLAGS).
_DEFINES_OF_TORCH = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
)


@dataclass(frozen=True)
class Machine:
    """A GPU and a toolkit on which a script runs."""

    gpu: str
    capability: tuple[int, int]
    toolkit: str

    def __str__(self) -> str:
        return f"{self.gpu} with CUDA {self.cuda}"

    @property
    def cuda(self) -> str:
        return self.toolkit.rpartition(".")[0]


# The usual one first: an error there is the project's.
MACHINES = (
    Machine("an H100", (9, 0), build_stand_ins.USUAL_TOOLKIT),
    Machine("a B200", (10, 0), "12.8.93"),
    Machine("an A100", (8, 0), "12.4.131"),
)


class _Extension(Struct):
    name: str
    of_torch: bool
    sources: list[str]
    include_dirs: list[str]
    define_macros: list[str]
    undef_macros: list[str]
    nvcc: list[str]
    cxx: list[str]


class _Answer(Struct):
    extensions: list[_Extension]
    options: list[str]
    error: str
    line: int


@dataclass(frozen=True)
class ScriptBuild:
    """The units of a script's extensions, and the options with which it starts CMake."""

    units: BuildUnits
    cmake_options: tuple[str, ...] = ()


def read(file: Path, root: Path) -> ScriptBuild:
    """Return the units that a script compiles on any of the machines.

    Raises MatrixError for a script that cannot be read.
    """
    text = read_text(file, root, _MOST_SCRIPT)
    units: dict[BuildUnit, BuildUnit] = {}
    options: dict[str, None] = {}
    warnings: list[str] = []
    for machine in MACHINES:
        with sandbox_of(root) as sandbox:
            answer = _run(text, machine, sandbox)
            if isinstance(answer, str):
                return ScriptBuild(BuildUnits((), (f"{file.name}: {answer}",)))
            build = sandbox.without_own_folders(BuildUnits(tuple(_units(answer, root))))
        # The machine's GPU is among the arguments that a scan does not pass on.
        by_identity = {replace(unit, dropped_flags=()): unit for unit in build.units}
        new = {plain: unit for plain, unit in by_identity.items() if plain not in units}
        if machine is MACHINES[0]:
            warnings += _error_warnings(file, answer)
            options.update(dict.fromkeys(answer.options))
        elif new:
            warnings.append(_machine_warning(file, machine, list(new)))
        units |= new
        if not units and not answer.error:
            # Most scripts have no extension on any machine.
            break
    by_file = sorted(units.values(), key=lambda unit: unit.file)
    return ScriptBuild(BuildUnits(tuple(by_file), tuple(warnings)), tuple(options))


def _run(text: str, machine: Machine, sandbox: BuildSandbox) -> _Answer | str:
    """Return what a script records on a machine, or the reason why it records nothing."""
    config: Mapping[str, object] = {
        "root": str(sandbox.root),
        "text": text,
        "capability": machine.capability,
        "cuda": machine.cuda,
        "torch": build_stand_ins.torch_version(),
        "torch_folder": str(build_stand_ins.torch_root(sandbox.tools)),
        "scratch": str(sandbox.scratch),
        "answer": str(sandbox.scratch / _ANSWER),
    }
    arguments = programs.guest_arguments(".engine.setup_script", config, sandbox.scratch)
    variables = sandbox.toolkit(machine.toolkit)
    build_stand_ins.cmake(sandbox.tools)
    end = sandbox.run(sys.executable, ["-I", *arguments], variables)
    try:
        plain = sandbox.folder.read_json(_ANSWER, _MOST_ANSWER)
        if plain is not None:
            return convert(plain, _Answer)
    except (GuestFileError, ValidationError) as error:
        return f"its extensions cannot be read: {error}"
    return f"it does not end by itself ({end.how})"


def _error_warnings(file: Path, answer: _Answer) -> Iterator[str]:
    # A class that builds by CMake may end where nothing was built.
    if answer.error and not answer.options:
        message = f"{file.name}:{answer.line}: the script ends with an error ({answer.error})"
        yield printable(f"{message}; units made before are listed")


def _machine_warning(file: Path, machine: Machine, units: list[BuildUnit]) -> str:
    names = ", ".join([unit.file for unit in units[:_MOST_NAMES]])
    if len(units) > _MOST_NAMES:
        names += f" and {len(units) - _MOST_NAMES} more"
    return printable(
        f"{file.name}: on {machine} it compiles other units or flags ({names}); those of all "
        "machines are listed"
    )


def _units(answer: _Answer, root: Path) -> Iterator[BuildUnit]:
    for extension in answer.extensions:
        for source in extension.sources:
            if source.endswith(SUFFIXES):
                compiler = "nvcc" if source.endswith(".cu") else "cxx"
                unit = _unit_of_arguments(extension, compiler, root)
                yield replace(unit, file=relative(source, root, root))


def _unit_of_arguments(extension: _Extension, compiler: str, root: Path) -> BuildUnit:
    """Return the unit of the arguments that one compiler gets for an extension, without a file."""
    words = [f"-I{folder}" for folder in extension.include_dirs]
    words += [f"-D{macro}" for macro in extension.define_macros]
    words += [f"-U{name}" for name in extension.undef_macros]
    if extension.of_torch:
        words.append(f"-DTORCH_EXTENSION_NAME={extension.name.rpartition('.')[2]}")
    if compiler == "cxx":
        unit = split_arguments([*words, *extension.cxx], root, root)
        # nvcc does not accept the host compiler's other flags.
        flags = [flag for flag in unit.flags if flag.startswith(("-O", "-U", "-g"))]
        unit = replace(unit, flags=tuple(flags))
    elif extension.of_torch:
        words += [*extension.nvcc, "--expt-relaxed-constexpr"]
        unit = split_arguments(words, root, root)
        # The project's flags come last, because it may undefine these macros.
        unit = replace(unit, flags=(*_DEFINES_OF_TORCH, *unit.flags))
    else:
        unit = split_arguments([*words, *extension.nvcc], root, root)
    return replace(unit, of_torch=extension.of_torch)
