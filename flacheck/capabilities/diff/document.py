"""The document flacheck.diff/1."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, field

from flacheck.capabilities.diff.compared_side import AdvisedPin, ComparedSide
from flacheck.capabilities.diff.differences import Difference, ResourceGrowth
from flacheck.capabilities.diff.package_view import PackageNotice
from flacheck.evidence.analysis.compiled_sizes import CompiledSizes
from flacheck.evidence.analysis.fallbacks import ReportedFallback
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.measured.comparison import CardComparison
from flacheck.evidence.published.answers import PublishedSource
from flacheck.model import Record, Verdict
from flacheck.model.answer import Answer
from flacheck.model.wire import CellKey, Code, JsonStruct, Natural, NotEmpty, Seconds
from flacheck.tables.advisories import PublishedAdvisory

_Row = TypeVar("_Row", bound="DiffRow")
_Resource = Annotated[str, Meta(pattern="^(spills|registers|shared|stack)$")]


class VerdictCounts(JsonStruct, frozen=True):
    """The number of cells by verdict."""

    compiles: Natural
    fails: Natural
    unknown: Natural
    skipped: Natural


class DiffSide(JsonStruct, frozen=True):
    """A side of the comparison.

    `text` is the text that the user typed; `name` the compiler, the run or the file. `toolchain` is
    null for results of several compilers, `triton` also for another compiler. `torch` is the torch
    release that the user named, `torch_for` are those that require this Triton. `partial` is the
    answered share of a stored question, 147/394, null for a whole one and for a compiler. `package`
    is NAME==VERSION if the sides are two releases of a package.
    """

    text: str
    name: str
    toolchain: str | None
    triton: str | None
    torch: str | None
    torch_for: tuple[str, ...]
    verdicts: VerdictCounts
    partial: str | None
    package: str | None


class ComparedKernels(JsonStruct, frozen=True):
    """The numbers of kernels that compiled under FROM, that still compile, and without evidence.

    `untested_names` are the kernels without evidence.
    """

    compiled: Natural
    still_compile: Natural
    untested: Natural
    untested_names: tuple[str, ...]


class ResultResources(JsonStruct, frozen=True):
    """Registers a thread, bytes of shared memory and of spills."""

    registers: int | None
    shared: int | None
    spills: int | None


class DiffResult(JsonStruct, frozen=True):
    """The record of one side; `message` is its first decisive line."""

    key: CellKey
    toolchain: str
    options: Mapping[str, Any]
    verdict: Verdict
    code: Code | None
    signature: str | None
    message: str
    reason: str | None
    seconds: Seconds
    resources: ResultResources


class DiffRow(JsonStruct, frozen=True):
    """A cell on both sides, or the best results of a kernel and dtype if not `exact`.

    A side without the kernel in this dtype is null.
    """

    kernel: str
    package: str | None
    dtype: str | None
    target: str
    exact: bool
    reason: str | None
    waived: bool
    before: DiffResult | None = field(name="from")
    after: DiffResult | None = field(name="to")


class SlowerRow(DiffRow, frozen=True):
    """A compile that takes `times` as long under TO: at least 3 times, and 5 s longer."""

    times: Annotated[float, Meta(ge=1)]


class ResourceChange(JsonStruct, frozen=True):
    """The amounts of a resource under FROM and under TO."""

    before: Natural = field(name="from")
    after: Natural = field(name="to")


_GrowthByResource = dict[_Resource, ResourceChange]


class GrownRow(DiffRow, frozen=True):
    """A compile that takes more resources under TO, in units that a GPU allocates.

    `functions` are those of a CUDA unit that take more, by name.
    """

    more: _GrowthByResource
    functions: dict[str, Annotated[_GrowthByResource, Meta(min_length=1)]]


class MovedKernel(JsonStruct, frozen=True):
    """A kernel that the package's release TO has in another module than FROM."""

    before: NotEmpty = field(name="from")
    after: NotEmpty = field(name="to")


class DiffAdvisories(JsonStruct, frozen=True):
    """The advisories against each side."""

    before: tuple[PublishedAdvisory, ...] = field(name="from")
    after: tuple[PublishedAdvisory, ...] = field(name="to")


class DiffFailure(JsonStruct, frozen=True):
    """A kernel that fails on a GPU by any evidence, once for each cause."""

    kernel: NotEmpty
    target: str
    code: Code | None
    signature: str | None
    message: str


class DiffFailures(JsonStruct, frozen=True):
    """The failures under each side by all evidence."""

    before: tuple[DiffFailure, ...] = field(name="from")
    after: tuple[DiffFailure, ...] = field(name="to")


class DiffDocument(Answer, frozen=True, kw_only=True):
    """The changes between two releases, or two sets of stored results, for the same kernels.

    `answer` is the answer to "can I upgrade?" in one sentence, `about` the package, matrix,
    launches file or runs. `narrowed` is true if one configuration of each kernel and dtype is
    compared. `regressed` compiled under FROM and fails under TO, waived failures and the package's
    refusals included; `changed_cause` fails on both sides with another signature; `unchanged`
    compiles, or fails alike, on both. `unknown` lacks a verdict on one side; `untested` are
    launches whose invented arguments may have caused the failure; `only_from` and `only_to` exist
    on one side, with the reason. `moved` are kernels that two releases of a package have in
    different modules; the rows name them as TO does. `package` are the package's own requirements,
    refusals and warnings; `failures` are those of stored scans and published results, whatever
    configurations they cover: a side with any is not pinned; `fallbacks` are those of regressed
    cells under TO. `source` is published if published results answer, which are then `published`,
    with the cells of the user's own records. `measured` has the releases beside each other on each
    GPU where both were measured. `sizes` are those of the compared launches, null if no
    kernel has a head size.
    """

    schema: Literal["flacheck.diff/1"]
    about: str
    targets: tuple[str, ...]
    narrowed: bool
    before: DiffSide = field(name="from")
    after: DiffSide = field(name="to")
    kernels: ComparedKernels
    regressed: tuple[DiffRow, ...]
    mended: tuple[DiffRow, ...]
    changed_cause: tuple[DiffRow, ...]
    slower: tuple[SlowerRow, ...]
    more_resources: tuple[GrownRow, ...]
    unchanged: tuple[DiffRow, ...]
    unknown: tuple[DiffRow, ...]
    untested: tuple[DiffRow, ...]
    only_from: tuple[DiffRow, ...]
    only_to: tuple[DiffRow, ...]
    advisories: DiffAdvisories
    package: tuple[PackageNotice, ...]
    pin: AdvisedPin
    moved: tuple[MovedKernel, ...]
    failures: DiffFailures
    fallbacks: tuple[ReportedFallback, ...]
    source: Literal["own", "published"]
    published: PublishedSource | None
    sizes: CompiledSizes | None
    measured: tuple[CardComparison, ...]


def diff_side(side: ComparedSide) -> DiffSide:
    """Return a side in the form of the document."""
    counts = {verdict.value: side.verdicts.get(verdict, 0) for verdict in Verdict}
    return DiffSide.from_value(side, verdicts=VerdictCounts(**counts))


def diff_failures(cells: Iterable[ObservedCell]) -> tuple[DiffFailure, ...]:
    """Return failing cells as one row for each kernel, GPU and cause."""
    rows: dict[tuple[str | None, ...], DiffFailure] = {}
    for cell in cells:
        failure = DiffFailure(cell.kernel, cell.target, cell.code, cell.signature, cell.line)
        rows.setdefault((cell.kernel, cell.target, cell.code, cell.signature), failure)
    return tuple(rows[key] for key in sorted(rows, key=str))


def diff_rows(changes: Iterable[Difference]) -> tuple[DiffRow, ...]:
    """Return the rows of changes."""
    return tuple(_row(DiffRow, change) for change in changes)


def slower_rows(changes: Iterable[Difference]) -> tuple[SlowerRow, ...]:
    """Return the rows of slower compiles."""
    rows = []
    for change in changes:
        rows.append(_row(SlowerRow, change, times=round(change.slower or 0, 2)))
    return tuple(rows)


def grown_rows(changes: Iterable[Difference]) -> tuple[GrownRow, ...]:
    """Return the rows of compiles that take more resources."""
    rows = []
    for change in changes:
        functions = {name: _growth(each) for name, each in change.functions.items()}
        more = _growth(change.more or {})
        rows.append(_row(GrownRow, change, more=more, functions=functions))
    return tuple(rows)


def _row(kind: type[_Row], change: Difference, **more: Any) -> _Row:
    return kind.from_value(
        change.record,
        exact=change.pair.exact,
        reason=change.reason,
        waived=change.is_waived,
        before=_result(change.pair.before),
        after=_result(change.pair.after),
        **more,
    )


def _result(record: Record | None) -> DiffResult | None:
    if record is None:
        return None
    resources = ResultResources(
        registers=record.resources.get("registers"),
        shared=record.resources.get("shared"),
        spills=record.resources.get("spills"),
    )
    message = record.message.partition("\n")[0]
    return DiffResult.from_value(record, message=message, resources=resources)


def _growth(more: ResourceGrowth) -> _GrowthByResource:
    return {name: ResourceChange(*amounts) for name, amounts in more.items()}
