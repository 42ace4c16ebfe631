"""The launches of a question in a file of published results.

A launch's identity is a digest, and digests do not compress. A launch with a cell has its identity
from that cell, and the others are numbered; an operator names the numbers of its launches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from flacheck.model import Cell
from flacheck.model.extent import LaunchExtent, launch_identity

Natural = Annotated[int, Meta(ge=0)]


class PackedExtent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A LaunchExtent whose launches are numbers.

    `launches` are kernels with the numbers of configurations of their launches, which are counted
    from 0 over all kernels. `cells` are pairs of a launch and one of its cells. `operators` have
    the first of their launches, then the distances from one to the next.
    """

    launches: tuple[tuple[str, tuple[Natural, ...]], ...]
    cells: tuple[tuple[Natural, Natural], ...]
    operators: dict[str, tuple[Natural, ...]] = {}
    tuned_parameters: dict[str, tuple[str, ...]] = {}
    missing_kernels: tuple[str, ...] = ()


def pack_extent(extent: LaunchExtent, cells: Iterable[Cell]) -> PackedExtent:
    """Return an extent in which the cells, in the order of their file, name launches."""
    operators_of: dict[str, list[str]] = {}
    for operator, identities in sorted(extent.operators.items()):
        for identity in identities:
            operators_of.setdefault(identity, []).append(operator)
    launches = []
    numbers: dict[str, int] = {}
    for kernel, counts in sorted(extent.launches.items()):
        # Launches of the same operators are neighbours, so that most distances are 1.
        ordered = sorted(counts, key=lambda one: (operators_of.get(one, []), counts[one], one))
        launches.append((kernel, tuple(counts[identity] for identity in ordered)))
        for identity in ordered:
            numbers[identity] = len(numbers)
    cell_of: dict[int, int] = {}
    for index, cell in enumerate(cells):
        own_identity = extent.launch_of(cell)
        if own_identity is not None:
            cell_of.setdefault(numbers[own_identity], index)
    operators = {}
    for operator, identities in extent.operators.items():
        own_numbers = sorted(numbers[identity] for identity in identities if identity in numbers)
        operators[operator] = tuple(_distances(own_numbers))
    return PackedExtent(
        launches=tuple(launches),
        cells=tuple(sorted(cell_of.items())),
        operators=operators,
        tuned_parameters=extent.tuned_parameters,
        missing_kernels=extent.missing_kernels,
    )


def unpack_extent(packed: PackedExtent, cells: Sequence[Cell]) -> LaunchExtent:
    """Return the extent; the identity of a launch without a cell is its number.

    Raises:
        LookupError: If a number names no launch or no cell.
    """
    identities = {}
    for number, index in packed.cells:
        cell = cells[index]
        if cell.launch is None:
            raise LookupError(f"cell {index} has no launch")
        tuned = packed.tuned_parameters.get(cell.kernel.name, ())
        identities[number] = launch_identity(cell.kernel, cell.launch, tuned)
    launches: dict[str, dict[str, int]] = {}
    all_identities: list[str] = []
    for kernel, counts in packed.launches:
        own = {}
        for count in counts:
            number = len(all_identities)
            identity = identities.get(number, f"launch {number}")
            own[identity] = count
            all_identities.append(identity)
        launches[kernel] = own
    operators = {}
    for operator, distances in packed.operators.items():
        number = 0
        own_identities = []
        for distance in distances:
            number += distance
            own_identities.append(all_identities[number])
        operators[operator] = tuple(own_identities)
    return LaunchExtent(launches, packed.tuned_parameters, operators, packed.missing_kernels)


def _distances(numbers: Sequence[int]) -> Iterable[int]:
    """Yield the first number, then the distance of each to the one before."""
    before = 0
    for number in numbers:
        yield number - before
        before = number
