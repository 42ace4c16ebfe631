"""The result of `flacheck dtypes` as one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from flacheck.capabilities.dtypes import judging
from flacheck.capabilities.dtypes.finding import DtypeFinding, FindingDocument
from flacheck.capabilities.dtypes.heads import HeadNeeds, HeadsDocument
from flacheck.capabilities.dtypes.observation import Mode, ObservedError, ObservedSubject
from flacheck.errors import Exit
from flacheck.model import Json
from flacheck.model.wire import JsonStruct, Natural


class NotFollowed(JsonStruct, frozen=True):
    """A subject that failed in a mode, and the error that ended it."""

    subject: str
    mode: str
    stage: Annotated[str, Meta(pattern="^(build|arguments|forward|backward)$")]
    reason: str


class Cure(JsonStruct, frozen=True):
    """A mode that was tried against the findings, and the number of findings that remain."""

    name: str = msgspec.field(name="cure")
    remaining: Natural = msgspec.field(name="findings_left")


class DtypesDocument(JsonStruct, frozen=True):
    """Broken dtype contracts under mixed precision, each with the line that breaks it.

    `about` names the targets, or the package whose layers were followed; `followed` has each
    subject with the number of its launches; `late` are those that the time limit excluded.
    `stand_ins` are, by subject, the modules that are not installed and were replaced;
    `not_imported` are the modules whose import failed, with the reason. `cures` were tried against
    the findings, the smallest change first. `head_sizes` (--shared) are the kernels that promoted
    tensors reach, without findings all that were launched.
    """

    schema: Literal["flacheck.dtypes/1"]
    about: str
    modes: tuple[str, ...]
    findings: tuple[FindingDocument, ...]
    followed: dict[str, Natural]
    not_followed: tuple[NotFollowed, ...]
    late: tuple[str, ...]
    stand_ins: Mapping[str, tuple[str, ...]]
    not_imported: Mapping[str, str]
    cures: tuple[Cure, ...]
    head_sizes: tuple[HeadsDocument, ...]


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
    cures: tuple[Cure, ...] = ()
    heads: tuple[HeadNeeds, ...] = ()

    @property
    def exit_code(self) -> Exit:
        """FINDINGS if there is one, INCOMPLETE if nothing was followed."""
        if self.findings:
            return Exit.FINDINGS
        if not self.launch_counts:
            return Exit.INCOMPLETE
        return Exit.OK

    def to_json(self) -> Json:
        """Return the document flacheck.dtypes/1."""
        document = DtypesDocument.from_value(
            self,
            schema="flacheck.dtypes/1",
            modes=tuple(map(str, self.modes)),
            findings=tuple(finding.document() for finding in self.findings),
            followed=self.launch_counts,
            not_imported=self.modules,
            head_sizes=tuple(each.document() for each in self.heads),
        )
        return document.to_json()


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
            without_answer.append(NotFollowed(subject.name, str(mode), error.stage, error.brief))
        # An error of the backward pass leaves the forward pass followed.
        if all(error.stage == "backward" for _, error in errors):
            launch_counts[subject.name] = launches
    return launch_counts, without_answer
