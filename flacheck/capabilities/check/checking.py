"""The judgement of an environment by published and stored results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from flacheck.capabilities.check.document import (
    BestPair,
    Checked,
    CheckedBuild,
    CheckedFailure,
    CheckedPackage,
    MachineCheck,
)
from flacheck.capabilities.check.environment import Build, Environment
from flacheck.capabilities.check.fitting import Compatibility, describe, fit
from flacheck.evidence.analysis.order import by_version, count_noun, some, split
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.weight import Reach, WeighedFailure
from flacheck.evidence.answers import RankedRelease, candidates
from flacheck.model.answer import Answer, Point, VerdictWord, make_answer
from flacheck.toolchains.doctor import Check

# The judged standings of each package on the GPU, under every release.
Evidence = Mapping[str, Sequence[Standing]]


def judge_environment(
    environment: Environment, evidence: Evidence, machine: Iterable[Check]
) -> Checked:
    """Return the document of an environment."""
    fitted = fit(environment)
    ranked = {about: candidates(standings) for about, standings in evidence.items()}
    current = {about: _current(own, environment) for about, own in ranked.items()}
    checks = list(machine)
    best = _best(ranked, current)
    answer = _answer(environment, fitted, current, best, checks)
    packages = []
    for about, candidate in current.items():
        packages.append(_package(about, candidate, ranked[about]))
    return Checked(
        **structs.asdict(answer),
        schema="flacheck.check/1",
        source=environment.source,
        torch=_build(environment.torch) if environment.torch else None,
        tritons=tuple(map(_build, environment.tritons)),
        gpu=environment.card.name if environment.card else None,
        driver=environment.card.driver if environment.card else None,
        target=environment.target,
        fits=not fitted.faults,
        command=fitted.command,
        packages=tuple(packages),
        machine=tuple(
            MachineCheck(name=each.name, ok=each.ok, detail=each.detail, remedy=each.remedy)
            for each in checks
        ),
        best=best,
    )


def _build(build: Build) -> CheckedBuild:
    return CheckedBuild(
        name=build.name, version=build.version, release=build.release, origin=build.origin
    )


def _current(ranked: Iterable[RankedRelease], environment: Environment) -> RankedRelease | None:
    triton = environment.triton
    for each in ranked:
        if triton is not None and each.toolchain == f"triton=={triton.release}":
            return each
    return None


def _package(
    about: str, candidate: RankedRelease | None, ranked: Sequence[RankedRelease]
) -> CheckedPackage:
    if candidate is None:
        return CheckedPackage(
            about=about,
            standing=None,
            kernels=None,
            configurations=None,
            failures=(),
            advisories=(),
        )
    (standing,) = candidate.standings
    failures = []
    for each in candidate.failures:
        failures.append(
            CheckedFailure(
                operator=each.name,
                kernel=each.kernel,
                code=each.code,
                since=_since(each, candidate, ranked),
                decides=each.reach is Reach.MODELS,
            )
        )
    return CheckedPackage(
        about=about,
        standing=standing.state,
        kernels=standing.kernel_share,
        configurations=standing.configurations,
        failures=tuple(failures),
        advisories=tuple(each.text for each in candidate.advisories),
    )


def _since(failure: WeighedFailure, current: RankedRelease, ranked: Iterable[RankedRelease]) -> str:
    """Return the first release of the series with results that has the failure."""
    first = current.toolchain
    older_first = sorted(ranked, key=lambda each: by_version(each.toolchain), reverse=True)
    for each in older_first:
        if by_version(each.toolchain) >= by_version(current.toolchain):
            continue
        if (failure.kernel, failure.code) not in {(own.kernel, own.code) for own in each.failures}:
            break
        first = each.toolchain
    return first


def _best(
    ranked: Mapping[str, Sequence[RankedRelease]], current: Mapping[str, RankedRelease | None]
) -> BestPair | None:
    """Return the release with results about most packages, and of these the fewest problems."""
    by_release: dict[str, list[RankedRelease]] = {}
    for own in ranked.values():
        for each in own:
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
    problems = []
    for each in (before, after):
        names = {failure.name for failure in each.restrictions}
        names.update(f"the advisory {own.id}" for own in each.advisories)
        problems.append(names)
    old, new = problems
    changes = []
    for verb, differing in (("mends", old - new), ("breaks", new - old)):
        if differing:
            changes.append(f"{verb} {', '.join(some(sorted(differing), 3))} ({after.about})")
    return changes


def _answer(
    environment: Environment,
    fitted: Compatibility,
    current: Mapping[str, RankedRelease | None],
    best: BestPair | None,
    checks: Sequence[Check],
) -> Answer:
    failed = [each for each in checks if not each.ok]
    points = [*fitted.faults, *environment.contradictions]
    points += [Point(f"{each.name}: {each.detail}", each.remedy) for each in failed]
    judged = [each for each in current.values() if each is not None]
    for candidate in sorted(judged, key=lambda each: -each.problems):
        points += candidate.points()
    missing = [about for about, each in current.items() if each is None]
    points += [_missing(about, environment) for about in missing]
    points += fitted.notes
    where = describe(environment)
    on = f" on {environment.target}" if environment.target else ""
    recommendation = _recommendation(environment, fitted, best)
    next = tuple(_next(environment, missing, judged))
    if fitted.faults:
        text = f"{where} do not belong together" if fitted.command else fitted.faults[0].text
        return make_answer(VerdictWord.NO, text, tuple(points), recommendation, next)
    deciding = sum(len(each.deciding) for each in judged)
    if deciding:
        number = count_noun(deciding, "kernel fails", "kernels fail")
        about = ", ".join(each.about for each in judged if each.deciding)
        text = f"under {where}{on} {number}: {about}"
        return make_answer(VerdictWord.NO, text, tuple(points), recommendation, next)
    if not current and environment.torch is not None and environment.triton is not None:
        text = f"{where} belong together; no installed package has kernels"
        return make_answer(VerdictWord.YES, text, tuple(points), recommendation, next)
    if not judged:
        text = f"nothing is on record about {_packages(current)} under {where}{on}"
        return make_answer(VerdictWord.UNKNOWN, text, tuple(points), recommendation, next)
    belong = "belong together and compile"
    if environment.torch is None or environment.triton is None:
        belong = "compiles"
    text = f"{where} {belong} {_packages(current)}{on}"
    restriction = _restriction(judged, missing, failed, environment.contradictions)
    if restriction:
        text = f"{restriction}: {text}"
        return make_answer(VerdictWord.YES_BUT, text, tuple(points), recommendation, next)
    return make_answer(VerdictWord.YES, text, tuple(points), recommendation, next)


def _restriction(
    judged: Sequence[RankedRelease],
    missing: Sequence[str],
    failed: Sequence[Check],
    contradictions: Sequence[Point],
) -> str:
    """Return the worst of what restricts a Yes; empty if nothing does."""
    number = sum(len(each.advisories) for each in judged)
    if number:
        return f"with {count_noun(number, 'advisory', 'advisories')}"
    for check in failed:
        return f"{check.name} fails its check"
    restricted = [failure for each in judged for failure in each.restrictions]
    if restricted:
        return f"not {restricted[0].name}"
    if contradictions:
        return "a pin excludes what is installed"
    if missing:
        return f"nothing is on record about {missing[0]}"
    rare = sum(len(each.failures) for each in judged)
    if rare:
        return f"{count_noun(rare, 'kernel fails', 'kernels fail')} that models do not meet"
    return ""


def _packages(current: Mapping[str, RankedRelease | None]) -> str:
    return ", ".join(some(list(current), 2)) or "any package with kernels"


def _missing(about: str, environment: Environment) -> Point:
    return Point(f"{about}: nothing is on record here", _scan(about, environment))


def _scan(about: str, environment: Environment) -> str:
    command = f"flacheck scan --package {about}"
    if environment.triton is not None:
        command += f" --triton {environment.triton.release or 'installed'}"
    return f"{command} --target {environment.target}" if environment.target else command


def _recommendation(environment: Environment, fitted: Compatibility, best: BestPair | None) -> str:
    if fitted.command and best is None:
        return fitted.command
    if environment.target is None:
        return "name the GPU, for example flacheck check --target h100"
    if best is None:
        return "compile the packages here: flacheck scan --package NAME==VERSION"
    triton = environment.triton
    pair = f"triton=={best.triton}"
    if best.torch:
        pair = f"torch=={best.torch} {pair}"
    if triton is not None and triton.release == best.triton:
        if fitted.command:
            return fitted.command
        return f"stay with {pair}, the best on record for these packages and this GPU"
    changes = ", and ".join(best.changes) or "has results about these packages and this GPU"
    return f"pip install {pair}: the best pair on record; it {changes}"


def _next(
    environment: Environment, missing: Iterable[str], judged: Iterable[RankedRelease]
) -> Iterable[str]:
    """Yield commands that compile what is missing, and look at the first failure."""
    for about in missing:
        yield _scan(about, environment)
    for candidate in judged:
        for failure in candidate.deciding[:1]:
            yield f"flacheck explain {failure.code}"
        yield f"flacheck known {candidate.about} --target {candidate.targets[0]}"
