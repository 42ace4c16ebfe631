"""The result of a comparison: its facts with the answer, the exit code and the JSON."""

from dataclasses import dataclass
from functools import cached_property

from msgspec import structs

from flacheck.capabilities.diff.answer import answer_of
from flacheck.capabilities.diff.differences import DifferenceKind
from flacheck.capabilities.diff.document import (
    ComparedKernels,
    DiffAdvisories,
    DiffDocument,
    DiffFailures,
    MovedKernel,
    diff_failures,
    diff_rows,
    diff_side,
    grown_rows,
    slower_rows,
)
from flacheck.capabilities.diff.facts import ComparedSides
from flacheck.errors import Exit
from flacheck.model import Json
from flacheck.model.answer import Answer


@dataclass(frozen=True)
class Comparison(ComparedSides):
    """A comparison with its answer."""

    @cached_property
    def in_words(self) -> Answer:
        """The answer with its points and its recommendation."""
        return answer_of(self)

    @property
    def answer(self) -> str:
        """The answer in one sentence."""
        return self.in_words.answer

    def exit_code(self, strict: bool = False) -> Exit:
        """Return the exit code: findings first; `strict` also counts missing verdicts."""
        if not self.changes and not self.refusals:
            return Exit.EMPTY
        if self.is_regression:
            return Exit.FINDINGS
        sides = (self.before, self.after)
        if any(side.missing or not side.is_answered for side in sides):
            return Exit.INCOMPLETE
        gaps = (*self.kernels.not_launched, *self.kernels.not_reached)
        if strict and (gaps or self.of(DifferenceKind.UNKNOWN)):
            return Exit.INCOMPLETE
        return Exit.OK

    def to_json(self) -> Json:
        """Return the document flacheck.diff/1."""
        before, after = self.advisories
        kernels = ComparedKernels(
            compiled=len(self.kernels.compiled_before),
            still_compile=self.kernels.still,
            untested=len(self.kernels.not_tested),
            untested_names=tuple(sorted(self.kernels.not_tested)),
        )
        advisories = DiffAdvisories(
            tuple(advisory.published() for advisory in before),
            tuple(advisory.published() for advisory in after),
        )
        document = DiffDocument.from_value(
            self,
            **structs.asdict(self.in_words),
            schema="flacheck.diff/1",
            narrowed=self.is_narrowed,
            before=diff_side(self.before),
            after=diff_side(self.after),
            kernels=kernels,
            regressed=diff_rows(self.of(DifferenceKind.REGRESSED)),
            mended=diff_rows(self.of(DifferenceKind.MENDED)),
            changed_cause=diff_rows(self.of(DifferenceKind.CHANGED_CAUSE)),
            slower=slower_rows(self.slower),
            more_resources=grown_rows(self.more_resources),
            unchanged=diff_rows(self.without_change),
            unknown=diff_rows(self.of(DifferenceKind.UNKNOWN)),
            untested=diff_rows(self.of(DifferenceKind.UNTESTED)),
            only_from=diff_rows(self.of(DifferenceKind.ONLY_FROM)),
            only_to=diff_rows(self.of(DifferenceKind.ONLY_TO)),
            advisories=advisories,
            failures=DiffFailures(*(diff_failures(cells) for cells in self.failures)),
            moved=tuple(MovedKernel(*names) for names in self.moved),
            fallbacks=tuple(fallback.reported() for fallback in self.fallbacks),
            source="published" if self.published else "own",
        )
        return document.to_json()
