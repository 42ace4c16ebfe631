"""Launches that do not compile in the dtypes that mixed precision gives them.

A launch with half and float32 operands is compiled as it was recorded, and as a run in the half
dtype alone and one in float32 alone make it. It is a finding if it fails and one of these compiles:
then the mixture is the cause, whether a promotion, autocast or the program widened an operand. The
operand to blame is one that makes the launch compile when it alone is half; if there is none, every
wide operand is blamed. Operands that were already wide when the launch received them form one
finding.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product

from flacheck.capabilities.dtypes import expressions, judging
from flacheck.capabilities.dtypes.costs import CostBench, LaunchOnTarget, Need, with_dtypes
from flacheck.capabilities.dtypes.finding import PROMOTION, DtypeFinding, ReachedKernel
from flacheck.capabilities.dtypes.judging import DisplayPath
from flacheck.capabilities.dtypes.observation import (
    Mode,
    ObservedLaunch,
    ObservedRun,
    ObservedSubject,
    Place,
)
from flacheck.subjects.inputs.launches import RecordedLaunch

_LOG = logging.getLogger(__name__)
# Codes of a compile that reached no verdict: time-outs, memory, missing wheels.
_NO_VERDICT = "FC9"


@dataclass(frozen=True)
class _MixedLaunch:
    """A launch with half and float32 operands.

    `plain` is the same launch in one dtype, `half_variants` with one of its wide operands in half.
    """

    run: ObservedRun
    launch: ObservedLaunch
    mixed: RecordedLaunch
    plain: tuple[RecordedLaunch, ...]
    half_variants: Mapping[str, RecordedLaunch]

    @property
    def variants(self) -> tuple[RecordedLaunch, ...]:
        return (*self.plain, *self.half_variants.values())


def find_refused(
    subjects: Sequence[ObservedSubject],
    modes: Sequence[Mode],
    findings: Sequence[DtypeFinding],
    entries: Mapping[str, RecordedLaunch],
    bench: CostBench,
    target: str,
    display_path: DisplayPath,
) -> list[DtypeFinding]:
    """Return a finding for each place that widens an operand of a launch which is then refused.

    Args:
        subjects: The followed subjects.
        modes: The modes of the question.
        findings: Known findings; launches that they reach are not compiled.
        entries: The recorded launches by id.
        bench: Compiles the launches.
        target: The GPU to compile for.
        display_path: Turns an absolute path into the path in a report.
    """
    every_launch: list[tuple[str, _MixedLaunch]] = []
    for subject, mode in product(subjects, modes):
        for mixed in _find_mixed(subject, mode, findings, entries):
            every_launch.append((subject.name, mixed))
    if every_launch:
        _LOG.info(f"compiling {len(every_launch)} launches with mixed dtypes …")
    needs = bench.compile_one([LaunchOnTarget(each.mixed, target) for _, each in every_launch])
    failures = []
    for (name, each), need in zip(every_launch, needs):
        if _is_refused(need):
            failures.append((name, each, need))
    variants = chain.from_iterable(each.variants for _, each, _ in failures)
    variant_needs = iter(bench.compile_one([LaunchOnTarget(each, target) for each in variants]))
    found: list[DtypeFinding] = []
    for name, each, need in failures:
        plain = [next(variant_needs) for _ in each.plain]
        half_variants = {operand: next(variant_needs) for operand in each.half_variants}
        if all(map(_is_refused, plain)):
            continue
        described = []
        for operand in _blamed_operands(half_variants):
            finding = _describe(name, each, operand, need, display_path)
            if finding is not None:
                described.append(finding)
        found += _join_operands(described, each.launch.place)
    return _join_kernels(found)


def _blamed_operands(half_variants: Mapping[str, Need]) -> list[str]:
    """Return the wide operands that are refused only as wide; all of them if there is none."""
    blamed = [operand for operand, alone in half_variants.items() if not _is_refused(alone)]
    return blamed or list(half_variants)


def _is_refused(need: Need) -> bool:
    """Return True for a compile with an error; shared memory over the limit does not count."""
    why = need.why or ""
    return need.shared is None and why.startswith("FC") and not why.startswith(_NO_VERDICT)


def _find_mixed(
    subject: ObservedSubject,
    mode: Mode,
    findings: Sequence[DtypeFinding],
    entries: Mapping[str, RecordedLaunch],
) -> Iterator[_MixedLaunch]:
    """Yield each launch of a run with half and float32 operands once for its dtypes."""
    run = subject.run(mode)
    if run is None:
        return
    launch_keys = set()
    for finding in findings:
        if (finding.subject, finding.mode) == (subject.name, str(mode)):
            for kernel in finding.reached_kernels:
                launch_keys.add((kernel.kernel, tuple(kernel.dtypes.items())))
    for launch in run.launches:
        key = (launch.kernel, tuple(launch.dtypes.items()))
        is_mixed = launch.has_half and "fp32" in launch.dtypes.values()
        recorded = [entries[each] for each in launch.ids if each in entries]
        if key in launch_keys or not is_mixed or not recorded:
            continue
        launch_keys.add(key)
        plain = []
        for dtype in (mode.half, "fp32"):
            dtypes = dict.fromkeys(launch.args, dtype)
            plain.append(with_dtypes(recorded[0], dtypes))
        half_variants = {}
        for name, operand in launch.args.items():
            if not operand.is_half:
                half_variants[name] = with_dtypes(recorded[0], {name: mode.half})
        yield _MixedLaunch(run, launch, recorded[0], tuple(plain), half_variants)


def _join_kernels(findings: Sequence[DtypeFinding]) -> list[DtypeFinding]:
    """Return one finding for each place, with the kernels of all its findings."""
    by_identity: dict[tuple[str, str, str], DtypeFinding] = {}
    for finding in findings:
        key = (finding.subject, finding.mode, finding.identity)
        known = by_identity.setdefault(key, finding)
        if known is not finding:
            kernels = (*known.reached_kernels, *finding.reached_kernels)
            by_identity[key] = replace(known, reached_kernels=kernels)
    return list(by_identity.values())


def _join_operands(findings: Sequence[DtypeFinding], place: Place | None) -> Iterator[DtypeFinding]:
    """Yield the findings of one launch.

    Those that name the launch itself are merged.

    An operand that the caller or the module passed explains one that the program allocated.
    """
    at_launch = []
    for finding in findings:
        if finding.place == place:
            at_launch.append(finding)
        else:
            yield finding
    passed = [finding for finding in at_launch if finding.parameter]
    joined = passed or at_launch
    if not joined:
        return
    operands = list(dict.fromkeys(finding.operand for finding in joined))
    kernels: list[ReachedKernel] = []
    for finding in joined:
        kernels += finding.reached_kernels
    yield replace(joined[0], operand=", ".join(operands), reached_kernels=tuple(kernels))


def _describe(
    subject: str, mixed: _MixedLaunch, name: str, need: Need, display_path: DisplayPath
) -> DtypeFinding | None:
    """Return a finding at the place that widened an operand, or at the launch without one."""
    launch, run = mixed.launch, mixed.run
    operand = launch.args[name]
    intended = dict.fromkeys(launch.args, run.mode.half)
    kernels = (ReachedKernel(launch.kernel, name, launch.dtypes, intended, launch.ids),)
    message = f"{launch.kernel} does not compile in these dtypes: {need.why} {need.message}"
    if operand.casts:
        cast = run.casts[operand.casts[0]]
        finding = judging.describe_cast(subject, run, cast, display_path)
        return replace(finding, reached_kernels=kernels, message=message)
    for number in judging.first_promotions(run, operand.events):
        promotion = judging.describe_promotion(subject, run, number, display_path)
        if promotion is not None:
            return replace(promotion, reached_kernels=kernels, message=message, is_cast=True)
    place = launch.place
    if place is None:
        return None
    if operand.kind == "argument":
        message += f"; the dtype of {operand.name} is up to the caller"
    return DtypeFinding(
        PROMOTION,
        subject,
        display_path(place.file),
        place.line,
        expressions.find_statement(place),
        operand.name or name,
        run.mode.half,
        "fp32",
        str(run.mode),
        place,
        parameter=operand.name,
        kind=operand.kind,
        reached_kernels=kernels,
        message=message,
        is_cast=True,
    )
