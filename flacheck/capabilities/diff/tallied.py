"""What became of each kernel that is compared."""

from collections.abc import Iterable
from dataclasses import dataclass

from flacheck.capabilities.diff.differences import Difference, DifferenceKind
from flacheck.model import Verdict


@dataclass(frozen=True)
class Tallied:
    """Kernels by what became of them; those that did not compile under FROM are in none."""

    compiled: tuple[str, ...]
    fail: tuple[str, ...]
    refused: tuple[str, ...]
    lost: tuple[str, ...]
    cut: tuple[str, ...]
    waived: tuple[str, ...]
    unknown: tuple[str, ...]
    untested: tuple[str, ...]

    @property
    def still(self) -> int:
        broken = (*self.fail, *self.refused, *self.waived)
        gone = {*broken, *self.lost, *self.cut, *self.unknown, *self.untested}
        return sum(kernel not in gone for kernel in self.compiled)


def tallied(changes: Iterable[Difference]) -> Tallied:
    """What became of each kernel. One that fails in one dtype fails; one that has no verdict in
    one dtype and compiles in another compiles."""
    by_kernel: dict[str, list[Difference]] = {}
    for change in changes:
        by_kernel.setdefault(change.kernel, []).append(change)
    compiled: list[str] = []
    fail: list[str] = []
    refused: list[str] = []
    lost: list[str] = []
    cut: list[str] = []
    waived: list[str] = []
    unknown: list[str] = []
    untested: list[str] = []
    for kernel, own in by_kernel.items():
        kinds = {change.kind for change in own}
        if kinds == {DifferenceKind.UNTESTED}:
            untested.append(kernel)
        if not any(_compiled_before(change) for change in own):
            continue
        compiled.append(kernel)
        if any(change.counts_against for change in own):
            fail.append(kernel)
        elif kinds == {DifferenceKind.ONLY_FROM}:
            if any(_is_refused(change) for change in own):
                refused.append(kernel)
            elif all((change.reason or "").startswith("capture cut") for change in own):
                cut.append(kernel)
            else:
                lost.append(kernel)
        elif DifferenceKind.REGRESSED in kinds:
            waived.append(kernel)
        elif kinds != {DifferenceKind.UNTESTED} and not any(map(_compiles_after, own)):
            unknown.append(kernel)
    return Tallied(
        tuple(compiled),
        tuple(fail),
        tuple(refused),
        tuple(lost),
        tuple(cut),
        tuple(waived),
        tuple(unknown),
        tuple(untested),
    )


def _is_refused(change: Difference) -> bool:
    """Whether a kernel is missing because the package refuses what launches it."""
    return (change.reason or "").startswith("refused by the package")


def _compiled_before(change: Difference) -> bool:
    before = change.pair.before
    return before is not None and before.verdict is Verdict.COMPILES


def _compiles_after(change: Difference) -> bool:
    after = change.pair.after
    return after is not None and after.verdict is Verdict.COMPILES
