"""The launches for which a question stands, with the number of their configurations."""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec import Struct

from flacheck.model.cell import Cell
from flacheck.model.kernel import Kernel
from flacheck.model.launch import Launch
from flacheck.model.values import digest

# Enough hex digits for the launches of one question.
_DIGITS = 16


class LaunchExtent(Struct, frozen=True, omit_defaults=True):
    """The launches of a question on one toolchain and target.

    - `launches`: by kernel, the number of configurations of each launch, by the launch's identity
    - `tuned_parameters`: by kernel, the parameters that its autotuner supplies
    - `operators`: by public entry point of a package, the identities of its launches
    - `missing_kernels`: the package's kernels without a recorded launch
    """

    launches: dict[str, dict[str, int]]
    tuned_parameters: dict[str, tuple[str, ...]] = {}
    operators: dict[str, tuple[str, ...]] = {}
    missing_kernels: tuple[str, ...] = ()

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
        identity = launch_identity(
            cell.kernel, cell.launch, self.tuned_parameters.get(cell.kernel.name, ())
        )
        return identity if identity in launches else None

    def of(self, names: Callable[[str], bool]) -> LaunchExtent:
        """Return the launches of the kernels whose names the predicate accepts."""
        launches = {}
        for kernel, counts in self.launches.items():
            if names(kernel):
                launches[kernel] = counts
        identities = set[str]().union(*launches.values())
        operators = {}
        for operator, own in self.operators.items():
            own_launches = tuple(filter(identities.__contains__, own))
            if own_launches:
                operators[operator] = own_launches
        missing_kernels = tuple(filter(names, self.missing_kernels))
        return LaunchExtent(launches, self.tuned_parameters, operators, missing_kernels)

    def of_operators(self, names: Callable[[str], bool]) -> LaunchExtent:
        """Return the launches of the operators whose names the predicate accepts.

        The operators of an unrecorded kernel are unknown.
        """
        operators = {}
        for name, own_launches in self.operators.items():
            if names(name):
                operators[name] = own_launches
        launches = self.of_launches(set[str]().union(*operators.values())).launches
        return LaunchExtent(launches, self.tuned_parameters, operators)

    def of_launches(self, identities: Collection[str]) -> LaunchExtent:
        """Return the launches with these identities, and their operators."""
        launches = {}
        for kernel, counts in self.launches.items():
            own = {identity: count for identity, count in counts.items() if identity in identities}
            if own:
                launches[kernel] = own
        operators = {}
        for name, own_launches in self.operators.items():
            kept = tuple(filter(identities.__contains__, own_launches))
            if kept:
                operators[name] = kept
        return LaunchExtent(launches, self.tuned_parameters, operators)

    def operators_of_kernel(self, kernel: str) -> tuple[str, ...]:
        """Return the operators with a launch of the kernel."""
        launches = self.launches.get(kernel, {})
        return tuple(
            name for name, own in self.operators.items() if not launches.keys().isdisjoint(own)
        )

    @property
    def identities(self) -> frozenset[str]:
        """The identities of all launches."""
        return frozenset[str]().union(*self.launches.values())


def launch_identity(kernel: Kernel, launch: Launch, tuned_parameters: Collection[str]) -> str:
    """Return an identity that the configurations of a launch share."""
    args = {name: value for name, value in launch.args.items() if name not in tuned_parameters}
    return digest([kernel.name, kernel.package, kernel.digest, args], _DIGITS)
