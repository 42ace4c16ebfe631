"""Records: the stored and reported result of a cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, Any, TypedDict

from msgspec import UNSET, Meta, UnsetType

from flacheck.model.cell import Cell, CellDocument
from flacheck.model.kernel import Kernel, Unrecorded
from flacheck.model.launch import Launch
from flacheck.model.values import Json
from flacheck.model.wire import Code, Natural, Seconds

# Characters of a record's message: enough for the decisive lines of every failure so far.
MESSAGE_LIMIT = 2_000
# Fields of a record beside its cell and verdict, in the order of its JSON.
_OWN_FIELDS = (
    *("reason", "tolerated", "code", "signature", "stage", "signal", "message", "findings"),
    *("seconds", "cpu_seconds", "peak_mb", "cached", "resources"),
)


class Verdict(str, Enum):
    """The verdict on a cell. Never "correct": a compile cannot show that."""

    COMPILES = "compiles"
    FAILS = "fails"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"


class RecordedFinding(TypedDict):
    """A named cause of a failure, or a slow compile."""

    code: Code
    title: str
    facts: Mapping[str, Any]


class _FunctionResources(TypedDict, total=False):
    functions: list[Mapping[str, Any]]


class RecordedResources(_FunctionResources):
    """Bytes of shared memory and its limit, registers a thread, bytes of stack and of spills.

    `functions` has the figures of each function by name, if one compile makes several.
    """

    shared: Natural | None
    shared_limit: Natural | None
    registers: Natural | None
    stack: Natural | None
    spills: Natural | None


class RecordDocument(CellDocument, frozen=True):
    """A cell with its verdict: cause, cost and resources.

    `seconds` is the compile's wall time, `cpu_seconds` its CPU time with that of the assembler;
    null if it is not known. `shared_cache` is the place of the shared cache that the record came
    from, if it was not compiled here.
    """

    verdict: Verdict
    reason: str | None
    tolerated: bool
    code: Code | None
    signature: str | None
    stage: str | None
    signal: str | None
    message: Annotated[str, Meta(max_length=MESSAGE_LIMIT)]
    findings: tuple[RecordedFinding, ...]
    seconds: Seconds
    peak_mb: Seconds | None
    cached: bool
    resources: RecordedResources
    cpu_seconds: Seconds | None = None
    shared_cache: str | UnsetType = UNSET


@dataclass(frozen=True)
class Record:
    """cell + attempt + verdict + findings; JSON flattens the cell into the record.

    `shared_cache` is the place of the shared cache that the record came from.
    """

    cell: Cell
    verdict: Verdict
    reason: str | None
    tolerated: bool
    code: str | None
    signature: str | None
    stage: str | None
    signal: str | None
    message: str
    findings: tuple[Mapping[str, Any], ...]
    seconds: float
    peak_mb: float | None
    cached: bool
    resources: Mapping[str, Any]
    cpu_seconds: float | None = None
    shared_cache: str | None = None

    @property
    def key(self) -> str:
        return self.cell.key

    @property
    def compile_seconds(self) -> float:
        """The CPU time, which depends on no other process; without one the wall time."""
        if self.cpu_seconds is None:
            return self.seconds
        return self.cpu_seconds

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.cell.kernel.name

    @property
    def package(self) -> str | None:
        return self.cell.kernel.package

    @property
    def how(self) -> str:
        """The way the worker loaded the kernel: corpus, import, stub or cut."""
        return self.cell.kernel.origin.how

    @property
    def toolchain(self) -> str:
        return self.cell.toolchain

    @property
    def target(self) -> str:
        return self.cell.target

    @property
    def dtype(self) -> str | None:
        return self.cell.dtype

    @property
    def shape(self) -> Mapping[str, int]:
        return self.cell.shape

    @property
    def launch(self) -> Launch | None:
        return self.cell.launch

    @property
    def options(self) -> Mapping[str, Any]:
        return self.cell.options

    def to_json(self) -> Json:
        """Return the record as in flacheck.run/1."""
        own = {name: getattr(self, name) for name in _OWN_FIELDS}
        fields = {**self.cell.fields_of_document(), "verdict": self.verdict, **own}
        if self.shared_cache is not None:
            fields["shared_cache"] = self.shared_cache
        return RecordDocument(**fields).to_json()

    @staticmethod
    def from_json(
        value: Mapping[str, Any],
        kernel: Kernel | None = None,
        stage: str = "compile",
        until: str | None = None,
    ) -> Record:
        """Return the record that `to_json` wrote.

        `kernel`, `stage` and `until` are the parts of the cell that JSON lacks; without them the
        cell cannot be compiled again.
        """
        if kernel is None:
            kernel = Kernel(value["kernel"], value["package"], "", Unrecorded(value["how"]))
        cell = Cell(
            kernel=kernel,
            toolchain=value["toolchain"],
            target=value["target"],
            launch=Launch.from_json(value["launch"]) if value["launch"] else None,
            options=value["options"],
            dtype=value["dtype"],
            shape=value["shape"],
            is_widened=value["widened"],
            stage=stage,
            until=until,
        ).with_key(value["key"])
        own = {name: value[name] for name in _OWN_FIELDS if name in value}
        own["findings"] = tuple(own["findings"])
        own["shared_cache"] = value.get("shared_cache")
        return Record(cell=cell, verdict=Verdict(value["verdict"]), **own)

    def with_(self, **changes: Any) -> Record:
        """Return the record with some of its fields changed."""
        return replace(self, **changes)
