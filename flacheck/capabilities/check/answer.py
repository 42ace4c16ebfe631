"""The answer about an environment: sentence, points, recommendation, next commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec import structs

from flacheck.capabilities.check.document import BestPair
from flacheck.capabilities.check.environment import Environment
from flacheck.capabilities.check.fitting import Compatibility, describe
from flacheck.evidence.analysis.order import by_version, count_noun, some, split
from flacheck.evidence.answers import RankedRelease, look_at
from flacheck.evidence.measured.comparison import CardComparison, SlowOperator, slow_points
from flacheck.model.answer import Answer, Point, VerdictWord, make_answer
from flacheck.toolchains.doctor import Check


@dataclass(frozen=True)
class JudgedPackage:
    """A package on the GPU: its releases, best first, and the one that is installed.

    `current` is None without results. `measured` are the comparisons of the installed release on
    GPUs, `slower` the operators that take longer there.
    """

    about: str
    ranked: Sequence[RankedRelease]
    current: RankedRelease | None
    measured: Sequence[CardComparison] = ()
    slower: Sequence[SlowOperator] = ()

    @property
    def is_judged(self) -> bool:
        """True if the result is complete, or something fails."""
        return self.current is not None and not (self.current.is_open and not self.current.failures)

    @property
    def older(self) -> str | None:
        """The next older release with results, to measure beside."""
        if self.current is None:
            return None
        own = by_version(self.current.toolchain)
        older = [each.toolchain for each in self.ranked if by_version(each.toolchain) < own]
        return split(max(older, key=by_version))[1] if older else None


@dataclass(frozen=True)
class JudgedEnvironment:
    """An environment with all that its answer is about."""

    environment: Environment
    fitted: Compatibility
    packages: Sequence[JudgedPackage]
    best: BestPair | None
    failed_checks: Sequence[Check] = ()

    @property
    def judged(self) -> list[RankedRelease]:
        """The installed release of each package with a result."""
        return [each.current for each in self.packages if each.is_judged and each.current]

    @property
    def missing(self) -> list[JudgedPackage]:
        """The packages without a complete result."""
        return [each for each in self.packages if not each.is_judged]

    @property
    def place(self) -> str:
        """`torch 2.12.1 and triton 3.7.1 on sm90`."""
        target = self.environment.target
        return describe(self.environment) + (f" on {target}" if target else "")

    @property
    def pair(self) -> str:
        """The line that makes the parts fit, else the requirements of the best pair."""
        if self.best is None:
            return self.fitted.command
        torch = f"torch=={self.best.torch} " if self.best.torch else ""
        return f"{torch}triton=={self.best.triton}"


def answer_of(judged: JudgedEnvironment) -> Answer:
    """Return the answer: do the parts belong together, and do the packages work."""
    verdict, text = _sentence(judged)
    points = tuple(_points(judged))
    return make_answer(verdict, text, points, _recommendation(judged), tuple(_next(judged)))


def _sentence(judged: JudgedEnvironment) -> tuple[VerdictWord, str]:
    environment, fitted = judged.environment, judged.fitted
    where = describe(environment)
    if fitted.faults:
        text = f"{where} do not belong together" if fitted.command else fitted.faults[0].text
        return VerdictWord.NO, text
    deciding = sum(len(each.deciding) for each in judged.judged)
    names = ", ".join(some([each.about for each in judged.packages], 2))
    if deciding:
        number = count_noun(deciding, "kernel fails", "kernels fail")
        about = ", ".join(some([each.about for each in judged.judged if each.deciding], 2))
        return VerdictWord.NO, f"under {judged.place} {number}: {about}"
    restriction = _restriction(judged)
    is_pair = environment.torch is not None and environment.triton is not None
    together = _together(environment)
    if not judged.packages and is_pair:
        text = f"{where} {together}; no installed package has kernels"
    elif not judged.judged:
        return VerdictWord.UNKNOWN, _missing_evidence(judged, names)
    else:
        belong = f"{together} and compile" if is_pair else "compiles"
        text = f"{where} {belong} {names} on {environment.target}"
    if restriction:
        return VerdictWord.YES_BUT, f"{restriction}: {text}"
    return VerdictWord.YES, text


def _together(environment: Environment) -> str:
    # Builds of CPUs, of NGC and of one's own name no Triton in their metadata.
    is_known = environment.torch is not None and environment.torch.requires
    return "belong together" if is_known else "do not contradict each other"


def _missing_evidence(judged: JudgedEnvironment, names: str) -> str:
    """Return the reason why nothing is known about the packages."""
    if not judged.packages:
        return f"no installed package has kernels ({describe(judged.environment)})"
    if judged.environment.target is None:
        return f"no GPU was found here, and {names} depends on it"
    return f"nothing is on record about {names} under {judged.place}"


def _restriction(judged: JudgedEnvironment) -> str:
    """Return the worst of what restricts a Yes; empty if nothing does."""
    releases = judged.judged
    number = sum(len(each.advisories) for each in releases)
    if number:
        return f"with {count_noun(number, 'advisory', 'advisories')}"
    for check in judged.failed_checks:
        return f"{check.name} fails its check"
    restricted = [failure for each in releases for failure in each.restrictions]
    if restricted:
        return f"not {restricted[0].name}"
    for release in releases:
        if release.is_mostly_unusable:
            return f"{release.unusable_share} compile under no release"
    slower = _slower_operators(judged)
    if slower:
        return f"{count_noun(len(slower), 'operator is', 'operators are')} slower than before"
    if judged.environment.contradictions:
        return "a pin excludes what is installed"
    if judged.missing and releases:
        return f"nothing is on record about {judged.missing[0].about}"
    rare = sum(len(each.failures) for each in releases)
    if rare:
        return f"{count_noun(rare, 'kernel fails', 'kernels fail')} that models do not meet"
    return ""


def _slower_operators(judged: JudgedEnvironment) -> set[str]:
    return {each.operator for package in judged.packages for each in package.slower}


def _points(judged: JudgedEnvironment) -> Iterator[Point]:
    """Yield what restricts the answer, worst first."""
    yield from judged.fitted.faults
    yield from judged.environment.contradictions
    for check in judged.failed_checks:
        yield Point(f"{check.name}: {check.detail}", check.remedy.removeprefix("optional: "))
    worst_first = sorted(judged.judged, key=lambda each: -each.problems)
    for release in worst_first:
        for point in release.points():
            if len(judged.packages) > 1:
                point = structs.replace(point, text=f"{release.about}: {point.text}")
            yield point
    for package in judged.packages:
        yield from slow_points(package.slower)
    for package in judged.missing:
        state = "nothing is on record here"
        if package.current is not None:
            state = f"only {package.current.standings[0].progress} cells are on record"
        elif judged.environment.target is None:
            state = "what is on record depends on the GPU"
        yield Point(f"{package.about}: {state}", _scan(package.about, judged.environment))
    yield from judged.fitted.notes


def _scan(about: str, environment: Environment) -> str:
    if environment.target is None:
        return f"flacheck check --package {about} --target h100"
    release = environment.triton.release or "installed" if environment.triton else "newest"
    triton = f" --triton {release}" if environment.triton else ""
    return f"flacheck scan --package {about}{triton} --target {environment.target}"


def _recommendation(judged: JudgedEnvironment) -> str:
    environment, best = judged.environment, judged.best
    if best is None and judged.fitted.command:
        return judged.fitted.command
    if environment.target is None:
        return "name the GPU, for example flacheck check --target h100"
    if best is None:
        for package in judged.missing:
            return f"compile it here: {_scan(package.about, environment)}"
        return "flacheck check --package NAME==VERSION asks about a package before it is installed"
    if environment.triton is not None and environment.triton.release == best.triton:
        if judged.fitted.command:
            return judged.fitted.command
        return f"stay with {judged.pair}, the best on record for these packages and this GPU"
    changes = "; ".join(best.changes) or "has results about these packages and this GPU"
    return f"pip install {judged.pair}: the best pair on record; it {changes}"


def _next(judged: JudgedEnvironment) -> Iterator[str]:
    """Yield commands that compile what is missing, look at the first failure, measure."""
    environment = judged.environment
    for package in judged.missing:
        yield _scan(package.about, environment)
    for package in judged.packages:
        release = package.current
        if release is None or not package.is_judged:
            continue
        yield from look_at(release, release.deciding)
        yield f"flacheck known {package.about} --target {release.targets[0]}"
        if environment.card is not None and not package.measured and package.older:
            current = split(release.toolchain)[1]
            yield f"flacheck measure --package {package.about} --triton {package.older},{current}"
