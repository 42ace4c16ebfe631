"""The largest heads that fit, by kernel and GPU.

Each kernel that a promoted tensor reaches is measured at several head sizes, with its intended and
with its actual dtypes. The package runs again for each GPU, because it may choose other tiles
there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from flacheck.capabilities.dtypes import costs, following
from flacheck.capabilities.dtypes.costs import CostBench, LaunchOnTarget, Need
from flacheck.capabilities.dtypes.finding import DtypeFinding
from flacheck.capabilities.dtypes.following import DtypesQuestion
from flacheck.capabilities.dtypes.observation import Mode, ObservedHeads, ObservedSubject
from flacheck.errors import IncompleteError, UsageError
from flacheck.model.wire import JsonStruct
from flacheck.subjects.inputs.launches import RecordedLaunch
from flacheck.tables import targets

SIZES = (64, 128, 256)
# Hopper, Ampere, Ada, consumer Ampere, Volta, Turing: most shared memory first.
TARGETS = ("sm90", "sm80", "sm89", "sm86", "sm70", "sm75")
INTENDED_DTYPES, ACTUAL_DTYPES = "intended", "actual"


@dataclass(frozen=True)
class Concern:
    """A kernel to measure in a mode, with the actual and the intended dtypes of its operands.

    It `is_behind_assertion` if an assertion ends the run before its launch.
    """

    subject: str
    mode: Mode
    kernel: str
    actual: Mapping[str, str]
    intended_dtypes: Mapping[str, str]
    is_behind_assertion: bool = False


class HeadsDocument(JsonStruct, frozen=True):
    """The shared memory of a kernel by head size on a target, with --shared.

    `limit` is the most bytes of a block. `dtypes` is intended (without the promotion) or actual,
    `operands` those dtypes by operand. `shared` are the bytes of the first configuration that fits,
    else of the smallest one, null if none compiles; `largest` is the largest head size that fits.
    `settings` are the arguments that set each head size, `why` is the failure's code or the reason
    for each size that does not fit.
    """

    kernel: str
    mode: str
    target: str
    limit: int
    dtypes: Annotated[str, Meta(pattern=f"^({INTENDED_DTYPES}|{ACTUAL_DTYPES})$")]
    operands: Mapping[str, str]
    shared: dict[str, int | None]
    largest: int | None
    settings: Mapping[str, Mapping[str, int]]
    why: dict[str, str]


@dataclass(frozen=True)
class HeadNeeds:
    """The needs of a kernel by head size on a target, with the `intended` or the `actual` dtypes.

    `settings` are the arguments that set the head size; `missing` has the reason for each size
    without a figure.
    """

    kernel: str
    mode: Mode
    target: str
    which: str
    dtypes: Mapping[str, str]
    needs: Mapping[int, Need]
    settings: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    missing: Mapping[int, str] = field(default_factory=dict)

    @property
    def sizes(self) -> list[int]:
        return sorted([*self.needs, *self.missing])

    @property
    def limit(self) -> int:
        return targets.find(self.target).shared_limit

    @property
    def largest(self) -> int | None:
        """The largest head size that fits."""
        sizes = [size for size, need in self.needs.items() if need.fits]
        return max(sizes, default=None)

    def document(self) -> HeadsDocument:
        """Return the needs in the form of flacheck.dtypes/1."""
        shared: dict[str, int | None] = dict.fromkeys(map(str, self.missing))
        why = {}
        for size, need in self.needs.items():
            shared[str(size)] = need.shared
            if need.why:
                why[str(size)] = need.why
        for size, reason in self.missing.items():
            why[str(size)] = reason
        return HeadsDocument(
            kernel=self.kernel,
            mode=str(self.mode),
            target=self.target,
            limit=self.limit,
            dtypes=self.which,
            operands=self.dtypes,
            shared=shared,
            largest=self.largest,
            settings={str(size): values for size, values in self.settings.items()},
            why=why,
        )


@dataclass(frozen=True)
class _HeadLaunches:
    """The launches of a concern at a head size on a target, or the reason `why` none exists."""

    concern: Concern
    target: str
    size: int
    entries: tuple[RecordedLaunch, ...] = ()
    settings: Mapping[str, int] = field(default_factory=dict)
    why: str | None = None


def find_concerns(
    findings: Sequence[DtypeFinding], subjects: Sequence[ObservedSubject], modes: Sequence[Mode]
) -> list[Concern]:
    """Return the kernels that findings reach; without findings all that subjects launch."""
    by_key: dict[str, Concern] = {}
    by_name = {str(mode): mode for mode in modes}
    for finding in findings:
        mode = by_name[finding.mode]
        for effect in (*finding.reached_kernels, *finding.beyond):
            concern = Concern(
                finding.subject,
                mode,
                effect.kernel,
                effect.dtypes,
                effect.intended_dtypes,
                is_behind_assertion=effect in finding.beyond,
            )
            by_key.setdefault(f"{mode} {effect.kernel} {sorted(effect.dtypes.items())}", concern)
    if findings:
        return list(by_key.values())
    for subject in subjects:
        for mode in modes:
            run = subject.run(mode)
            for launch in run.launches if run is not None else ():
                dtypes = launch.dtypes
                concern = Concern(subject.name, mode, launch.kernel, dtypes, dtypes)
                by_key.setdefault(f"{mode} {launch.kernel} {sorted(dtypes.items())}", concern)
    return list(by_key.values())


def measure_heads(
    question: DtypesQuestion,
    concerns: Sequence[Concern],
    bench: CostBench,
    folder: Path,
    target_names: Sequence[str] = TARGETS,
) -> list[HeadNeeds]:
    """Return the needs of every kernel at every head size on every target."""
    head_launches: list[_HeadLaunches] = []
    for target in target_names:
        head_launches += _observe_target(question, concerns, target, folder)
    queries: list[LaunchOnTarget] = []
    for each in head_launches:
        for which in _kinds(each.concern):
            for entry in _entries(each, which):
                queries.append(LaunchOnTarget(entry, each.target))
    needs = iter(bench.measure(queries))
    rows: dict[tuple[int, str, str], HeadNeeds] = {}
    for each in head_launches:
        for which in _kinds(each.concern):
            needs_of_size = list(itertools.islice(needs, len(each.entries)))
            key = (concerns.index(each.concern), each.target, which)
            row = rows.get(key) or _empty(each, which)
            rows[key] = _with(row, each, needs_of_size)
    by_concern = sorted(rows, key=lambda key: (key[0], target_names.index(key[1])))
    return [rows[key] for key in by_concern]


def _kinds(concern: Concern) -> tuple[str, ...]:
    if concern.intended_dtypes == concern.actual:
        return (ACTUAL_DTYPES,)
    return (INTENDED_DTYPES, ACTUAL_DTYPES)


def _empty(head_launches: _HeadLaunches, which: str) -> HeadNeeds:
    concern = head_launches.concern
    dtypes = concern.actual
    if which == INTENDED_DTYPES:
        dtypes = concern.intended_dtypes
    return HeadNeeds(concern.kernel, concern.mode, head_launches.target, which, dtypes, {})


def _with(row: HeadNeeds, head_launches: _HeadLaunches, needs_of_size: Sequence[Need]) -> HeadNeeds:
    size = head_launches.size
    if not needs_of_size:
        why = head_launches.why or "not launched"
        return replace(row, missing={**row.missing, size: why})
    return replace(
        row,
        needs={**row.needs, size: costs.combine_needs(needs_of_size)},
        settings={**row.settings, size: head_launches.settings},
    )


def _entries(head_launches: _HeadLaunches, which: str) -> list[RecordedLaunch]:
    dtypes = head_launches.concern.actual
    if which == INTENDED_DTYPES:
        dtypes = head_launches.concern.intended_dtypes
    return [costs.with_dtypes(entry, dtypes) for entry in head_launches.entries]


def _observe_target(
    question: DtypesQuestion, concerns: Sequence[Concern], target: str, folder: Path
) -> Iterator[_HeadLaunches]:
    """Yield the launches of all concerns at all head sizes on the card of a target."""
    modes: dict[Mode, None] = {}
    names: dict[str, None] = {}
    for concern in concerns:
        modes[concern.mode] = None
        names[concern.subject] = None
    # An assertion that ends the run would leave no launch to measure behind it.
    asserts = question.asserts and not any(concern.is_behind_assertion for concern in concerns)
    rerun = replace(question, modes=tuple(modes), device=target, heads=SIZES, asserts=asserts)
    if not question.targets:
        rerun = replace(rerun, targets=tuple(names))
    try:
        answer = following.follow(rerun, folder)
    except (UsageError, IncompleteError) as error:
        # A package may reject a card, or a Triton release on that card.
        for concern in concerns:
            for size in SIZES:
                yield _HeadLaunches(concern, target, size, why=str(error))
        return
    entries = costs.read_launches(answer)
    subjects = {each.name: each for each in answer.observation.subjects}
    for concern in concerns:
        subject = subjects.get(concern.subject)
        for size in SIZES:
            yield _at(concern, target, size, _heads(subject, concern.mode, size), entries)


def _heads(subject: ObservedSubject | None, mode: Mode, size: int) -> ObservedHeads | None:
    if subject is None:
        return None
    for each in subject.heads:
        if each.size == size and each.run is not None and each.run.mode == mode:
            return each
    return None


def _at(
    concern: Concern,
    target: str,
    size: int,
    heads: ObservedHeads | None,
    entries: Mapping[str, RecordedLaunch],
) -> _HeadLaunches:
    if heads is None or heads.run is None:
        return _HeadLaunches(concern, target, size, why=f"no argument makes heads {size} wide")
    of_kernel = [each for each in heads.run.launches if each.kernel == concern.kernel]
    same = [each for each in of_kernel if each.dtypes == concern.actual]
    # A run that an assertion ends launches nothing in the dtypes that end it.
    entries_of_size: dict[str, RecordedLaunch] = {}
    for launch in same or of_kernel:
        for id in launch.ids:
            if id in entries:
                entries_of_size[id] = entries[id]
    return _HeadLaunches(concern, target, size, tuple(entries_of_size.values()), heads.settings)
