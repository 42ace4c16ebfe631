"""The extensions that a `setup.py` would build, read without running it.

If a condition depends on the machine, the script is followed both ways, and the units of both are
compiled.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flacheck.errors import MatrixError
from flacheck.source.builds.arguments import (
    SUFFIXES,
    TAKES_VALUE,
    BuildUnit,
    BuildUnits,
    is_chosen_by_scan,
    printable,
    relative,
    split_arguments,
)
from flacheck.source.builds.build_file import read_text
from flacheck.source.builds.script_library import Library
from flacheck.source.builds.script_run import ScriptWalk, StepBudget, Stopped
from flacheck.source.builds.script_values import Extension, TooLarge, UnknownValue, is_scalar

# Defines that torch's CUDAExtension passes to nvcc before the project's own flags
# (torch.utils.cpp_extension, COMMON_NVCC_FLAGS).
_DEFINES_OF_TORCH = (
    "__CUDA_NO_HALF_OPERATORS__",
    "__CUDA_NO_HALF_CONVERSIONS__",
    "__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "__CUDA_NO_HALF2_OPERATORS__",
)
_OF_TORCH = ("CUDAExtension", "CppExtension")
_MOST_BYTES = 1 << 20
# Statements and expressions of all runs, about a second. A run of a large script takes 7,000.
_MOST_STEPS = 200_000
# Ways through a script: all outcomes of five conditions, and each outcome of thirty.
_MOST_RUNS = 40
_MOST_WARNINGS = 20
_MOST_CONDITIONS = 3
# Flags that change what a compiler prints, and nothing else.
_IDLE = re.compile(r"(?:-Xptxas|--ptxas-options)=-v|-w")


def read(file: Path, root: Path) -> BuildUnits:
    """Return the units of all extensions that the script makes.

    Raises MatrixError for a script that is not Python, or takes too much work to follow.
    """
    text = read_text(file, root, _MOST_BYTES)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise MatrixError(str(file), None, f"cannot be read: {error}") from None
    exploration = _Exploration(tree, file, root)
    try:
        exploration.explore()
    except RecursionError:
        raise MatrixError(str(file), None, "is nested too deeply to be followed") from None
    return BuildUnits(exploration.units, exploration.warnings)


@dataclass(frozen=True)
class _Way:
    """Outcomes of conditions, by their text.

    `flip` is the condition whose outcome differs from the previous way; `before` are the units of
    that way, None if it ended with an error.
    """

    decisions: Mapping[str, bool]
    flip: str = ""
    before: frozenset[BuildUnit] | None = None


class _Exploration:
    """The ways through a script that its unknown conditions leave, up to a limit.

    `units` has the units of all ways, `warnings` the uncertainties about them.
    """

    def __init__(self, tree: ast.Module, file: Path, root: Path) -> None:
        self._tree = tree
        self._file = file
        self._root = root
        self._work = StepBudget(_MOST_STEPS)
        self._library = Library(root, self._work.spend)
        self._lines: dict[str, int] = {}
        # Lines of the extensions that some way makes.
        self._extension_lines: set[int] = set()
        # Conditions whose outcome changes the units.
        self._decisive: set[str] = set()
        self._units: dict[BuildUnit, BuildUnit] = {}
        self._warnings: dict[str, None] = {}

    @property
    def units(self) -> tuple[BuildUnit, ...]:
        return tuple(self._units.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """The first twenty warnings, and the number of the others."""
        warnings = list(self._warnings)
        more = len(warnings) - _MOST_WARNINGS
        if more > 0:
            warnings[_MOST_WARNINGS:] = [f"{self._file.name}: {more} more such warnings"]
        return tuple(warnings)

    def explore(self) -> None:
        """Follow the script with the usual outcomes of its conditions, then with others."""
        waiting = [_Way({})]
        seen_decisions: set[frozenset[tuple[str, bool]]] = {frozenset()}
        broken_runs = []
        for number in range(_MOST_RUNS):
            if not waiting:
                break
            way = min(waiting, key=self._priority)
            waiting.remove(way)
            run = ScriptWalk(self._file, self._root, self._work, way.decisions, self._library)
            try:
                run.follow(self._tree)
                units = self._take(run, way)
            except Stopped:
                units = None
                broken_runs.append(run)
            except TooLarge:
                if number == 0:
                    raise self._too_large(run.line) from None
                waiting.append(way)
                break
            self._extension_lines.update(extension.line for extension in run.extensions)
            for condition, (line, outcome) in run.undecided.items():
                self._lines[condition] = line
                decisions = {**way.decisions, condition: not outcome}
                identity = frozenset(decisions.items())
                if identity not in seen_decisions:
                    seen_decisions.add(identity)
                    waiting.append(_Way(decisions, condition, units))
        self._warn_of_rest(waiting)
        if not self._units and broken_runs:
            run = broken_runs[0]
            self._take(run, _Way({}))
            self._warn(run.line, "the script ends with an error here; units made before are listed")

    def _priority(self, way: _Way) -> tuple[int, int]:
        """Return the rank of a way: outcomes that change no units are conditions_of_rest last."""
        idle = sum(condition not in self._decisive for condition in way.decisions)
        return (idle, len(way.decisions))

    def _too_large(self, line: int) -> MatrixError:
        what = "takes too much work to follow"
        return MatrixError(str(self._file), line, what, "write a compile_commands.json instead")

    def _warn_of_rest(self, ways: Sequence[_Way]) -> None:
        """Warn of outcomes that were not followed and may change the units."""
        conditions_of_rest: set[str] = set()
        for way in ways:
            if len(way.decisions) > 1:
                conditions_of_rest.update(way.decisions)
                continue
            message = f"`{_shorten(way.flip)}` depends on the machine; one outcome was followed"
            self._warn(self._lines[way.flip], message)
        if conditions_of_rest:
            conditions = sorted(conditions_of_rest, key=lambda condition: self._lines[condition])
            quotes = [f"`{_shorten(each)}`" for each in conditions[:_MOST_CONDITIONS]]
            message = (
                f"not every combination of {len(conditions)} conditions was followed: "
                f"{', '.join(quotes)}"
            )
            self._warn(self._lines[conditions[0]], message)
        if ways:
            self._warn_of_unreached()

    def _warn_of_unreached(self) -> None:
        for node in ast.walk(self._tree):
            if not isinstance(node, ast.Call) or node.lineno in self._extension_lines:
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in (*_OF_TORCH, "Extension"):
                message = "no followed outcome of the script's conditions makes this extension"
                self._warn(node.lineno, message)

    def _take(self, run: ScriptWalk, way: _Way) -> frozenset[BuildUnit]:
        """Add the units of a run, and return them."""
        units = set()
        for extension in run.extensions:
            for unit in self._units_of(extension):
                flags = tuple(flag for flag in unit.flags if not _IDLE.fullmatch(flag))
                plain = replace(unit, flags=flags, dropped_flags=())
                self._units.setdefault(plain, unit)
                units.add(plain)
        if way.flip and way.before is not None and way.before != units:
            self._decisive.add(way.flip)
            condition = _shorten(way.flip)
            message = f"`{condition}` depends on the machine; the units of both outcomes are listed"
            self._warn(self._lines[way.flip], message)
        return frozenset(units)

    def _warn(self, line: int, message: str) -> None:
        self._warnings[printable(f"{self._file.name}:{line}: {message}")] = None

    def _units_of(self, extension: Extension) -> Iterator[BuildUnit]:
        """Yield the units of one extension."""
        arguments = extension.arguments
        of_torch = extension.kind in _OF_TORCH
        common = []
        for folder in self._texts(arguments.get("include_dirs")):
            common.append(f"-I{folder}")
        common += self._macros(arguments.get("define_macros"))
        for name in self._texts(arguments.get("undef_macros")):
            common.append(f"-U{name}")
        module = arguments.get("name")
        if of_torch and isinstance(module, str):
            common.append(f"-DTORCH_EXTENSION_NAME={module.rpartition('.')[2]}")
        sources = self._texts(arguments.get("sources"))
        by_compiler = {}
        for compiler in ("nvcc", "cxx"):
            suffixes = SUFFIXES[:1] if compiler == "nvcc" else SUFFIXES[1:]
            if any(source.endswith(suffixes) for source in sources):
                flags = self._flags(arguments.get("extra_compile_args"), compiler)
                by_compiler[compiler] = self._unit_of_arguments(compiler, common, flags, of_torch)
        for source in sources:
            if source.endswith(SUFFIXES):
                unit = by_compiler["nvcc" if source.endswith(SUFFIXES[0]) else "cxx"]
                yield replace(unit, file=relative(source, self._root, self._root))

    def _unit_of_arguments(
        self, compiler: str, common: list[str], flags: list[str], of_torch: bool
    ) -> BuildUnit:
        """Return the unit of one compiler's arguments, without a file."""
        words = [*common, *flags]
        if of_torch and compiler == "nvcc":
            words.append("--expt-relaxed-constexpr")
        unit = split_arguments(words, self._root, self._root)
        if of_torch and compiler == "nvcc":
            # First, because the last flag on a macro counts: a project may undefine them.
            defines = [f"-D{name}" for name in _DEFINES_OF_TORCH]
            unit = replace(unit, flags=(*defines, *unit.flags))
        if compiler == "cxx":
            # nvcc does not accept the host compiler's other flags.
            flags = [flag for flag in unit.flags if flag.startswith(("-O", "-U", "-g"))]
            unit = replace(unit, flags=tuple(flags))
        return replace(unit, of_torch=of_torch)

    def _flags(self, value: Any, compiler: str) -> list[str]:
        """Return the flags of one compiler out of `extra_compile_args`."""
        if not isinstance(value, dict):
            return self._texts(value)
        for key in value:
            if isinstance(key, UnknownValue):
                self._warn_of_omission(key)
        return self._texts(value.get(compiler))

    def _texts(self, value: Any) -> list[str]:
        """Return the texts of a list; warn of items that are unknown, and leave them out."""
        if isinstance(value, UnknownValue):
            value = [value]
        texts: list[str] = []
        for item in value if isinstance(value, list) else []:
            if isinstance(item, str):
                texts.append(item)
            elif isinstance(item, UnknownValue):
                if texts and texts[-1] in TAKES_VALUE:
                    # Without its value the option would consume the next flag.
                    option = texts.pop()
                    if is_chosen_by_scan(option):
                        continue
                self._warn_of_omission(item)
        return texts

    def _warn_of_omission(self, value: UnknownValue) -> None:
        if is_chosen_by_scan(_beginning(value.node)):
            return
        message = f"`{_shorten(value.source())}` depends on the machine and is left out"
        self._warn(value.line, message)

    def _macros(self, value: Any) -> list[str]:
        """Return the arguments of `define_macros`, pairs of a name and a value or None."""
        macros = []
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, UnknownValue):
                self._warn_of_omission(item)
            if not isinstance(item, list) or not item or not isinstance(item[0], str):
                continue
            definition = item[1] if len(item) > 1 else None
            if isinstance(definition, UnknownValue):
                self._warn_of_omission(definition)
            elif definition is None:
                macros.append(f"-D{item[0]}")
            elif is_scalar(definition):
                macros.append(f"-D{item[0]}={definition}")
        return macros


def _beginning(node: ast.AST) -> str:
    """Return the text that an f-string begins with; empty for any other expression."""
    if isinstance(node, ast.JoinedStr) and node.values:
        first = node.values[0]
        if isinstance(first, ast.Constant):
            return str(first.value)
    return ""


def _shorten(text: str) -> str:
    words = " ".join(text.split())
    if len(words) > 80:
        return words[:77] + "…"
    return words
