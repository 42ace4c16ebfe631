"""The result of `flacheck dtypes` as one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flacheck.capabilities.dtypes import judging
from flacheck.capabilities.dtypes.autofix import FixResult
from flacheck.capabilities.dtypes.finding import DtypeFinding, to_json_list
from flacheck.capabilities.dtypes.heads import HeadNeeds
from flacheck.capabilities.dtypes.observation import Mode, ObservedError, ObservedSubject
from flacheck.errors import Exit
from flacheck.model import Json


@dataclass(frozen=True)
class NotFollowed:
    """A subject that failed in a mode, and the error that ended it."""

    subject: str
    mode: Mode
    stage: str
    reason: str

    def to_json(self) -> Json:
        return {
            "subject": self.subject,
            "mode": str(self.mode),
            "stage": self.stage,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Cure:
    """A change that was tried against the findings, and the number of findings that remain."""

    name: str
    remaining: int

    def to_json(self) -> Json:
        return {"cure": self.name, "findings_left": self.remaining}


@dataclass(frozen=True)
class DtypesResult:
    """The result of `flacheck dtypes`.

    `launch_counts` has the subjects that were followed with the number of their launches, `late`
    those that the time limit excluded. `stand_ins` are the modules that were replaced to follow a
    subject; `modules` those whose import failed, with the reason.
    """

    about: str
    modes: tuple[Mode, ...]
    findings: tuple[DtypeFinding, ...]
    launch_counts: dict[str, int]
    not_followed: tuple[NotFollowed, ...] = ()
    late: tuple[str, ...] = ()
    stand_ins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    fix_result: FixResult | None = None
    cures: tuple[Cure, ...] = ()
    heads: tuple[HeadNeeds, ...] = ()

    @property
    def new(self) -> list[DtypeFinding]:
        """The findings that no baseline lists."""
        return [each for each in self.findings if not each.is_known]

    @property
    def exit_code(self) -> Exit:
        """FINDINGS if a finding is new, INCOMPLETE if nothing was followed."""
        if self.new:
            return Exit.FINDINGS
        if not self.launch_counts and not self.findings:
            return Exit.INCOMPLETE
        return Exit.OK

    def to_json(self) -> Json:
        fix_value = None
        if self.fix_result is not None:
            fix_value = {
                "diff": self.fix_result.diff,
                "findings_left": len(self.fix_result.remaining),
                "without_a_cast": len(self.fix_result.not_fixed),
            }
        stand_ins = {}
        for name, modules in self.stand_ins.items():
            stand_ins[name] = list(modules)
        return {
            "about": self.about,
            "modes": list(map(str, self.modes)),
            "findings": to_json_list(self.findings),
            "followed": self.launch_counts,
            "not_followed": to_json_list(self.not_followed),
            "late": list(self.late),
            "stand_ins": stand_ins,
            "not_imported": dict(self.modules),
            "mended": fix_value,
            "cures": to_json_list(self.cures),
            "head_sizes": to_json_list(self.heads),
        }


def split_subjects(
    subjects: Sequence[ObservedSubject], modes: Sequence[Mode]
) -> tuple[dict[str, int], list[NotFollowed]]:
    """Return the launch counts of followed subjects, and the subjects with a failed pass.

    A subject counts as followed if its forward pass works in every mode.
    """
    launch_counts: dict[str, int] = {}
    without_answer = []
    for subject in subjects:
        launches = 0
        errors: list[tuple[Mode, ObservedError]] = []
        for mode in modes:
            error = judging.find_failure(subject, mode)
            if error is not None:
                errors.append((mode, error))
            for run in subject.runs:
                if run.mode == mode:
                    launches += len(run.order)
        for mode, error in errors[:1]:
            without_answer.append(NotFollowed(subject.name, mode, error.stage, error.brief))
        # An error of the backward pass leaves the forward pass followed.
        if all(error.stage == "backward" for _, error in errors):
            launch_counts[subject.name] = launches
    return launch_counts, without_answer
