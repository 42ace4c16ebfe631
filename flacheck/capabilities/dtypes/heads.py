"""The largest heads that fit: each kernel that a promoted tensor reaches, at several head sizes, on
several GPUs, with the dtypes that it was meant to get and with those that it gets.

The package is run again on each GPU, for it may choose other tiles there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from flacheck.capabilities.dtypes import costs, following
from flacheck.capabilities.dtypes.costs import CostBench, LaunchOnTarget, Need
from flacheck.capabilities.dtypes.finding import DtypeFinding
from flacheck.capabilities.dtypes.following import DtypesQuestion
from flacheck.capabilities.dtypes.observation import Mode, ObservedHeads, ObservedSubject, short
from flacheck.errors import IncompleteError, UsageError
from flacheck.inputs.launches import RecordedLaunch
from flacheck.model import Json
from flacheck.tables import targets

_LOG = logging.getLogger(__name__)

SIZES = (64, 128, 256)
# Hopper, Ampere, Ada, consumer Ampere, Volta, Turing: most shared memory first.
TARGETS = ("sm90", "sm80", "sm89", "sm86", "sm70", "sm75")
INTENDED_DTYPES, ACTUAL_DTYPES = "intended", "actual"


@dataclass(frozen=True)
class Concern:
    """A kernel to measure in a mode: its operands' dtypes as they are, and as they are meant."""

    subject: str
    mode: Mode
    kernel: str
    actual: Mapping[str, str]
    intended_dtypes: Mapping[str, str]


@dataclass(frozen=True)
class HeadNeeds:
    """A kernel's needs by head size on a target, with the `intended` or the `actual` dtypes;
    `settings` are what made heads so wide, `missing` why there is no figure at a size."""

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
        return max((size for size, need in self.needs.items() if need.fits), default=None)

    def to_json(self) -> Json:
        shared = {str(size): need.shared for size, need in self.needs.items()}
        why = {str(size): need.why for size, need in self.needs.items() if need.why}
        why.update({str(size): reason for size, reason in self.missing.items()})
        return {
            "kernel": self.kernel,
            "mode": str(self.mode),
            "target": self.target,
            "limit": self.limit,
            "dtypes": self.which,
            "operands": dict(self.dtypes),
            "shared": {**dict.fromkeys(map(str, self.missing)), **shared},
            "largest": self.largest,
            "settings": {str(size): dict(said) for size, said in self.settings.items()},
            "why": why,
        }


@dataclass(frozen=True)
class _Seen:
    """The launches of a concern at a size on a target; `why` there are none."""

    concern: Concern
    target: str
    size: int
    entries: tuple[RecordedLaunch, ...] = ()
    settings: Mapping[str, int] = field(default_factory=dict)
    why: str | None = None


def find_concerns(
    findings: Sequence[DtypeFinding], subjects: Sequence[ObservedSubject], modes: Sequence[Mode]
) -> list[Concern]:
    """The kernels that findings reach; without findings all that the subjects launch."""
    kept: dict[str, Concern] = {}
    by_name = {str(mode): mode for mode in modes}
    for finding in findings:
        mode = by_name[finding.mode]
        for reached in (*finding.reached_kernels, *finding.beyond):
            made = Concern(
                finding.subject, mode, reached.kernel, reached.dtypes, reached.intended_dtypes
            )
            kept.setdefault(f"{mode} {reached.kernel} {sorted(reached.dtypes.items())}", made)
    if findings:
        return list(kept.values())
    for subject in subjects:
        for mode in modes:
            run = subject.run(mode)
            for launch in run.launches if run is not None else ():
                dtypes = {name: short(operand.dtype) for name, operand in launch.args.items()}
                made = Concern(subject.name, mode, launch.kernel, dtypes, dtypes)
                kept.setdefault(f"{mode} {launch.kernel} {sorted(dtypes.items())}", made)
    return list(kept.values())


def measure_heads(
    question: DtypesQuestion,
    concerned: Sequence[Concern],
    bench: CostBench,
    folder: Path,
    chosen: Sequence[str] = TARGETS,
) -> list[HeadNeeds]:
    """What every kernel takes at every size on every target."""
    seen: list[_Seen] = []
    for target in chosen:
        seen += _seen(question, concerned, target, folder)
    wanted: list[LaunchOnTarget] = []
    for each in seen:
        for which in _kinds(each.concern):
            wanted += [LaunchOnTarget(entry, each.target) for entry in _entries(each, which)]
    needs = iter(bench.measure(wanted))
    rows: dict[tuple[int, str, str], HeadNeeds] = {}
    for each in seen:
        for which in _kinds(each.concern):
            measured = [next(needs) for _ in _entries(each, which)]
            key = (concerned.index(each.concern), each.target, which)
            row = rows.get(key) or _empty(each, which)
            rows[key] = _with(row, each, measured)
    return [rows[key] for key in sorted(rows, key=lambda key: (key[0], chosen.index(key[1])))]


def _kinds(concern: Concern) -> tuple[str, ...]:
    if concern.intended_dtypes == concern.actual:
        return (ACTUAL_DTYPES,)
    return (INTENDED_DTYPES, ACTUAL_DTYPES)


def _empty(seen: _Seen, which: str) -> HeadNeeds:
    concern = seen.concern
    dtypes = concern.actual
    if which == INTENDED_DTYPES:
        dtypes = concern.intended_dtypes
    return HeadNeeds(concern.kernel, concern.mode, seen.target, which, dtypes, {})


def _with(row: HeadNeeds, seen: _Seen, measured: Sequence[Need]) -> HeadNeeds:
    if not measured:
        return replace(row, missing={**row.missing, seen.size: seen.why or "not launched"})
    return replace(
        row,
        needs={**row.needs, seen.size: costs.combine_needs(measured)},
        settings={**row.settings, seen.size: seen.settings},
    )


def _entries(seen: _Seen, which: str) -> list[RecordedLaunch]:
    dtypes = seen.concern.actual
    if which == INTENDED_DTYPES:
        dtypes = seen.concern.intended_dtypes
    return [costs.with_dtypes(entry, dtypes) for entry in seen.entries]


def _seen(
    question: DtypesQuestion, concerned: Sequence[Concern], target: str, folder: Path
) -> Iterator[_Seen]:
    """The launches of all concerns at all sizes, made on the card of a target."""
    modes = tuple(dict.fromkeys(each.mode for each in concerned))
    names = tuple(dict.fromkeys(each.subject for each in concerned))
    asked = replace(question, modes=modes, device=target, heads=SIZES)
    if not question.targets:
        asked = replace(asked, targets=names)
    try:
        answer = following.follow(asked, folder)
    except (UsageError, IncompleteError) as error:
        # A package may refuse a card, or a release on it.
        for concern in concerned:
            for size in SIZES:
                yield _Seen(concern, target, size, why=str(error))
        return
    entries = costs.read_launches(answer)
    subjects = {each.name: each for each in answer.observation.subjects}
    for concern in concerned:
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
) -> _Seen:
    if heads is None or heads.run is None:
        return _Seen(concern, target, size, why=f"no argument makes heads {size} wide")
    of_kernel = [each for each in heads.run.launches if each.kernel == concern.kernel]
    same = [
        each
        for each in of_kernel
        if {name: short(operand.dtype) for name, operand in each.args.items()} == concern.actual
    ]
    # A run that an assertion ends launches nothing in the dtypes that end it.
    ids = dict.fromkeys(id for launch in same or of_kernel for id in launch.ids)
    found = tuple(entries[id] for id in ids if id in entries)
    return _Seen(concern, target, size, found, heads.settings)
