"""The result of a gate, with its JSON and exit code."""

from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Annotated, Literal

from msgspec import Meta, structs

from flacheck.capabilities.gate.admission import Conflict
from flacheck.capabilities.gate.answer import answer_of
from flacheck.capabilities.gate.evidence import BaselineUse
from flacheck.capabilities.gate.judged_pins import (
    JudgedPins,
    JudgedRelease,
    JudgedWaiver,
    ReleaseState,
    WaiverUse,
)
from flacheck.capabilities.gate.pins import PinChange
from flacheck.evidence.analysis.compiled_sizes import CompiledSizes
from flacheck.evidence.analysis.judgement import PackageFailure
from flacheck.evidence.analysis.standing_state import StandingState
from flacheck.evidence.analysis.untested_cells import UntestedGroup
from flacheck.evidence.published.answers import PublishedSource
from flacheck.model import Json
from flacheck.model.answer import Answer
from flacheck.model.wire import Code, Count, JsonStruct, Natural, NotEmpty

_Compiler = Annotated[str, Meta(pattern="^(triton|nvcc)$")]
_Distribution = Annotated[str, Meta(pattern="^(torch|triton|nvidia-cuda-nvcc)$")]


class GatePin(JsonStruct, frozen=True):
    """A requirement on one distribution, with its place in a file.

    `file` is relative to the current folder or as the user named it; `line` counts from 1, null for
    an installed distribution. `specifier` is PEP 440; || separates alternatives, and an empty one
    admits every release.
    """

    file: str
    line: Count | None
    name: _Distribution
    specifier: str


class GateRelease(JsonStruct, frozen=True):
    """An admitted release by its records.

    `triton` is a release of the compiler, >X or <X for those beyond every listed one, or `of torch
    X` for the one that an unlisted torch requires; `torch` are the torch releases that it goes
    with. screened: nothing fails, but not every configuration and kernel was compiled; partial:
    some cells of its questions lack a record; no-record: no question, or no compile; advised: good
    or screened, but an advisory speaks against it. `standing` disregards advisories. `codes` and
    `kernels` are those of failures without a waiver; `why` is empty for a good release. `answered`
    counts cells with a current record, `asked` those of all questions (null if that is unknown),
    `known` the failing cells that the baseline lets pass. `sizes` are those of the compiled
    launches, null if they are unknown.
    """

    triton: NotEmpty
    torch: tuple[str, ...]
    state: ReleaseState
    standing: StandingState
    codes: tuple[Code, ...]
    kernels: tuple[str, ...]
    why: str
    advisories: tuple[str, ...]
    answered: Natural
    asked: Natural | None
    known: Natural
    sizes: CompiledSizes | None


class GateConflict(JsonStruct, frozen=True):
    """Pins that cannot be satisfied together.

    `installation` lists the files, and the extra or group, that are installed together.
    """

    installation: str
    pins: Annotated[tuple[GatePin, ...], Meta(min_length=1)]
    reason: NotEmpty


class GateWaiver(JsonStruct, frozen=True):
    """A waiver with the number of failing cells that it covers.

    `kernel` is a glob, `expires` its last day. Expired and mended waivers (their cells compile
    again) are findings; an unused one covers only cells that were not compiled.
    """

    signature: str | None
    kernel: str | None
    reason: NotEmpty
    expires: date | None
    use: WaiverUse
    cells: Natural


class GateChange(GatePin, frozen=True):
    """A pin with the specifier to write instead.

    `obstacle` is the reason why --fix cannot write it.
    """

    to: NotEmpty
    obstacle: str | None


class GateDocument(Answer, frozen=True, kw_only=True):
    """The pins of torch, Triton or nvcc, and the state of each release that they admit.

    `compiler` is the compiler whose releases are judged. `questions` are those that decided: a
    matrix, package or launches file, with its narrowing; `untested` their launches that are not
    evidence, because flacheck invented the arguments. `package_failures` are failures that every
    compiled release has: they make no release bad. `baseline` is null without one. `source` is
    published if published results decide about a release, and `published` says which.
    """

    schema: Literal["flacheck.gate/1"]
    pins: tuple[GatePin, ...]
    compiler: _Compiler
    versions: tuple[GateRelease, ...]
    questions: tuple[str, ...]
    untested: tuple[UntestedGroup, ...]
    package_failures: tuple[PackageFailure, ...]
    baseline: BaselineUse | None
    conflicts: tuple[GateConflict, ...]
    waived: tuple[GateWaiver, ...]
    suggest: tuple[GateChange, ...]
    source: Literal["own", "published"]
    published: PublishedSource | None


@dataclass(frozen=True)
class Gate(JudgedPins):
    """The judgement of pins with its answer: the document flacheck.gate/1."""

    @cached_property
    def in_words(self) -> Answer:
        """The answer with its points and its recommendation."""
        return answer_of(self)

    def to_json(self) -> Json:
        """Return the document flacheck.gate/1."""
        document = GateDocument.from_value(
            self,
            **structs.asdict(self.in_words),
            schema="flacheck.gate/1",
            pins=tuple(map(GatePin.from_value, self.pins)),
            compiler=self.compiler.family,
            versions=tuple(map(_gate_release, self.versions)),
            conflicts=tuple(map(_gate_conflict, self.conflicts)),
            waived=tuple(map(_gate_waiver, self.judged_waivers)),
            suggest=tuple(map(_gate_change, self.suggest)),
            source="published" if self.published else "own",
        )
        return document.to_json()


def _gate_release(release: JudgedRelease) -> GateRelease:
    return GateRelease.from_value(release, standing=StandingState(release.standing.value))


def _gate_conflict(conflict: Conflict) -> GateConflict:
    return GateConflict.from_value(conflict, pins=tuple(map(GatePin.from_value, conflict.pins)))


def _gate_waiver(judged: JudgedWaiver) -> GateWaiver:
    return GateWaiver(**structs.asdict(judged.waiver), use=judged.use, cells=judged.cells)


def _gate_change(change: PinChange) -> GateChange:
    return GateChange.from_value(change.pin, to=change.to)
