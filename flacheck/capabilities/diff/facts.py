"""The facts of a comparison: the outcome of each kernel, regressions and the pin."""

from dataclasses import dataclass, field, replace
from functools import cached_property

from packaging.version import Version

from flacheck.capabilities.diff.compared_side import (
    AdvisedPin,
    ComparedSide,
    advise_pin,
    exactly,
)
from flacheck.capabilities.diff.differences import Difference, DifferenceKind
from flacheck.capabilities.diff.package_view import PackageNotice
from flacheck.capabilities.diff.tally import KernelTally, tally_kernels
from flacheck.evidence.analysis.compiled_sizes import CompiledSizes, name_sizes
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.analysis.observation import ObservedCell, take_apart
from flacheck.evidence.analysis.order import count_noun, kernel_name, some, split, toolchain_label
from flacheck.evidence.measured.comparison import CardComparison
from flacheck.evidence.published.answers import PublishedSource
from flacheck.model import Record, Verdict
from flacheck.model.coverage import PackageCoverage
from flacheck.model.source_location import Locate, locate_nowhere
from flacheck.tables.advisories import Advisory

# The number of kernels that the summary sentence names.
_SHOWN_KERNELS = 3


@dataclass(frozen=True)
class ComparedSides:
    """Two sides with their differences, and what follows from them.

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
        measured: The two releases beside each other on each GPU where both were measured.
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
    measured: tuple[CardComparison, ...] = ()
    locate: Locate = field(default=locate_nowhere, compare=False)

    def of(self, kind: DifferenceKind) -> list[Difference]:
        """Return the changes of this kind; the package's refusals are changes, too."""
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
        return self.has_other_regression or any(change.counts_against for change in self.changes)

    @cached_property
    def further_failing(self) -> list[str]:
        """The kernels that fail under TO by other evidence alone, and not under FROM."""
        before, after = self.failures
        failing = {cell.kernel for cell in after} - {cell.kernel for cell in before}
        for change in (*self.refusals, *self.changes):
            if change.is_waived:
                failing.discard(change.kernel)
        return sorted(failing - set(self.kernels.failing))

    @cached_property
    def made_up_failing(self) -> frozenset[str]:
        """The kernels that fail on either side in made-up launches alone: models do not meet it."""
        cells = [cell for side in self.failures for cell in side]
        return frozenset(cell.kernel for cell in cells) - {
            cell.kernel for cell in cells if not cell.made_up
        }

    @property
    def is_rare_regression(self) -> bool:
        """True if all that speaks against TO are failures that models do not meet."""
        without = replace(self, failures=((), ()))
        is_known = set(self.further_failing) <= self.made_up_failing
        return self.is_regression and is_known and not without.is_regression

    @property
    def unmet(self) -> list[PackageNotice]:
        """The requirements that FROM satisfies and TO does not."""
        return [
            word
            for word in self.package
            if word.kind == "requires" and word.under_to and not word.under_from
        ]

    @property
    def has_other_regression(self) -> bool:
        """True if something else than kernels of both sides speaks against TO."""
        if self.kernels.refused_by_package or self.unmet or self.further_failing:
            return True
        if any(each.wrong for each in self.measured):
            return True
        return any(change.counts_against for change in self.refusals)

    @property
    def change(self) -> str:
        """The direction, with both releases: `Upgrading torch 2.9.1 → 2.12.1 (Triton …)`."""
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
            why = "stored results answer only a part of the question"
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
        total = len(self.kernels.compiled_before)
        if self.kernels.still == total:
            return f"all that compiled under {before.release} still compiles"
        return f"{self.kernels.still} of {count_noun(total, 'kernel')} that compiled still compile"

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
