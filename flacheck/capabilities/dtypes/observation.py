"""Observations of the guest: subjects in several modes with promotions, launches and errors.

The docstring of `guest/dtypes` describes each field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct, convert

from flacheck.model.launch import find_dtype

HALF = ("fp16", "bf16")


def short(dtype: str) -> str:
    """Return flacheck's name of a torch dtype: `fp16` for `float16`."""
    return find_dtype(dtype) or dtype


class Mode(Struct, frozen=True):
    """A precision of a run.

    `autocast` is a half dtype or `off`, `params` the dtype of parameters and arguments.
    """

    autocast: str
    params: str

    @property
    def half(self) -> str:
        """The half dtype of operands when nothing is promoted."""
        if self.autocast == "off":
            return self.params
        return self.autocast

    def __str__(self) -> str:
        if self.autocast == "off":
            return f"{self.params} parameters without autocast"
        return f"{self.autocast} autocast, {self.params} parameters"


class Place(Struct, frozen=True):
    """An expression in a file; columns count bytes and are None for a whole line."""

    file: str
    line: int
    end_line: int | None = None
    column: int | None = None
    end_column: int | None = None


class Operand(Struct, frozen=True):
    """A tensor of a call or a launch.

    `at` is its position, keyword or variable, with an index in a list behind it: `0.1`.
    """

    dtype: str
    dims: int
    events: tuple[int, ...]
    casts: tuple[int, ...] = ()
    at: str = ""
    kind: str | None = None
    name: str | None = None

    @property
    def is_half(self) -> bool:
        return short(self.dtype) in HALF


class Promotion(Struct, frozen=True, rename={"source": "from", "result": "to"}):
    """A half tensor that became wider; `direct` if the program itself calls the operation."""

    place: Place | None
    direct: bool
    phase: str
    halves: tuple[Operand, ...]
    wide: tuple[Operand, ...]
    source: str
    result: str


class Cast(Struct, frozen=True, rename={"source": "from", "result": "to"}):
    """A half tensor that the program or autocast cast to a wider dtype."""

    place: Place
    direct: bool
    halves: tuple[Operand, ...]
    source: str
    result: str


class Overflow(Struct, frozen=True, rename={"evidence": "shown"}):
    """A constant that float16 cannot hold, with the evidence.

    With `terms`, it is the exponential of a sum of that many terms, which overflows if each term
    starts from the `constant`.
    """

    place: Place | None
    phase: str
    constant: float
    evidence: str
    terms: int | None = None

    @property
    def operand(self) -> str:
        if self.terms is None:
            return f"{self.constant:g}"
        return f"a sum of {self.terms} terms"

    @property
    def message(self) -> str:
        if self.terms is None:
            return f"{self.constant:g} does not fit into fp16: {self.evidence}"
        return f"the exponential of {self.operand} does not fit into fp16: {self.evidence}"


class ObservedLaunch(Struct, frozen=True):
    """A launch with its floating operands; `ids` are its lines in the launches file.

    `place` is that of the call in the program.
    """

    kernel: str
    phase: str
    ids: tuple[str, ...]
    args: dict[str, Operand]
    place: Place | None = None

    @property
    def dtypes(self) -> dict[str, str]:
        """The operands' dtypes by argument."""
        dtypes = {}
        for name, operand in self.args.items():
            dtypes[name] = short(operand.dtype)
        return dtypes

    @property
    def has_half(self) -> bool:
        """True if an operand has a half dtype."""
        return any(operand.is_half for operand in self.args.values())


class ObservedError(Struct, frozen=True):
    """The error that ended a run.

    `about` are the operands that an operation rejected (`kind` is `refused`), or the tensors that
    the failing statement names (`stated`).
    """

    stage: str
    type: str
    text: str
    trace: str
    place: Place | None = None
    kind: str | None = None
    about: tuple[Operand, ...] = ()

    @property
    def brief(self) -> str:
        text = " ".join(self.text.split())
        if text:
            return f"{self.type}: {text}"
        return self.type


class ObservedRun(Struct, frozen=True, dict=True):
    """A subject in one mode."""

    mode: Mode
    error: ObservedError | None
    promotions: tuple[Promotion, ...] = ()
    casts: tuple[Cast, ...] = ()
    overflows: tuple[Overflow, ...] = ()
    launches: tuple[ObservedLaunch, ...] = ()
    order: tuple[int, ...] = ()

    def number_launches(self) -> Iterator[tuple[str, int, ObservedLaunch]]:
        """Yield each launch with its kernel and its number among that kernel's launches."""
        counts: Counter[str] = Counter()
        for index in self.order:
            launch = self.launches[index]
            yield launch.kernel, counts[launch.kernel], launch
            counts[launch.kernel] += 1

    @cached_property
    def by_number(self) -> Mapping[tuple[str, int], ObservedLaunch]:
        """The launches by their kernel and number."""
        launches = {}
        for kernel, number, launch in self.number_launches():
            launches[kernel, number] = launch
        return launches

    @cached_property
    def counts(self) -> Mapping[str, int]:
        return Counter(self.launches[index].kernel for index in self.order)


class ObservedHeads(Struct, frozen=True):
    """A subject with another head `size`, set by `settings`.

    `run` is None if no setting reaches the size.
    """

    size: int
    settings: dict[str, int]
    run: ObservedRun | None = None


class ObservedSubject(Struct, frozen=True, rename={"errors": "failed"}):
    """One layer, function or model.

    `errors` are those of all calls, if no call worked; `stand_ins` are the modules that were
    replaced by stand-ins.
    """

    name: str
    runs: tuple[ObservedRun, ...]
    plan: str | None = None
    errors: tuple[ObservedError, ...] = ()
    stand_ins: tuple[str, ...] = ()
    heads: tuple[ObservedHeads, ...] = ()

    def run(self, mode: Mode) -> ObservedRun | None:
        return next((run for run in self.runs if run.mode == mode), None)


class Observation(Struct, frozen=True):
    """Everything that one run of the guest recorded.

    `missing` are modules that are not installed, by their first names, with the modules that import
    them.
    """

    subjects: tuple[ObservedSubject, ...]
    modules: dict[str, str]
    late: tuple[str, ...] = ()
    missing: dict[str, tuple[str, ...]] = {}
    error: str | None = None
    kind: str | None = None


def from_report(report: Mapping[str, Any]) -> Observation:
    return convert(report, Observation)
