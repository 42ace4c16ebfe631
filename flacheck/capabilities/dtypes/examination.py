"""Steps of an examination: follow the targets, judge, try cures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.capabilities.dtypes import costs, expressions, following, heads, refusals
from flacheck.capabilities.dtypes.costs import CostBench
from flacheck.capabilities.dtypes.finding import DtypeFinding
from flacheck.capabilities.dtypes.following import DtypesAnswer, DtypesQuestion
from flacheck.capabilities.dtypes.observation import Mode
from flacheck.capabilities.dtypes.result import Cure, DtypesResult, split_subjects
from flacheck.errors import IncompleteError, UsageError
from flacheck.subjects.captures.cards import card
from flacheck.subjects.inputs.launches import RecordedLaunch
from flacheck.toolchains.scratch import temporary_folder

# Returns the findings of a run in some modes.
Judge = Callable[[DtypesAnswer, Sequence[Mode]], list[DtypeFinding]]

# The autocast dtype that needs no loss scaling.
_RANGE = "bf16"


def _ignore(finding: DtypeFinding) -> None:
    """Ignore a finding."""


@dataclass(frozen=True)
class Experiments:
    """Experiments to run after the targets were followed.

    A `bench` compiles the launches with mixed dtypes; with `costs` it also measures the shared
    memory that kernels take, and with `heads_on` the largest heads that fit on these GPUs.
    """

    bench: CostBench | None = None
    heads_on: tuple[str, ...] = ()
    costs: bool = True


def examine(
    question: DtypesQuestion,
    experiments: Experiments | None = None,
    announce: Callable[[DtypeFinding], None] = _ignore,
) -> DtypesResult:
    """Follow the targets of a question, judge what is seen, and run the experiments.

    `announce` receives each finding as soon as it is known, before any experiment.

    Raises UsageError or IncompleteError for a target that cannot be followed.
    """
    experiments = experiments or Experiments()
    bench = experiments.bench
    # A file may have changed since the last examination.
    expressions.read_source.cache_clear()
    other_modes: list[Mode] = []
    if question.targets:
        other_modes = _other_modes(question.modes)
    with temporary_folder() as name:
        folder = Path(name)
        everything = replace(question, modes=(*question.modes, *other_modes))
        answer = following.follow(everything, folder)
        judge: Judge = following.findings
        for finding in judge(answer, question.modes):
            announce(finding)
        if bench is not None:
            target = card(question.device)["name"]
            bench.choose_release(costs.read_launches(answer).values(), target)
            judge = _Compiling(bench, target, announce).findings
        result = _judge(question, answer, judge)
        _check(question, result)
        findings = list(result.findings)
        rerun = replace(question, targets=_targets(question, findings))
        if bench is not None and (experiments.costs or experiments.heads_on):
            launches = costs.read_launches(answer)
            findings = _add_kernels_beyond(rerun, findings, launches, folder)
            if experiments.costs:
                findings = costs.add_costs(findings, launches, bench, target)
            result = replace(result, findings=tuple(findings))
        if bench is not None and experiments.heads_on:
            concerns = heads.find_concerns(findings, answer.observation.subjects, question.modes)
            rows = heads.measure_heads(rerun, concerns, bench, folder, experiments.heads_on)
            result = replace(result, heads=tuple(rows))
        if not findings:
            return result
        if bench is not None:
            # Findings in other modes are not the user's.
            judge = _Compiling(bench, target).findings
        return replace(result, cures=tuple(_cures(answer, result, other_modes, judge)))


@dataclass(frozen=True)
class _Compiling:
    """Findings with those of launches that a compiler refuses for their mixed dtypes."""

    bench: CostBench
    target: str
    announce: Callable[[DtypeFinding], None] = _ignore

    def findings(self, answer: DtypesAnswer, modes: Sequence[Mode]) -> list[DtypeFinding]:
        """Return the findings of every subject, those of refused launches last."""
        findings = following.findings(answer, modes)
        more_findings = refusals.find_refused(
            answer.observation.subjects,
            modes,
            findings,
            costs.read_launches(answer),
            self.bench,
            self.target,
            answer.display_path,
        )
        for finding in more_findings:
            self.announce(finding)
        return [*findings, *more_findings]


def _judge(question: DtypesQuestion, answer: DtypesAnswer, judge: Judge) -> DtypesResult:
    """Return the findings of a run and the failed subjects, before any experiment."""
    observation = answer.observation
    findings = judge(answer, question.modes)
    launch_counts, not_followed = split_subjects(observation.subjects, question.modes)
    stand_ins = {each.name: each.stand_ins for each in observation.subjects if each.stand_ins}
    return DtypesResult(
        about=following.describe_question(question),
        modes=question.modes,
        findings=tuple(findings),
        launch_counts=launch_counts,
        not_followed=tuple(not_followed),
        late=observation.late,
        stand_ins=stand_ins,
        modules=observation.modules,
    )


def _add_kernels_beyond(
    question: DtypesQuestion,
    findings: Sequence[DtypeFinding],
    launches: dict[str, RecordedLaunch],
    folder: Path,
) -> list[DtypeFinding]:
    """Return the findings, with the kernels that a run without assertions reaches.

    Only findings whose run ends in an assertion change. The launches of the new run are added to
    `launches`.
    """
    findings_of_assertions = []
    for each in findings:
        if each.error_at_end is not None and each.error_at_end.is_assertion:
            findings_of_assertions.append(each)
    if not findings_of_assertions:
        return list(findings)
    mode_names = {each.mode for each in findings_of_assertions}
    modes = [mode for mode in question.modes if str(mode) in mode_names]
    answer = following.follow(replace(question, modes=tuple(modes), asserts=False), folder)
    launches.update(costs.read_launches(answer))
    kernels = {}
    for each in following.findings(answer, modes):
        kernels[each.subject, each.mode, each.identity] = each.reached_kernels
    completed_findings = []
    for each in findings:
        if each in findings_of_assertions:
            key = (each.subject, each.mode, each.identity)
            each = replace(each, beyond=kernels.get(key, ()))
        completed_findings.append(each)
    return completed_findings


def _targets(question: DtypesQuestion, findings: Sequence[DtypeFinding]) -> tuple[str, ...]:
    """Return the targets to run again: those of the question, or the layers with findings."""
    if question.targets:
        return question.targets
    return tuple(dict.fromkeys(each.subject for each in findings))


def _other_modes(modes: Sequence[Mode]) -> list[Mode]:
    """Return modes to try as cures, the smaller change first.

    Another autocast dtype is one word; parameters in half precision are another way to train.
    """
    for mode in modes:
        if mode.autocast != "off":
            return [Mode(_RANGE, mode.params), Mode(_RANGE, _RANGE)]
    return []


def _cures(
    answer: DtypesAnswer,
    result: DtypesResult,
    modes: Sequence[Mode],
    judge: Judge,
) -> list[Cure]:
    """Return the cures with what each leaves, the cheapest first."""
    cures = []
    for mode in modes:
        if mode not in result.modes:
            cures.append(_cure_by(answer, mode, result.modes, judge))
    # A cure that leaves findings comes after those that leave none.
    cures.sort(key=lambda cure: cure.remaining > 0)
    return cures


def _cure_by(answer: DtypesAnswer, mode: Mode, before: Sequence[Mode], judge: Judge) -> Cure:
    """Return what another mode leaves: findings, and errors that did not occur before."""
    findings = judge(answer, [mode])
    known_errors = following.find_errors(answer, before)
    new_errors = following.find_new_errors(answer, known_errors, findings, [mode])
    return Cure(str(mode), len(findings) + len(new_errors))


def _check(question: DtypesQuestion, result: DtypesResult) -> None:
    """Raise an error if a single target was not followed."""
    if not question.targets or result.findings:
        return
    for missing in result.not_followed:
        if missing.stage in ("build", "arguments"):
            raise UsageError(
                f"{missing.subject}: its constructor raised {missing.reason}; give its arguments "
                "with --arg NAME=VALUE"
            )
        if missing.stage == "forward":
            raise IncompleteError(
                f"{missing.subject}: its forward pass raised {missing.reason}, also without mixed "
                "dtypes; give its arguments with --arg NAME=VALUE"
            )
    silent = [name for name, launches in result.launch_counts.items() if not launches]
    if silent:
        raise IncompleteError(
            f"{', '.join(silent)}: launches no Triton kernel, so no dtypes reach a kernel"
        )
