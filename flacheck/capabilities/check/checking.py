"""The judgement of an environment by published and stored results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from flacheck.capabilities.check.answer import JudgedEnvironment, JudgedPackage, answer_of
from flacheck.capabilities.check.document import (
    BestPair,
    Checked,
    CheckedBuild,
    CheckedFailure,
    CheckedPackage,
    MachineCheck,
)
from flacheck.capabilities.check.environment import Environment
from flacheck.capabilities.check.fitting import fit
from flacheck.evidence.analysis.order import by_version, some, split
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.weight import Reach, WeighedFailure
from flacheck.evidence.answers import RankedRelease, candidates
from flacheck.evidence.measured.comparison import CardComparison, slow_operators
from flacheck.toolchains.doctor import Check


@dataclass(frozen=True)
class PackageEvidence:
    """The evidence about a package on the GPU.

    `standings` are judged, of every release; `measured` are the comparisons of each release with
    another one.
    """

    standings: Sequence[Standing] = ()
    measured: Mapping[str, Sequence[CardComparison]] = field(default_factory=dict)


def judge_environment(
    environment: Environment, evidence: Mapping[str, PackageEvidence], machine: Iterable[Check]
) -> Checked:
    """Return the document of an environment."""
    fitted = fit(environment)
    judged = [_judge(about, own, environment) for about, own in evidence.items()]
    checks = list(machine)
    best = _best(judged)
    failed = [each for each in checks if not each.ok]
    answer = answer_of(JudgedEnvironment(environment, fitted, judged, best, failed))
    return Checked(
        **structs.asdict(answer),
        schema="flacheck.check/1",
        source=environment.source,
        torch=CheckedBuild.from_value(environment.torch) if environment.torch else None,
        tritons=tuple(map(CheckedBuild.from_value, environment.tritons)),
        gpu=environment.card.name if environment.card else None,
        driver=environment.card.driver if environment.card else None,
        target=environment.target,
        fits=not fitted.faults,
        command=fitted.command,
        contradictions=tuple(each.text for each in environment.contradictions),
        packages=tuple(map(_package, judged)),
        machine=tuple(map(MachineCheck.from_value, checks)),
        best=best,
    )


def _judge(about: str, evidence: PackageEvidence, environment: Environment) -> JudgedPackage:
    ranked = candidates(evidence.standings)
    if environment.triton is None:
        return JudgedPackage(about, ranked, None)
    toolchain = f"triton=={environment.triton.release}"
    current = next((each for each in ranked if each.toolchain == toolchain), None)
    measured = evidence.measured.get(toolchain, ())
    slower = slow_operators(evidence.measured, toolchain)
    return JudgedPackage(about, ranked, current, measured, slower)


def _package(judged: JudgedPackage) -> CheckedPackage:
    candidate = judged.current
    standing = candidate.standings[0] if candidate is not None else None
    failures = []
    for each in candidate.failures if candidate is not None else ():
        failures.append(
            CheckedFailure.from_value(
                each,
                operator=each.name,
                since=_since(each, judged),
                decides=each.reach is Reach.MODELS,
            )
        )
    return CheckedPackage(
        about=judged.about,
        standing=standing.state if standing else None,
        kernels=standing.kernel_share if standing else None,
        configurations=standing.configurations if standing else None,
        failures=tuple(failures),
        advisories=tuple(each.text for each in candidate.advisories) if candidate else (),
        measured_on=tuple(each.card for each in judged.measured),
        slower=tuple(judged.slower),
    )


def _since(failure: WeighedFailure, judged: JudgedPackage) -> str:
    """Return the first release of the series with results that has the failure."""
    assert judged.current is not None
    first = judged.current.toolchain
    for each in sorted(judged.ranked, key=lambda each: by_version(each.toolchain), reverse=True):
        if by_version(each.toolchain) >= by_version(judged.current.toolchain):
            continue
        if (failure.kernel, failure.code) not in {(own.kernel, own.code) for own in each.failures}:
            break
        first = each.toolchain
    return first


def _best(judged: Iterable[JudgedPackage]) -> BestPair | None:
    """Return the release with results about most packages, and of these the fewest problems."""
    by_release: dict[str, list[RankedRelease]] = {}
    current = {}
    for package in judged:
        current[package.about] = package.current
        for each in package.ranked:
            by_release.setdefault(each.toolchain, []).append(each)
    if not by_release:
        return None

    def merit(toolchain: str) -> tuple[int, int, int]:
        own = by_release[toolchain]
        problems = sum(each.problems for each in own)
        return -len(own), problems, sum(len(each.restrictions) for each in own)

    newest_first = sorted(by_release, key=by_version, reverse=True)
    toolchain = min(newest_first, key=merit)
    own = by_release[toolchain]
    changes = []
    for each in own:
        before = current[each.about]
        if before is not None and before.toolchain != toolchain:
            changes += _changes(before, each)
    torch = own[0].torch[-1] if own[0].torch else None
    return BestPair(triton=split(toolchain)[1], torch=torch, changes=tuple(changes))


def _changes(before: RankedRelease, after: RankedRelease) -> list[str]:
    """Return what another release mends and breaks for a package."""
    old, new = _problems(before), _problems(after)
    changes = []
    for verb, names in (
        ("mends", [name for own, name in old.items() if own not in new]),
        ("still lacks", [new[own] for own, name in old.items() if new.get(own, name) != name]),
        ("breaks", [name for own, name in new.items() if own not in old]),
    ):
        if names:
            changes.append(f"{verb} {', '.join(some(sorted(names), 3))} ({after.about})")
    return changes


def _problems(release: RankedRelease) -> dict[str, str]:
    """Return the failing operators with their conditions, and the advisories."""
    names = {failure.operator: failure.name for failure in release.restrictions}
    return {**names, **{each.id: f"the advisory {each.id}" for each in release.advisories}}
