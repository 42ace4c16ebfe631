"""The weight of a failure: whether programs that train or serve models meet it."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.standing import Standing
from flacheck.rules import RULES
from flacheck.tables.model_sizes import list_models

# The dtypes in which models compute.
_MODEL_DTYPES = frozenset({"bf16", "fp16"})


class Reach(IntEnum):
    """The programs that meet a failure; only those that models meet decide."""

    MODELS = 0
    # Another dtype than models compute in, or a head size that no listed model has.
    FEW = 1
    # Only flacheck launches it so: with invented arguments, or without a public function.
    NOBODY = 2


@dataclass(frozen=True)
class WeighedFailure:
    """The failures of one kernel on one place.

    Attributes:
        kernel: Its name.
        code: The code of the first failure; `line` is the compiler's message.
        operators: The public functions of the package that launch it.
        condition: The dtypes and head sizes that fail, where others compile: `in fp32`.
        reach: Who meets the failure.
        remedy: The action for the reader; empty for a failure that decides.
    """

    kernel: str
    code: str
    line: str
    operators: tuple[str, ...] = ()
    condition: str = ""
    reach: Reach = Reach.MODELS
    remedy: str = ""

    @property
    def operator(self) -> str:
        """The first operator, else the kernel; or the module whose import fails."""
        if self.operators:
            return self.operators[0]
        module, _, kernel = self.kernel.rpartition(":")
        return f"import {module}" if kernel == "__init__" else kernel

    @property
    def name(self) -> str:
        """The operator with the condition: `parallel_path_attn in fp32`."""
        return f"{self.operator} {self.condition}".rstrip()


def weigh(standing: Standing) -> tuple[WeighedFailure, ...]:
    """Return the failing kernels of a place, those that decide first."""
    by_kernel = group_by_key((cell.kernel, cell) for cell in standing.failing)
    failures = []
    for kernel, cells in sorted(by_kernel.items()):
        operators = standing.operators_of_kernel(kernel)
        failures.append(
            WeighedFailure(
                kernel,
                cells[0].code or "FC000",
                cells[0].line,
                tuple(_short_names(operators or ())),
                _condition(cells, standing.compiled_variants),
                *_reach(cells, standing.compiled_variants, operators),
            )
        )
    return tuple(sorted(failures, key=lambda each: each.reach))


def _short_names(operators: Iterable[str]) -> dict[str, None]:
    """Return the last parts of dotted names, functions before classes."""
    names = dict.fromkeys(each.rpartition(".")[2] for each in operators)
    return dict.fromkeys(sorted(names, key=lambda name: (name[:1].isupper(), name)))


def _condition(cells: Iterable[ObservedCell], compiled: frozenset[tuple[str, str, int]]) -> str:
    """Return the dtypes and head sizes of the failures that no compiled launch has."""
    cells = list(cells)
    others = [each for each in compiled if each[0] == cells[0].kernel]
    dtypes = sorted({cell.dtype or "" for cell in cells})
    sizes = sorted({cell.parts.head_size or 0 for cell in cells})
    parts = []
    if all(dtypes) and {each[1] for each in others} - set(dtypes):
        parts.append(f"in {', '.join(dtypes)}")
    if all(sizes) and {each[2] for each in others} - set(sizes):
        parts.append(f"at head size {', '.join(map(str, sizes))}")
    return " ".join(parts)


def _reach(
    cells: Iterable[ObservedCell],
    compiled: frozenset[tuple[str, str, int]],
    operators: tuple[str, ...] | None,
) -> tuple[Reach, str]:
    """Return who meets the failures of a kernel, and what to do."""
    cells = list(cells)
    if any(lacks_name(cell.code) for cell in cells):
        return Reach.MODELS, ""
    if all(cell.made_up for cell in cells):
        return Reach.NOBODY, "no action: it fails with arguments that flacheck made up"
    if operators is not None and not operators and cells[0].stage not in ("import", "call"):
        return Reach.NOBODY, "no action: no public function of the package launches it"
    dtypes = {cell.dtype for cell in cells}
    works = {dtype for kernel, dtype, _ in compiled if kernel == cells[0].kernel}
    if _are_rare(dtypes, _MODEL_DTYPES) and works & _MODEL_DTYPES:
        return Reach.FEW, f"use {' or '.join(sorted(works & _MODEL_DTYPES))}"
    sizes = {cell.parts.head_size for cell in cells}
    if _are_rare(sizes, _model_sizes()):
        return Reach.FEW, "no action: no listed model has this head size"
    return Reach.MODELS, ""


def _are_rare(values: Set[object], usual: Set[object]) -> bool:
    """Return True if all values are known and no model has any of them."""
    return None not in values and not values & usual


def lacks_name(code: str | None) -> bool:
    """Return True if the release lacks a name: it fails whatever the arguments and the caller."""
    return code in RULES and RULES[code].direction == "names"


@cache
def _model_sizes() -> frozenset[int | None]:
    sizes: set[int | None] = set()
    for model in list_models():
        sizes.update((model.key_size, model.value_size, model.state))
    return frozenset(sizes)
