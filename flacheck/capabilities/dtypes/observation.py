"""What the guest saw: subjects, each in several modes, with promotions, launches and errors. The
guest's own docstring (`guest/dtypes`) says what each field is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct, convert

# torch's names to flacheck's.
_SHORT = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}
HALF = ("fp16", "bf16")


def short(dtype: str) -> str:
    """`fp16` for torch's `float16`."""
    return _SHORT.get(dtype, dtype)


class Mode(Struct, frozen=True):
    """`autocast` is a half dtype or `off`; `params` the dtype of parameters and arguments."""

    autocast: str
    params: str

    @property
    def half(self) -> str:
        """The half dtype that operands have when nothing is promoted."""
        if self.autocast == "off":
            return self.params
        return self.autocast

    def __str__(self) -> str:
        if self.autocast == "off":
            return f"{self.params} parameters without autocast"
        return f"{self.autocast} autocast, {self.params} parameters"


class Place(Struct, frozen=True):
    """An expression in a file; columns count bytes, None for a whole line."""

    file: str
    line: int
    end_line: int | None = None
    column: int | None = None
    end_column: int | None = None


class Operand(Struct, frozen=True):
    """A tensor of a call or a launch: `at` is its position, keyword or variable."""

    dtype: str
    dims: int
    events: tuple[int, ...]
    at: str = ""
    kind: str | None = None
    name: str | None = None

    @property
    def is_half(self) -> bool:
        return short(self.dtype) in HALF


class Promotion(Struct, frozen=True, rename={"source": "from", "result": "to"}):
    """A half tensor that became a wider one; `direct` when the program calls the operation
    itself."""

    place: Place | None
    direct: bool
    phase: str
    halves: tuple[Operand, ...]
    wide: tuple[Operand, ...]
    source: str
    result: str


class Overflow(Struct, frozen=True, rename={"evidence": "shown"}):
    """A constant that float16 cannot hold, and what shows it; with `terms` the exponential of a sum
    of so many, which overflows when each starts from the `constant`."""

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
    """A launch with its floating operands; `ids` are its lines in the launches file."""

    kernel: str
    phase: str
    ids: tuple[str, ...]
    args: dict[str, Operand]


class ObservedError(Struct, frozen=True):
    """What ended a run. `about` are the operands that an operation refused (`kind` is `refused`),
    or the tensors that the failing statement names (`stated`)."""

    stage: str
    type: str
    text: str
    trace: str
    place: Place | None = None
    kind: str | None = None
    about: tuple[Operand, ...] = ()

    @property
    def brief(self) -> str:
        said = " ".join(self.text.split())
        if said:
            return f"{self.type}: {said}"
        return self.type


class ObservedRun(Struct, frozen=True, dict=True):
    """A subject in one mode."""

    mode: Mode
    error: ObservedError | None
    promotions: tuple[Promotion, ...] = ()
    overflows: tuple[Overflow, ...] = ()
    launches: tuple[ObservedLaunch, ...] = ()
    order: tuple[int, ...] = ()

    def number_launches(self) -> Iterator[tuple[str, int, ObservedLaunch]]:
        """Every launch as it came: its kernel, which launch of that kernel it is, and itself."""
        counts: Counter[str] = Counter()
        for index in self.order:
            launch = self.launches[index]
            yield launch.kernel, counts[launch.kernel], launch
            counts[launch.kernel] += 1

    @cached_property
    def by_number(self) -> Mapping[tuple[str, int], ObservedLaunch]:
        return {(kernel, number): launch for kernel, number, launch in self.number_launches()}

    @cached_property
    def counts(self) -> Mapping[str, int]:
        return Counter(self.launches[index].kernel for index in self.order)


class ObservedHeads(Struct, frozen=True):
    """A subject with heads of another `size`, by the `settings`; `run` is None when none made them
    so."""

    size: int
    settings: dict[str, int]
    run: ObservedRun | None = None


class ObservedSubject(Struct, frozen=True, rename={"errors": "failed"}):
    """One layer, function or model; `failed` are the errors of all calls tried when none worked;
    `stand_ins` the modules that were stood in for."""

    name: str
    runs: tuple[ObservedRun, ...]
    plan: str | None = None
    errors: tuple[ObservedError, ...] = ()
    stand_ins: tuple[str, ...] = ()
    heads: tuple[ObservedHeads, ...] = ()

    def run(self, mode: Mode) -> ObservedRun | None:
        return next((run for run in self.runs if run.mode == mode), None)


class Observation(Struct, frozen=True, rename={"own_mode": "learned"}):
    """Everything that one start of the guest saw; `missing` are modules that are nowhere, by their
    first names, with the modules that asked for them; `learned` is the mode that a program runs
    in."""

    subjects: tuple[ObservedSubject, ...]
    modules: dict[str, str]
    late: tuple[str, ...] = ()
    missing: dict[str, tuple[str, ...]] = {}
    own_mode: Mode | None = None
    error: str | None = None
    kind: str | None = None


def from_report(report: Mapping[str, Any]) -> Observation:
    return convert(report, Observation)
