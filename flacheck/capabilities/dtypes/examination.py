"""From a question to a result: followed, judged, mended in a copy, cures tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.capabilities.dtypes import autofix, costs, expressions, following, heads
from flacheck.capabilities.dtypes.autofix import FixResult
from flacheck.capabilities.dtypes.costs import CostBench
from flacheck.capabilities.dtypes.finding import DtypeFinding
from flacheck.capabilities.dtypes.following import DtypesAnswer, DtypesQuestion
from flacheck.capabilities.dtypes.observation import Mode
from flacheck.capabilities.dtypes.result import Cure, DtypesResult, NotFollowed, split_subjects
from flacheck.captures.cards import card
from flacheck.errors import IncompleteError, UsageError
from flacheck.inputs.launches import RecordedLaunch
from flacheck.toolchains.scratch import temporary_folder

# Of several dtypes of autocast, the one that needs no loss scaling.
_RANGE = "bf16"


@dataclass(frozen=True)
class Experiments:
    """What is tried beside following: casts in a copy and other cures (`mend`), the shared memory
    that kernels take (on a `bench`), and the largest heads that fit on GPUs (`heads_on`)."""

    mend: bool = True
    bench: CostBench | None = None
    heads_on: tuple[str, ...] = ()


def examine(question: DtypesQuestion, tries: Experiments | None = None) -> DtypesResult:
    """Follow what is asked and judge it; then try what is to be tried.

    Raises UsageError or IncompleteError for a target that cannot be followed.
    """
    tries = tries or Experiments()
    # A file may have changed since the last examination.
    expressions.read_source.cache_clear()
    asked = question.modes
    is_one = bool(question.targets or question.script)
    cures = [mode for mode in _other_modes(asked) if is_one and tries.mend]
    with temporary_folder() as name:
        folder = Path(name)
        everything = replace(question, modes=(*asked, *cures))
        answer = following.follow(everything, folder)
        found = [autofix.add_fix(each) for each in following.findings(answer, asked)]
        subjects = answer.observation.subjects
        followed, missing = split_subjects(subjects, asked)
        result = DtypesResult(
            about=following.describe_question(question),
            modes=asked,
            findings=tuple(found),
            launch_counts=followed,
            not_followed=tuple(missing),
            late=answer.observation.late,
            stand_ins={each.name: each.stand_ins for each in subjects if each.stand_ins},
            modules=answer.observation.modules,
        )
        _check(question, result)
        narrowed = replace(question, targets=_targets(question, found))
        if tries.bench is not None:
            entries = costs.read_launches(answer)
            found = _with_beyond(narrowed, found, entries, folder)
            target = card(question.device)["name"]
            found = costs.add_costs(found, entries, tries.bench, target)
            result = replace(result, findings=tuple(found))
        if tries.bench is not None and tries.heads_on:
            concerned = heads.find_concerns(found, subjects, asked)
            rows = heads.measure_heads(narrowed, concerned, tries.bench, folder, tries.heads_on)
            result = replace(result, heads=tuple(rows))
        if not found or not tries.mend:
            return result
        mended = autofix.fix(narrowed, found, folder)
        tried = [_cure_by(answer, mode, missing) for mode in cures if mode not in asked]
        if mended.diff:
            tried.insert(_place_of_cast(tried), Cure(_cast(mended), len(mended.remaining)))
        everything_found = (*result.findings, *mended.behind)
        # The cheapest cure first; what does not cure, behind those that do.
        tried.sort(key=lambda cure: cure.remaining > 0)
        return replace(result, findings=everything_found, fix_result=mended, cures=tuple(tried))


def _with_beyond(
    question: DtypesQuestion,
    found: Sequence[DtypeFinding],
    entries: dict[str, RecordedLaunch],
    folder: Path,
) -> list[DtypeFinding]:
    """The findings, those that end a run by an assertion with the kernels that would be reached
    without it; `entries` gets the launches of these."""
    ended = [
        each for each in found if each.error_at_end is not None and each.error_at_end.is_assertion
    ]
    if not ended:
        return list(found)
    modes = [mode for mode in question.modes if str(mode) in {each.mode for each in ended}]
    answer = following.follow(replace(question, modes=tuple(modes), asserts=False), folder)
    entries.update(costs.read_launches(answer))
    without = following.findings(answer, modes)
    reached = {(each.subject, each.mode, each.identity): each.reached_kernels for each in without}
    completed = []
    for each in found:
        beyond = reached.get((each.subject, each.mode, each.identity), ())
        if each in ended:
            each = replace(each, beyond=beyond)
        completed.append(each)
    return completed


def _targets(question: DtypesQuestion, found: Sequence[DtypeFinding]) -> tuple[str, ...]:
    """What is run again: the targets asked, or those layers of a package with findings."""
    if question.targets or question.script:
        return question.targets
    return tuple(dict.fromkeys(each.subject for each in found))


def _other_modes(asked: Sequence[Mode]) -> list[Mode]:
    """Settings that may do instead of a cast, the smaller change first: another dtype of autocast
    is a word, parameters in half precision are another way to train."""
    under = [mode for mode in asked if mode.autocast != "off"]
    if not under:
        return []
    return [Mode(_RANGE, under[0].params), Mode(_RANGE, _RANGE)]


def _cure_by(answer: DtypesAnswer, mode: Mode, before: Sequence[NotFollowed]) -> Cure:
    """What is left in another mode; an error that was not there before is left as well."""
    left = len(following.findings(answer, [mode]))
    _, missing = split_subjects(answer.observation.subjects, [mode])
    known = {(each.subject, each.reason) for each in before}
    new = [each for each in missing if (each.subject, each.reason) not in known]
    return Cure(str(mode), left + len(new))


def _place_of_cast(tried: Sequence[Cure]) -> int:
    """Behind the other dtype of autocast, before parameters in half precision."""
    return min(1, len([each for each in tried if "fp32 parameters" in each.name]))


def _cast(mended: FixResult) -> str:
    edits = mended.diff.count("\n+") - mended.diff.count("\n+++")
    if edits == 1:
        return "the cast of one line, applied in a copy"
    return f"casts of {edits} lines, applied in a copy"


def _check(question: DtypesQuestion, result: DtypesResult) -> None:
    """A target that gives no answer is an error with what to do about it."""
    if not (question.targets or question.script) or result.findings:
        return
    for missing in result.not_followed:
        if question.script:
            raise IncompleteError(
                f"{missing.subject}: raised {missing.reason}, in its {missing.stage} pass"
            )
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
            f"{', '.join(silent)}: launches no Triton kernel, so there is no dtype to follow to one"
        )
