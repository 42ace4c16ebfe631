"""The result of a comparison: a summary sentence, the exit code, the pin and the JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from packaging.version import Version

from flacheck.capabilities.diff.compared_side import (
    AdvisedPin,
    ComparedSide,
    advise_pin,
    exactly,
)
from flacheck.capabilities.diff.differences import Difference, DifferenceKind
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
from flacheck.capabilities.diff.package_view import PackageNotice
from flacheck.capabilities.diff.tally import KernelTally, tally_kernels
from flacheck.errors import Exit
from flacheck.evidence.analysis.compiled_sizes import CompiledSizes, name_sizes
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.analysis.observation import ObservedCell, take_apart
from flacheck.evidence.analysis.order import count_noun, kernel_name, some, split, toolchain_label
from flacheck.evidence.published.answers import PublishedSource
from flacheck.model import Json, Record, Verdict
from flacheck.model.coverage import PackageCoverage
from flacheck.model.source_location import Locate, locate_nowhere
from flacheck.tables.advisories import Advisory

# The number of kernels that the summary sentence names.
_SHOWN_KERNELS = 3


@dataclass(frozen=True)
class Comparison:
    """A comparison of two sides.

    Attributes:
        before, after: The sides FROM and TO.
        about: The subject.
        targets: The targets.
        changes: The changes of all pairs.
        refusals: The package's refusals, as changes.
        advisories: The advisories against each side.
        package: The package's requirements, refusals and warnings.
        moved: The kernels that TO's release of the package has in another module, each with its
            name under FROM and under TO.
        fallbacks: The settings that compile in place of failing ones.
        others: Other Triton releases that compile all kernels of FROM, by stored results, with
            their torch releases, oldest first.
        configs: The compared configurations: `usual`, `edges` or `own`; None for stored cells.
        coverage: The kernels that a capture reached and missed.
        run: The run that compiled; None without one.
        failures: The failures under each side by all evidence about the subject: stored scans and
            published results, whatever configurations they cover.
        published: The published results that answer; None for records of the store.
        locate: Returns the file and line of a kernel.
    """

    before: ComparedSide
    after: ComparedSide
    about: str
    targets: tuple[str, ...]
    changes: tuple[Difference, ...]
    refusals: tuple[Difference, ...] = ()
    advisories: tuple[tuple[Advisory, ...], tuple[Advisory, ...]] = ((), ())
    package: tuple[PackageNotice, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    others: tuple[tuple[str, tuple[str, ...]], ...] = ()
    configs: str | None = None
    coverage: tuple[PackageCoverage, ...] = ()
    run: str | None = None
    failures: tuple[tuple[ObservedCell, ...], tuple[ObservedCell, ...]] = ((), ())
    published: PublishedSource | None = None
    locate: Locate = field(default=locate_nowhere, compare=False)

    def of(self, kind: DifferenceKind) -> list[Difference]:
        """Return the changes of a kind, the package's refusals among them."""
        return [change for change in (*self.refusals, *self.changes) if change.kind is kind]

    @property
    def slower(self) -> list[Difference]:
        """The slower compiles, the slowest first."""
        slow = [change for change in self.changes if change.slower]
        return sorted(slow, key=lambda change: -(change.slower or 0))

    @property
    def more_resources(self) -> list[Difference]:
        """The changes with more resources, more spills first, then by the largest growth."""
        return sorted((change for change in self.changes if change.takes_more), key=_growth)

    @property
    def without_change(self) -> list[Difference]:
        """The changes with the same verdict, cause and cost."""
        same = self.of(DifferenceKind.UNCHANGED)
        return [change for change in same if not (change.slower or change.takes_more)]

    @cached_property
    def kernels(self) -> KernelTally:
        """The outcome of each kernel."""
        return tally_kernels(self.changes)

    @cached_property
    def sizes(self) -> CompiledSizes | None:
        """The sizes of the compared launches; None if no kernel has a head size."""
        launches = {}
        for change in self.changes:
            for record in (change.pair.before, change.pair.after):
                if record is not None and record.launch is not None and _has_verdict(record):
                    launches[id(record.launch)] = record.launch
        parts = [take_apart(launch, {}) for launch in launches.values()]
        return name_sizes((each.head_size, each.is_packed) for each in parts)

    @property
    def is_regression(self) -> bool:
        """True if a kernel or call that worked under FROM fails, or is refused, under TO."""
        if self.kernels.refused_by_package or self.unmet or self.further_failing:
            return True
        return any(change.counts_against for change in (*self.refusals, *self.changes))

    @cached_property
    def further_failing(self) -> list[str]:
        """The kernels that fail under TO by other evidence alone, and not under FROM."""
        before, after = self.failures
        failing = {cell.kernel for cell in after} - {cell.kernel for cell in before}
        for change in (*self.refusals, *self.changes):
            record = change.pair.before
            if change.is_waived or (record is not None and record.verdict is Verdict.FAILS):
                failing.discard(change.kernel)
        return sorted(failing - set(self.kernels.failing))

    @property
    def unmet(self) -> list[PackageNotice]:
        """The requirements that FROM satisfies and TO does not."""
        return [
            word
            for word in self.package
            if word.kind == "requires" and word.under_to and not word.under_from
        ]

    @property
    def answer(self) -> str:
        """The summary in one sentence."""
        parts = [f"{self._change}{self._where}: {self._still_compiling}", *self._exceptions]
        if self.before.package and self.after.package:
            parts += self._gains
        for side in (self.before, self.after):
            if side.partial:
                parts.append(f"{side.name} is partial: {side.partial} cells answered")
        for side, advisories in zip((self.before, self.after), self.advisories):
            if advisories:
                parts.append(f"{side.release} is advised against: {_short(advisories)}")
        return "; ".join(parts)

    @property
    def _change(self) -> str:
        before, after = self.before, self.after
        if before.package and after.package:
            return self._change_of_package(before.package, after.package)
        plain = f"From {before.name} to {after.name}"
        if before.toolchain is None or after.toolchain is None:
            return plain
        compiler, old = split(before.toolchain)
        other, new = split(after.toolchain)
        # Another compiler, or the same release, is not an upgrade.
        if compiler != other or (old, before.torch) == (new, after.torch):
            return plain
        inner = f"{toolchain_label(before.toolchain)} → {new}"
        if before.torch is None or after.torch is None:
            return f"{_verb(old, new)} {inner}"
        if old == new:
            inner = f"{toolchain_label(after.toolchain)} in both"
        verb = _verb(before.torch, after.torch)
        return f"{verb} torch {before.torch} → {after.torch} ({inner})"

    def _change_of_package(self, before: str, after: str) -> str:
        """Return `Upgrading x 0.4.2 → 0.6.0 (Triton 3.6.0 in both)`."""
        name, old = split(before)
        _, new = split(after)
        compiler = toolchain_label(self.after.toolchain or "")
        if old == new:
            return f"From {before} to {after} ({compiler} in both)"
        return f"{_verb(old, new)} {name} {old} → {new} ({compiler} in both)"

    @property
    def _where(self) -> str:
        if not self.targets:
            return ""
        return f" on {', '.join(self.targets)}"

    @property
    def _still_compiling(self) -> str:
        total = len(self.kernels.compiled_before)
        if not total:
            return f"no kernel compiled under {self.before.release}"
        if total == 1:
            return f"{self.kernels.still} of 1 kernel that compiled still compiles"
        return f"{self.kernels.still} of {total} kernels that compiled still compile"

    @property
    def _exceptions(self) -> list[str]:
        kernels = self.kernels
        parts = []
        refusals = [change for change in self.refusals if change.kind is DifferenceKind.REGRESSED]
        if refusals:
            what = ", ".join(some(sorted(change.kernel for change in refusals), _SHOWN_KERNELS))
            parts.append(f"the package refuses {what} under {self.after.release}")
        for word in self.unmet:
            parts.append(f"{word.text}, which {self.after.release} does not satisfy")
        outcomes = (
            (kernels.failing, "no longer compiles", "no longer compile"),
            (kernels.refused_by_package, "is refused by the package", "are refused by the package"),
            (
                kernels.waived_failures,
                "fails, which a waiver lets pass",
                "fail, which waivers let pass",
            ),
            (kernels.not_launched, "is not launched any more", "are not launched any more"),
            (
                kernels.not_reached,
                "was not reached by the capture",
                "were not reached by the capture",
            ),
            (kernels.without_verdict, "has no verdict", "have no verdict"),
            (kernels.not_tested, "not tested", "not tested"),
        )
        for names, one, many in outcomes:
            if names:
                verb = many
                if len(names) == 1:
                    verb = one
                # By name, because stored and published results have other orders.
                shown_names = ", ".join(some(sorted(map(kernel_name, names)), _SHOWN_KERNELS))
                parts.append(f"{len(names)} {verb} ({shown_names})")
        if self.further_failing:
            number = count_noun(len(self.further_failing), "kernel fails", "kernels fail")
            shown_names = ", ".join(
                some(sorted(map(kernel_name, self.further_failing)), _SHOWN_KERNELS)
            )
            parts.append(f"{number} in configurations that are not compared ({shown_names})")
        return parts

    @property
    def _gains(self) -> list[str]:
        """The new, mended and moved kernels of the package's other release, in words."""
        parts = []
        if self.kernels.new:
            text = f"{len(self.kernels.new)} new"
            failing = self.kernels.new_failing
            if failing:
                names = ", ".join(some(sorted(map(kernel_name, failing)), _SHOWN_KERNELS))
                verb = "fails" if len(failing) == 1 else "fail"
                text += f", of which {len(failing)} {verb} ({names})"
            parts.append(text)
        mended = {change.kernel for change in self.of(DifferenceKind.MENDED)}
        if mended:
            names = ", ".join(some(sorted(map(kernel_name, mended)), _SHOWN_KERNELS))
            parts.append(f"{len(mended)} mended ({names})")
        if self.moved:
            parts.append(f"{len(self.moved)} moved to another module")
        return parts

    @property
    def pin(self) -> AdvisedPin:
        """The pin to recommend: TO if it is good, else FROM, else another release."""
        has_advisories = list(map(bool, self.advisories))
        before, after = self.before, self.after
        keeps = self._keeps_kernels
        if keeps and not has_advisories[1]:
            return advise_pin("to", after, self._reason_for_to)
        if before.can_be_pinned and not has_advisories[0] and not self.failures[0]:
            return advise_pin("from", before, self._reason_against_to)
        if self.others:
            triton, torches = self.others[-1]
            why = f"all that compiled under {before.release} compiles there, by stored results"
            return AdvisedPin("other", exactly("torch", torches[-1:]), f"triton=={triton}", why)
        if keeps and all(has_advisories):
            why = "both releases are advised against, and the kernels of this one compile"
            return advise_pin("to", after, why)
        why = "neither release is without a failure or an advisory"
        if before.partial or after.partial:
            why = "what is stored answers only a part of what was asked"
        elif not before.compiles and not after.compiles:
            why = "no kernel compiles under either release"
        return AdvisedPin("none", None, None, why)

    @property
    def _keeps_kernels(self) -> bool:
        """True if TO breaks no kernel and compiles some, of FROM's if FROM compiled any.

        By all evidence nothing fails under TO, so that the gate passes it.
        """
        if self.is_regression or self.failures[1] or not self.after.can_be_pinned:
            return False
        return self.kernels.still > 0 or not self.kernels.compiled_before

    @property
    def _reason_for_to(self) -> str:
        """The reason to pin TO, with the kernels that it did not compile."""
        before, after = self.before, self.after
        if not self.kernels.compiled_before:
            cells = count_noun(after.compiles, "cell compiles", "cells compile")
            return f"nothing compiled under {before.release}, and {cells} under {after.release}"
        if self.kernels.still == len(self.kernels.compiled_before):
            return f"all that compiled under {before.release} still compiles"
        return "; ".join([self._still_compiling, *self._exceptions])

    @property
    def _reason_against_to(self) -> str:
        """The reason to pin FROM and not TO."""
        after = self.after
        if self.is_regression:
            return f"{after.release} breaks kernels that compiled"
        if self.failures[1]:
            names = sorted({kernel_name(cell.kernel) for cell in self.failures[1]})
            return f"under {after.release} fails {', '.join(some(names, _SHOWN_KERNELS))}"
        if self.advisories[1]:
            return f"{after.release} is advised against"
        if after.partial:
            return f"only {after.partial} cells are answered under {after.release}"
        return f"no kernel that compiled is known to compile under {after.release}"

    @property
    def is_narrowed(self) -> bool:
        """True if a few configurations of each kernel and dtype were compared, not all."""
        return self.configs in ("usual", "edges")

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
        document = DiffDocument(
            schema="flacheck.diff/1",
            answer=self.answer,
            about=self.about,
            targets=self.targets,
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
            package=self.package,
            pin=self.pin,
            failures=DiffFailures(*(diff_failures(cells) for cells in self.failures)),
            moved=tuple(MovedKernel(*names) for names in self.moved),
            fallbacks=tuple(fallback.reported() for fallback in self.fallbacks),
            source="published" if self.published else "own",
            published=self.published,
            sizes=self.sizes,
        )
        return document.to_json()


def _has_verdict(record: Record) -> bool:
    return record.verdict in (Verdict.COMPILES, Verdict.FAILS)


def _verb(before: str, after: str) -> str:
    if Version(after) < Version(before):
        return "Downgrading"
    return "Upgrading"


def _growth(change: Difference) -> tuple[bool, float]:
    every = [change.more or {}, *change.functions.values()]
    ratios = [new / max(old, 1) for more in every for old, new in more.values()]
    return not any("spills" in more for more in every), -max(ratios)


def _short(advisories: Sequence[Advisory]) -> str:
    """Return the effects in a few words: `wrong results (2 advisories)`."""
    effects = dict.fromkeys(advisory.effect.value for advisory in advisories)
    number = f"{len(advisories)} advisories"
    if len(advisories) == 1:
        number = "1 advisory"
    return f"{', '.join(effects)} ({number})"
