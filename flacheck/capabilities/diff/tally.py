"""The outcome of each kernel in a comparison."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

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
    kernels: dict[str, list[str]] = {field.name: [] for field in fields(KernelTally)}
    for kernel, own in by_kernel.items():
        for name in _outcomes(own):
            kernels[name].append(kernel)
    return KernelTally(**{name: tuple(names) for name, names in kernels.items()})


def _outcomes(changes: Sequence[Difference]) -> Iterator[str]:
    """Yield the fields of a tally that list the kernel of some differences."""
    kinds = {change.kind for change in changes}
    if kinds == {DifferenceKind.ONLY_TO}:
        yield "new"
        if any(map(_fails_after, changes)):
            yield "new_failing"
    if kinds == {DifferenceKind.UNTESTED}:
        yield "not_tested"
    if not any(map(_compiled_before, changes)):
        return
    yield "compiled_before"
    if any(change.counts_against for change in changes):
        yield "failing"
    elif kinds == {DifferenceKind.ONLY_FROM}:
        yield _loss(changes)
    elif DifferenceKind.REGRESSED in kinds:
        yield "waived_failures"
    elif kinds != {DifferenceKind.UNTESTED} and not any(map(_compiles_after, changes)):
        yield "without_verdict"


def _loss(changes: Sequence[Difference]) -> str:
    """Return the field for a kernel that exists on the first side only."""
    if any(map(_is_refused, changes)):
        return "refused_by_package"
    if all((change.reason or "").startswith("capture cut") for change in changes):
        return "not_reached"
    return "not_launched"


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
