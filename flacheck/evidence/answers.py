"""Answers in words by judged standings: which release is best, and what is wrong with it.

Every command that judges releases builds its answer here, so that all of them weigh a failure in
the same way. Measurements on a card (slower, other results) add points to `RankedRelease.points`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from flacheck.evidence.analysis.judgement import package_failures
from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.order import (
    by_target,
    by_version,
    count_noun,
    kernel_name,
    some,
    split,
    toolchain_label,
)
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standing_state import Share, StandingState
from flacheck.evidence.analysis.weight import Reach, WeighedFailure, weigh
from flacheck.model.answer import MOST_WORDS, Answer, Point, VerdictWord, make_answer
from flacheck.rules import RULES
from flacheck.tables import advisories
from flacheck.tables.advisories import Advisory, Effect
from flacheck.toolchains import torch_pins

_OPEN = (StandingState.PARTIAL, StandingState.NO_RECORD)
# The number of failing operators that a sentence names.
_NAMED = 2
_RESUME = "give the command of the scan again: it goes on where it stopped"


@dataclass(frozen=True)
class RankedRelease:
    """A release of a compiler for one subject, on the GPUs with evidence about both.

    `remedies` are settings that compile a failing kernel, by its name; `further` are points of
    other origin, such as measurements on a card.
    """

    about: str
    toolchain: str
    standings: tuple[Standing, ...]
    remedies: Mapping[str, str] = field(default_factory=dict)
    further: tuple[Point, ...] = ()

    @property
    def targets(self) -> list[str]:
        return sorted({each.target for each in self.standings}, key=by_target)

    @property
    def torch(self) -> list[str]:
        """The torch releases that require this Triton, oldest first."""
        name, release = split(self.toolchain)
        return torch_pins.torch_for(release) if name == "triton" else []

    @property
    def label(self) -> str:
        """`Triton 3.9.0 (torch 2.15.0)`."""
        text = toolchain_label(self.toolchain)
        return f"{text} (torch {self.torch[-1]})" if self.torch else text

    @property
    def pin(self) -> str:
        """The exact requirements: `torch==2.15.0 triton==3.9.0`; a local build by its name."""
        if "+" in self.toolchain:
            return f"{self.label}, which no index has"
        torch = [f"torch=={self.torch[-1]}"] if self.torch else []
        return " ".join([*torch, self.toolchain])

    @cached_property
    def failures(self) -> list[WeighedFailure]:
        """The failing kernels, those that decide first, each once."""
        by_name: dict[tuple[str, str], WeighedFailure] = {}
        for standing in self.standings:
            for failure in weigh(standing):
                by_name.setdefault((failure.name, failure.code), failure)
        return sorted(by_name.values(), key=lambda each: each.reach)

    @property
    def deciding(self) -> list[WeighedFailure]:
        """The failures that models meet."""
        return [each for each in self.failures if each.reach is Reach.MODELS]

    @property
    def restrictions(self) -> list[WeighedFailure]:
        """The failures that some program meets."""
        return [each for each in self.failures if each.reach is not Reach.NOBODY]

    @cached_property
    def advisories(self) -> list[Advisory]:
        """The advisories against the release on some GPU, each once."""
        name, release = split(self.toolchain)
        if name != "triton":
            return []
        found: dict[str, Advisory] = {}
        package = self.about if "==" in self.about else None
        for standing in self.standings:
            against = advisories.against(
                release, standing.target, kernels=standing.kernels, package=package
            )
            found.update((each.id, each) for each in against)
        return list(found.values())

    @property
    def is_open(self) -> bool:
        """True if some GPU has no complete result, whatever fails so far."""
        return any(each.is_partial or each.state in _OPEN for each in self.standings)

    @property
    def kernels(self) -> Share:
        """The kernels that compiled, of all, on the GPU where the fewest did."""
        shares = [each.kernel_share for each in self.standings]
        return min(shares, key=lambda share: share.answered / max(1, share.of or 1))

    @cached_property
    def kernel_names(self) -> frozenset[str]:
        """All kernels of the subject, and what else fails."""
        names = {failure.kernel for failure in self.failures}
        return frozenset(names.union(*(each.kernels for each in self.standings)))

    @property
    def fails_mostly(self) -> bool:
        """True if models meet failures in at least half of the kernels."""
        return bool(self.deciding) and 2 * len(self.deciding) >= len(self.kernel_names)

    @cached_property
    def unusable(self) -> frozenset[str]:
        """The kernels that no compiled release compiles: the package's own failures."""
        return frozenset(each.kernel for each in package_failures(self.standings))

    @property
    def is_mostly_unusable(self) -> bool:
        """True if no release compiles more than half of the kernels."""
        return 2 * len(self.unusable) > (self.kernels.of or len(self.kernel_names))

    @property
    def unusable_share(self) -> str:
        """`7 of 9 kernels`."""
        of = self.kernels.of or len(self.kernel_names)
        return f"{len(self.unusable)} of {count_noun(of, 'kernel')}"

    @property
    def problems(self) -> int:
        """The number of failing kernels that models meet, with the weight of the advisories."""
        return len(self.deciding) + weight_of(self.advisories)

    @property
    def verdict(self) -> VerdictWord:
        """The verdict on the release alone."""
        if self.deciding:
            return VerdictWord.NO
        if self.is_open:
            return VerdictWord.UNKNOWN
        if self.failures or self.advisories or self.is_mostly_unusable:
            return VerdictWord.YES_BUT
        return VerdictWord.YES

    @property
    def defects(self) -> str:
        """The failing operators and the number of advisories; empty without any."""
        names = dict.fromkeys(each.name for each in self.deciding)
        for each in self.restrictions:
            if each.operator not in names:
                names[each.name] = None
        parts = []
        if names:
            parts.append(f"all but {', '.join(some(list(names), _NAMED))}")
        if self.advisories:
            number = count_noun(len(self.advisories), "advisory", "advisories")
            parts.append(f"{number} on wrong results or crashes")
        return "; ".join(parts)

    def points(self) -> list[Point]:
        """Return what is wrong with the release, worst first."""
        points = self._failure_points(self.deciding)
        points += [Point(f"{each.what}.", f"{each.remedy}.") for each in self.advisories]
        points += self.further
        return points + self._failure_points(self.failures[len(self.deciding) :])

    def _failure_points(self, failures: Iterable[WeighedFailure]) -> list[Point]:
        """Return a point for each cause, with the operators that it concerns."""
        groups = group_by_key(((each.code, each.remedy), each) for each in failures)
        points = []
        for (code, remedy), alike in groups.items():
            names = list(dict.fromkeys(each.name for each in alike))
            verb = "fails" if len(names) == 1 else "fail"
            title = RULES[code].title if code in RULES else alike[0].line
            text = f"{', '.join(some(names, 3))} {verb} with {code}, {title}"
            setting = self.remedies.get(alike[0].kernel) if len(alike) == 1 else None
            points.append(Point(text, remedy or setting or "take another release, or do without"))
        return points


def weight_of(against: Sequence[Advisory]) -> int:
    """Return the number of advisories; wrong results count twice, since nothing shows them."""
    return sum(1 + (each.effect is Effect.WRONG_RESULTS) for each in against)


def candidates(
    standings: Iterable[Standing], remedies: Mapping[str, str] | None = None
) -> list[RankedRelease]:
    """Return the releases of some judged standings, best first."""
    groups = group_by_key(((each.question.about, each.toolchain), each) for each in standings)
    releases = []
    for (about, toolchain), own in groups.items():
        # A GPU that the release does not support has skipped cells alone.
        own = [each for each in own if each.state is not StandingState.NO_RECORD] or own
        releases.append(RankedRelease(about, toolchain, tuple(own), remedies or {}))
    newest_first = sorted(releases, key=_by_age, reverse=True)
    return sorted(newest_first, key=_by_merit)


def _by_age(candidate: RankedRelease) -> tuple[object, ...]:
    return by_version(candidate.about), by_version(candidate.toolchain)


def _by_merit(candidate: RankedRelease) -> tuple[object, ...]:
    return (
        candidate.is_open,
        candidate.fails_mostly,
        -len(candidate.targets),
        candidate.problems,
        len(candidate.failures),
    )


def run_answer(standings: Sequence[Standing], remedies: Mapping[str, str]) -> Answer:
    """Return the answer of a run: the best of its releases."""
    if not standings:
        text = "this run covers no subject completely, so no release has a result"
        return make_answer(VerdictWord.UNKNOWN, text, (), _RESUME)
    return best_answer(candidates(standings, remedies), resume=_RESUME)


def best_answer(
    ranked: Sequence[RankedRelease], next: tuple[str, ...] = (), resume: str = ""
) -> Answer:
    """Return the answer to "which release works?" by releases, best first (not empty).

    `resume` is the advice if no release has a complete result; by default the scan of the subject.
    """
    best = ranked[0]
    subject = f"{best.about.replace('==', ' ')} on {', '.join(some(best.targets, 2))}"
    points = (*best.points(), *_untested(best), *_other_versions(ranked))
    recommendation = f"pin {best.pin}"
    if best.defects:
        recommendation += f": {best.defects}"
    failing = len({each.kernel for each in best.failures})
    of = f"{failing} of {count_noun(len(best.kernel_names), 'kernel')}"
    number = f"{of} {'fails' if failing == 1 else 'fail'}"
    if best.is_open and not best.fails_mostly:
        words = VerdictWord.UNKNOWN
        text = f"no release has a complete result about {subject}"
        if failing:
            text += f"; so far {number}"
        command = scan_command(best.about, best.toolchain, ",".join(best.targets))
        recommendation = resume or f"scan it here: {command}"
    elif best.fails_mostly:
        words = VerdictWord.NO
        text = f"under the best release for {subject}, {best.label}, {number}"
    elif best.restrictions:
        words = VerdictWord.YES_BUT
        names = dict.fromkeys(each.name for each in best.deciding or best.restrictions)
        text = f"not {', '.join(some(list(names), 1))}: {best.label} is the best release for "
        text += subject
        if len(f"{words.value} {text}; {number}".split()) <= MOST_WORDS:
            text += f"; {number}"
    elif best.advisories:
        words = VerdictWord.YES_BUT
        text = f"with {count_noun(len(best.advisories), 'advisory', 'advisories')}: "
        text += f"{best.label} is the best release for {subject}"
    else:
        words, text = _working(best, failing, subject)
    return make_answer(words, text, points, recommendation, next)


def _working(best: RankedRelease, failing: int, subject: str) -> tuple[VerdictWord, str]:
    """Return the sentence about a release under which all kernels that models launch compile."""
    if best.failures:
        rare = f"{count_noun(failing, 'kernel fails', 'kernels fail')} that models do not meet"
        return VerdictWord.YES_BUT, f"{rare}: {subject} compiles under {best.label}"
    if best.is_mostly_unusable:
        text = f"{best.unusable_share} compile under no release: {best.label} is as good as "
        return VerdictWord.YES_BUT, f"{text}any for {subject}"
    number = "1 kernel compiles" if best.kernels.of == 1 else f"{best.kernels} kernels compile"
    others = f"{len(best.unusable)} under no release" if best.unusable else "none fails"
    return VerdictWord.YES, f"{subject} compiles under {best.label}: {number}, {others}"


def _untested(best: RankedRelease) -> list[Point]:
    kernels: set[str] = set()
    for standing in best.standings:
        kernels |= standing.untested_kernels
    if not kernels:
        return []
    number = count_noun(len(kernels), "kernel was", "kernels were")
    return [Point(f"{number} not tested", "flacheck capture records the launches of a program")]


def scan_command(about: str, toolchain: str, target: str, kernel: str = "") -> str:
    """Return the command that compiles a subject, or one kernel of it, for a place."""
    subject = f"--package {about}" if "==" in about else about
    name, release = split(toolchain)
    compiler = f"--triton {release}" if name == "triton" else f"--toolchain {toolchain}"
    command = f"flacheck scan {subject} {compiler} --target {target}"
    return f"{command} --kernel {kernel_name(kernel)}" if kernel else command


def look_at(candidate: RankedRelease, failures: Sequence[WeighedFailure]) -> Iterator[str]:
    """Yield the commands that explain the first failure and compile its kernel.

    The scan's report goes on with `bisect` and `repro`, by the key of the cell.
    """
    for failure in failures[:1]:
        yield f"flacheck explain {failure.code}"
        if kernel_name(failure.kernel) != "__init__":
            place = (candidate.toolchain, candidate.targets[0])
            yield scan_command(candidate.about, *place, failure.kernel)


def _other_versions(ranked: Sequence[RankedRelease]) -> list[Point]:
    """Return a point for each other version of the package, with its best release."""
    points = {}
    for each in ranked:
        if each.about != ranked[0].about and each.about not in points:
            state = each.defects or "nothing fails"
            points[each.about] = Point(f"{each.about}: best under {each.label}: {state}")
    return list(points.values())
