"""From a question to a result: followed, judged, mended in a copy, cures tried."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flacheck.dtypes import expressions, following, mending
from flacheck.dtypes.finding import DtypeFinding
from flacheck.dtypes.following import DtypesAnswer, DtypesQuestion
from flacheck.dtypes.mending import Mended
from flacheck.dtypes.observed import Mode
from flacheck.dtypes.result import Cure, DtypesResult, NotFollowed, sorted_out
from flacheck.errors import IncompleteError, UsageError

# Of several dtypes of autocast, the one that needs no loss scaling.
_RANGE = "bf16"


def examine(question: DtypesQuestion, mend: bool = True) -> DtypesResult:
    """Follow what is asked and judge it; with `mend`, try casts in a copy, and other cures.

    Raises UsageError or IncompleteError for a target that cannot be followed.
    """
    # A file may have changed since the last examination.
    expressions.source_file.cache_clear()
    asked = question.modes
    cures = [mode for mode in _other_modes(asked) if question.targets and mend]
    with tempfile.TemporaryDirectory(prefix="flacheck-dtypes-") as name:
        folder = Path(name)
        everything = replace(question, modes=(*asked, *cures))
        answer = following.follow(everything, folder)
        found = [mending.with_fix(each) for each in following.findings(answer, asked)]
        followed, missing = sorted_out(answer.observation.subjects, asked)
        result = DtypesResult(
            about=", ".join(question.targets) or _about(question),
            modes=asked,
            findings=tuple(found),
            followed=followed,
            not_followed=tuple(missing),
            late=answer.observation.late,
        )
        _check(question, result)
        if not found or not mend:
            return result
        narrowed = replace(question, targets=_targets(question, found))
        mended = mending.mend(narrowed, found, folder)
        tried = [_cure_by(answer, mode, missing) for mode in cures if mode not in asked]
        tried.insert(_place_of_cast(tried), Cure(_cast(mended), len(mended.left)))
        everything_found = (*result.findings, *mended.behind)
        return replace(result, findings=everything_found, mended=mended, cures=tuple(tried))


def _about(question: DtypesQuestion) -> str:
    if question.package is None:
        return ""
    return f"all layers of {question.package.identity}"


def _targets(question: DtypesQuestion, found: Sequence[DtypeFinding]) -> tuple[str, ...]:
    """What is run again: the targets asked, or those layers of a package with findings."""
    if question.targets:
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
    _, missing = sorted_out(answer.observation.subjects, [mode])
    known = {(each.subject, each.reason) for each in before}
    new = [each for each in missing if (each.subject, each.reason) not in known]
    return Cure(str(mode), left + len(new))


def _place_of_cast(tried: Sequence[Cure]) -> int:
    """Behind the other dtype of autocast, before parameters in half precision; what does not cure
    comes last anyway in a reader's eye, so the order stays."""
    return min(1, len([each for each in tried if "fp32 parameters" in each.name]))


def _cast(mended: Mended) -> str:
    edits = mended.diff.count("\n+") - mended.diff.count("\n+++")
    if edits == 1:
        return "the cast of one line, applied in a copy"
    return f"casts of {edits} lines, applied in a copy"


def _check(question: DtypesQuestion, result: DtypesResult) -> None:
    """A target that gives no answer is an error with what to do about it."""
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
    silent = [name for name, launches in result.followed.items() if not launches]
    if silent:
        raise IncompleteError(
            f"{', '.join(silent)}: launches no Triton kernel, so there is no dtype to follow to one"
        )
