"""The launches for which a question stands, with the number of their configurations."""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec import Struct

from flacheck.model.cell import Cell
from flacheck.model.kernel import Kernel
from flacheck.model.launch import Launch
from flacheck.model.values import digest

# Hex digits that tell apart the launches of one question.
_DIGITS = 16


class LaunchExtent(Struct, frozen=True, omit_defaults=True):
    """The launches of a question on one toolchain and target, asked or not.

    - `launches`: by kernel, the number of configurations of each launch, by the launch's identity
    - `tuned`: by kernel, the parameters that its autotuner supplies
    - `operators`: by public entry point of a package, the identities of its launches
    - `unrecorded`: the package's kernels without a recorded launch
    """

    launches: dict[str, dict[str, int]]
    tuned: dict[str, tuple[str, ...]] = {}
    operators: dict[str, tuple[str, ...]] = {}
    unrecorded: tuple[str, ...] = ()

    @property
    def configurations(self) -> int:
        """The number of configurations of all launches."""
        return sum(sum(counts.values()) for counts in self.launches.values())

    def launch_of(self, cell: Cell) -> str | None:
        """Return the identity of the launch that a cell configures; None for other launches."""
        if cell.launch is None or cell.stage != "compile":
            return None
        launches = self.launches.get(cell.kernel.name)
        if launches is None:
            return None
        identity = launch_identity(cell.kernel, cell.launch, self.tuned.get(cell.kernel.name, ()))
        return identity if identity in launches else None

    def of(self, names: Callable[[str], bool]) -> LaunchExtent:
        """Return the launches of the kernels whose names the predicate accepts."""
        launches = {kernel: own for kernel, own in self.launches.items() if names(kernel)}
        identities = set[str]().union(*launches.values())
        operators = {}
        for operator, own in self.operators.items():
            kept = tuple(identity for identity in own if identity in identities)
            if kept:
                operators[operator] = kept
        unrecorded = tuple(kernel for kernel in self.unrecorded if names(kernel))
        return LaunchExtent(launches, self.tuned, operators, unrecorded)


def launch_identity(kernel: Kernel, launch: Launch, tuned: Collection[str]) -> str:
    """Return an identity that the configurations of a launch share."""
    args = {name: value for name, value in launch.args.items() if name not in tuned}
    return digest([kernel.name, kernel.package, kernel.digest, args], _DIGITS)
