"""The outcome of each kernel in a comparison."""

from collections.abc import Iterable
from dataclasses import dataclass

from flacheck.capabilities.diff.differences import Difference, DifferenceKind
from flacheck.model import Verdict


@dataclass(frozen=True)
class KernelTally:
    """Kernels that compiled under FROM, by their outcome under TO.

    `not_tested` also holds kernels that did not compile under FROM. `new` are kernels that FROM
    lacks, and `new_failing` those of them that fail in a dtype.
    """

    compiled_before: tuple[str, ...]
    failing: tuple[str, ...]
    refused_by_package: tuple[str, ...]
    not_launched: tuple[str, ...]
    not_reached: tuple[str, ...]
    waived_failures: tuple[str, ...]
    without_verdict: tuple[str, ...]
    not_tested: tuple[str, ...]
    new: tuple[str, ...] = ()
    new_failing: tuple[str, ...] = ()

    @property
    def still(self) -> int:
        """The number of kernels that compile under both."""
        broken = (*self.failing, *self.refused_by_package, *self.waived_failures)
        changed_kernels = {
            *broken,
            *self.not_launched,
            *self.not_reached,
            *self.without_verdict,
            *self.not_tested,
        }
        return sum(kernel not in changed_kernels for kernel in self.compiled_before)


def tally_kernels(changes: Iterable[Difference]) -> KernelTally:
    """Return the outcome of each kernel.

    A kernel that fails in one dtype fails; a kernel without a verdict in one dtype that compiles in
    another compiles.
    """
    by_kernel: dict[str, list[Difference]] = {}
    for change in changes:
        by_kernel.setdefault(change.kernel, []).append(change)
    compiled_before: list[str] = []
    failing: list[str] = []
    refused_by_package: list[str] = []
    not_launched: list[str] = []
    not_reached: list[str] = []
    waived_failures: list[str] = []
    without_verdict: list[str] = []
    not_tested: list[str] = []
    new: list[str] = []
    new_failing: list[str] = []
    for kernel, own in by_kernel.items():
        kinds = {change.kind for change in own}
        if kinds == {DifferenceKind.ONLY_TO}:
            new.append(kernel)
            if any(map(_fails_after, own)):
                new_failing.append(kernel)
        if kinds == {DifferenceKind.UNTESTED}:
            not_tested.append(kernel)
        if not any(_compiled_before(change) for change in own):
            continue
        compiled_before.append(kernel)
        if any(change.counts_against for change in own):
            failing.append(kernel)
        elif kinds == {DifferenceKind.ONLY_FROM}:
            if any(_is_refused(change) for change in own):
                refused_by_package.append(kernel)
            elif all((change.reason or "").startswith("capture cut") for change in own):
                not_reached.append(kernel)
            else:
                not_launched.append(kernel)
        elif DifferenceKind.REGRESSED in kinds:
            waived_failures.append(kernel)
        elif kinds != {DifferenceKind.UNTESTED} and not any(map(_compiles_after, own)):
            without_verdict.append(kernel)
    return KernelTally(
        tuple(compiled_before),
        tuple(failing),
        tuple(refused_by_package),
        tuple(not_launched),
        tuple(not_reached),
        tuple(waived_failures),
        tuple(without_verdict),
        tuple(not_tested),
        tuple(new),
        tuple(new_failing),
    )


def _is_refused(change: Difference) -> bool:
    """Return True if the package refuses the import or call that launches the kernel."""
    return (change.reason or "").startswith("refused by the package")


def _compiled_before(change: Difference) -> bool:
    before = change.pair.before
    return before is not None and before.verdict is Verdict.COMPILES


def _compiles_after(change: Difference) -> bool:
    after = change.pair.after
    return after is not None and after.verdict is Verdict.COMPILES


def _fails_after(change: Difference) -> bool:
    """Return True for a failure under TO that the autotuner does not skip."""
    after = change.pair.after
    return after is not None and after.verdict is Verdict.FAILS and not after.tolerated
