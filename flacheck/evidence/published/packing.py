"""Conversion between a question's records on one place and the file of published results."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import to_builtins
from packaging.version import Version

from flacheck.evidence.analysis.context import FormsOf
from flacheck.evidence.analysis.fallbacks import ReportedFallback
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standings import standing
from flacheck.evidence.baseline.standings import baseline_of
from flacheck.evidence.measured.comparison import CardComparison
from flacheck.evidence.published.extents import pack_extent, unpack_extent
from flacheck.evidence.published.form import (
    GENERATION,
    Body,
    CaptureFacts,
    Configs,
    Header,
    PackedCell,
    PackedKernel,
    PackedOutcome,
)
from flacheck.evidence.published.highlights import highlights
from flacheck.model import (
    Cell,
    Json,
    Kernel,
    KeySet,
    Launch,
    LaunchExtent,
    Question,
    Record,
    RequestedCells,
    RequestedPlace,
    Verdict,
    canonical,
    digest,
)
from flacheck.model.coverage import PackageCoverage
from flacheck.model.kernel import Unrecorded
from flacheck.source.python_versions import PythonVersions

# The field of a number that JSON cannot hold.
_NOT_FINITE = "not_finite"
# The folder of an installed package in the cache of the machine that compiled.
_FOLDER = re.compile(r"(?:/[^/\s'\":]+)*/packages/[^/\s'\":]+-cp\d+/")
# Hexadecimal digits of the digest of all keys.
_DIGITS = 32


@dataclass(frozen=True)
class ResultsOrigin:
    """Who made the results: flacheck's version, the day, Python's version."""

    flacheck: str
    date: str
    python: str


@dataclass(frozen=True)
class SubjectFacts:
    """Facts about a package beside its records.

    `requires` are its requirements with their owners; `capture` explains missing kernels.
    `measured` has the release beside another one on GPUs. `usual_keys` are the cells that
    `--configs usual` compiles; all of them if it is empty.
    """

    digest: str | None = None
    python_versions: PythonVersions = field(default_factory=PythonVersions)
    requires: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    capture: CaptureFacts | None = None
    coverage: tuple[PackageCoverage, ...] = ()
    forms: FormsOf = field(default_factory=dict)
    fallbacks: tuple[ReportedFallback, ...] = ()
    measured: tuple[CardComparison, ...] = ()
    usual_keys: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PublishedPlace:
    """The published answer of a question on one toolchain and target.

    Attributes:
        header: The question and its numbers.
        question: The question as a scan stores it.
        request: The place.
        keys: The cells of the question.
        records: The records of all cells, alternatives included.
        forms: Operator and form of kernels.
        coverage: The recorded and the missed kernels of the package.
        capture: Facts about the capture.
        usual_keys: The cells that `--configs usual` compiles.
    """

    header: Header
    question: Question
    request: RequestedCells
    keys: KeySet
    records: tuple[Record, ...]
    forms: FormsOf = field(default_factory=dict)
    coverage: tuple[PackageCoverage, ...] = ()
    capture: CaptureFacts | None = None
    usual_keys: frozenset[str] = frozenset()

    @property
    def place(self) -> RequestedPlace:
        """The question on its place, with its keys."""
        return RequestedPlace(self.question, self.request, self.keys)

    def standing(self, records: Iterable[Record] | None = None) -> Standing:
        """Return the state of the question, by these records or by the published ones."""
        own_records = self.records if records is None else records
        return standing(self.question, self.request, self.keys, own_records)


class _Table:
    """A table of equal parts, each with an index."""

    def __init__(self) -> None:
        self._indices: dict[str, int] = {}
        self.parts: list[Any] = []

    def add(self, part: Any) -> int:
        """Return the index of a part that JSON can hold."""
        name = canonical(to_builtins(part))
        if name not in self._indices:
            self._indices[name] = len(self.parts)
            self.parts.append(part)
        return self._indices[name]


def pack(
    place: RequestedPlace,
    records: Sequence[Record],
    configs: Configs,
    origin: ResultsOrigin,
    facts: SubjectFacts,
) -> tuple[Header, Body]:
    """Return the file of a question on one place.

    Args:
        place: The question with its keys.
        records: The current records of its keys and of their alternatives.
        configs: The configurations that the question requests.
        origin: Who made the records.
        facts: Facts about the package.
    """
    assert place.keys is not None
    keys = place.keys
    requested_keys = set(keys.possible)
    own_records = sorted(
        (record for record in records if record.key in requested_keys), key=_in_file_order
    )
    own_records = [_without_folder(record) for record in own_records]
    body = _pack_body(keys, own_records, facts)
    own_standing = standing(place.question, place.request, keys, own_records)
    (question,) = baseline_of([own_standing], origin.flacheck).questions
    (counts,) = question.places
    header = Header(
        about=place.question.about,
        configs=configs,
        toolchain=place.request.toolchain,
        target=place.request.target,
        flacheck=origin.flacheck,
        date=origin.date,
        python=origin.python,
        keys=digest_of_keys(record.key for record in own_records if record.key in keys.kernels),
        cells=len(own_records),
        place=counts,
        kernels=question.kernels,
        package_digest=facts.digest,
        reads_python_version=facts.python_versions.is_open,
        python_bounds=tuple(sorted(facts.python_versions.bounds, key=Version)),
        requires=facts.requires,
        warnings=facts.warnings,
        fallbacks=facts.fallbacks,
        highlights=tuple(highlights(own_records)),
        sizes=own_standing.sizes,
        generation=GENERATION,
        measured=facts.measured,
    )
    return header, body


def _pack_body(keys: KeySet, records: Sequence[Record], facts: SubjectFacts) -> Body:
    """Return the cells of the records, with each part that several cells share once."""
    index_of = {record.key: index for index, record in enumerate(records)}
    kernels, launches, options, shapes, outcomes, resources = (_Table() for _ in range(6))
    cells = []
    for record in records:
        launch = None
        if record.launch is not None:
            launch = launches.add(_pack_launch(record.launch))
        others = keys.alternatives.get(record.key, ())
        cells.append(
            PackedCell(
                kernel=kernels.add(_pack_kernel(record.cell.kernel)),
                launch=launch,
                options=options.add(dict(record.options)),
                outcome=outcomes.add(_pack_outcome(record)),
                resources=resources.add(_without_none(record.resources)),
                dtype=record.dtype,
                shape=shapes.add(dict(record.shape)),
                stage=record.cell.stage,
                seconds=round(record.compile_seconds, 1),
                is_widened=record.cell.is_widened,
                is_made_up=record.key in keys.made_up,
                is_requested=record.key in keys.kernels,
                alternatives=tuple(index_of[key] for key in others if key in index_of),
                is_usual=not facts.usual_keys or record.key in facts.usual_keys,
            )
        )
    extent = None
    if keys.extent is not None:
        extent = pack_extent(keys.extent, [record.cell for record in records])
    return Body(
        kernels=tuple(kernels.parts),
        launches=tuple(launches.parts),
        options=tuple(options.parts),
        shapes=tuple(shapes.parts),
        outcomes=tuple(outcomes.parts),
        resources=tuple(resources.parts),
        cells=tuple(cells),
        extent=extent,
        coverage=facts.coverage,
        forms=tuple(sorted(_list_forms(facts.forms, records), key=str)),
        capture=facts.capture,
    )


def _without_folder(record: Record) -> Record:
    """Return a record whose message names the package's files without the folder of the cache."""
    return replace(record, message=_FOLDER.sub("", record.message))


def _list_forms(
    forms: FormsOf, records: Iterable[Record]
) -> Iterator[tuple[str | None, str, str, str]]:
    """Yield package, kernel, operator and form of the records' kernels."""
    names = {(record.package, record.kernel) for record in records}
    for (package, kernel), (operator, form) in forms.items():
        if (package, kernel) in names:
            yield package, kernel, operator, form


def digest_of_keys(keys: Iterable[str]) -> str:
    """Return the identity of a set of keys."""
    return digest(sorted(keys), _DIGITS)


def _in_file_order(record: Record) -> tuple[str, ...]:
    launch = record.launch and record.launch.to_json()
    parts = (record.kernel, record.dtype or "", record.cell.stage)
    return *parts, canonical(launch), canonical(dict(record.options))


def _pack_kernel(kernel: Kernel) -> PackedKernel:
    own = (kernel.name, kernel.package, kernel.digest, kernel.origin.how)
    return PackedKernel(*own, kernel.operator, kernel.form)


def _pack_launch(launch: Launch) -> Json:
    """Return a launch with names for infinities, which JSON lacks."""
    packed = launch.to_json()
    for name, value in launch.args.items():
        for kind, number in (value or {}).items():
            if isinstance(number, float) and not math.isfinite(number):
                packed["args"][name] = {kind: {_NOT_FINITE: repr(number)}}
    return packed


def _unpack_launch(packed: Json) -> Launch:
    args = dict(packed["args"])
    for name, value in packed["args"].items():
        for kind, number in (value or {}).items():
            if isinstance(number, dict) and _NOT_FINITE in number:
                args[name] = {kind: float(number[_NOT_FINITE])}
    return Launch.from_json({**packed, "args": args})


def _pack_outcome(record: Record) -> PackedOutcome:
    return PackedOutcome(
        record.verdict.value,
        record.reason,
        record.tolerated,
        record.code,
        record.signature,
        record.stage,
        record.signal,
        record.message,
        tuple(dict(finding) for finding in record.findings),
    )


def _without_none(values: Mapping[str, Any]) -> Json:
    return {name: value for name, value in values.items() if value is not None}


# The resources that every record has, in the order of its JSON.
_RESOURCES = ("shared", "shared_limit", "registers", "stack", "spills")


def unpack(header: Header, body: Body) -> PublishedPlace | None:
    """Return the answer that a file holds; None if this flacheck computes other keys for its cells.

    The keys are not stored: each is computed from its cell.
    """
    records = _unpack_records(header, body)
    if len({record.key for record in records}) < len(records):
        raise ValueError("it holds a cell twice")
    requested = [(cell, record) for cell, record in zip(body.cells, records) if cell.is_requested]
    names = {record.key: record.kernel for _, record in requested}
    if digest_of_keys(names) != header.keys:
        return None
    extent = None
    if body.extent is not None:
        extent = unpack_extent(body.extent, [record.cell for record in records])
    keys = _key_set(names, body, records, extent)
    request = RequestedCells(header.toolchain, header.target, len(names), keys.digest)
    question = Question(header.about, {"configs": [header.configs]}, (request,))
    forms = {}
    for package, name, operator, form in body.forms:
        forms[package, name] = (operator, form)
    return PublishedPlace(
        header,
        question,
        request,
        keys,
        tuple(records),
        forms,
        tuple(body.coverage),
        body.capture,
        frozenset(record.key for cell, record in requested if cell.is_usual),
    )


def _unpack_records(header: Header, body: Body) -> list[Record]:
    """Return the records of a file's cells in their order."""
    kernels = []
    for is_made_up in (False, True):
        kernels.append([_unpack_kernel(each, is_made_up) for each in body.kernels])
    launches = [_unpack_launch(each) for each in body.launches]
    return [_record(header, body, cell, kernels, launches) for cell in body.cells]


def _key_set(
    names: Mapping[str, str],
    body: Body,
    records: Sequence[Record],
    extent: LaunchExtent | None,
) -> KeySet:
    """Return the requested keys, those that are made up, and the alternatives of each."""
    made_up = set()
    alternatives = {}
    for cell, record in zip(body.cells, records):
        if cell.is_made_up:
            made_up.add(record.key)
        if cell.alternatives:
            alternatives[record.key] = [records[index].key for index in cell.alternatives]
    return KeySet(names, frozenset(made_up), alternatives, extent)


def _unpack_kernel(packed: PackedKernel, made_up: bool) -> Kernel:
    origin = Unrecorded(packed.how, made_up)
    return Kernel(packed.name, packed.package, packed.digest, origin, packed.operator, packed.form)


def _record(
    header: Header,
    body: Body,
    packed: PackedCell,
    kernels: Sequence[Sequence[Kernel]],
    launches: Sequence[Launch],
) -> Record:
    launch = None if packed.launch is None else launches[packed.launch]
    cell = Cell(
        kernel=kernels[packed.is_made_up][packed.kernel],
        toolchain=header.toolchain,
        target=header.target,
        launch=launch,
        options=body.options[packed.options],
        dtype=packed.dtype,
        shape=body.shapes[packed.shape],
        is_widened=packed.is_widened,
        stage=packed.stage,
    )
    outcome = body.outcomes[packed.outcome]
    resources = {**dict.fromkeys(_RESOURCES), **body.resources[packed.resources]}
    return Record(
        cell=cell,
        verdict=Verdict(outcome.verdict),
        reason=outcome.reason,
        tolerated=outcome.is_tolerated,
        code=outcome.code,
        signature=outcome.signature,
        stage=outcome.stage,
        signal=outcome.signal,
        message=outcome.message,
        findings=outcome.findings,
        seconds=packed.seconds,
        peak_mb=None,
        cached=True,
        resources=resources,
    )
