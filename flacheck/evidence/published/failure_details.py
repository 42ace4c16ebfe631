"""The dtypes, head sizes and operators of published failures, from the cells of their file."""

from __future__ import annotations

from dataclasses import replace

from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.published.extents import PackedExtent
from flacheck.evidence.published.form import Body, PackedCell
from flacheck.model.launch_sizes import head_size


def with_details(standing: Standing, body: Body) -> Standing:
    """Return a standing by the counts of a header with the details of its failures."""
    by_cause: dict[tuple[str, str | None], list[PackedCell]] = {}
    variants = set()
    for packed in body.cells:
        outcome = body.outcomes[packed.outcome]
        name = body.kernels[packed.kernel].name
        if outcome.verdict == "compiles" and packed.dtype:
            variants.add((name, packed.dtype, _head_size(packed, body) or 0))
        elif outcome.verdict == "fails":
            cause = (name, outcome.signature or outcome.code)
            by_cause.setdefault(cause, []).append(packed)
    cells = []
    for cell in standing.cells:
        alike = by_cause.get((cell.kernel, cell.signature), [])
        if cell.fails and alike:
            cell = _detailed(cell, alike.pop(0), body)
        cells.append(cell)
    return replace(
        standing,
        cells=tuple(cells),
        stored_variants=frozenset(variants),
        stored_operators=None if body.extent is None else _operators(body.extent),
    )


def _detailed(cell: ObservedCell, packed: PackedCell, body: Body) -> ObservedCell:
    return replace(
        cell,
        dtype=packed.dtype,
        made_up=packed.is_made_up,
        parts=replace(cell.parts, head_size=_head_size(packed, body)),
    )


def _head_size(packed: PackedCell, body: Body) -> int | None:
    if packed.launch is None:
        return None
    return head_size(body.launches[packed.launch].get("args", {}))


def _operators(extent: PackedExtent) -> dict[str, tuple[str, ...]] | None:
    """Return the operators of each kernel; None if the file has none."""
    if not extent.operators:
        return None
    kernels = []
    for kernel, counts in extent.launches:
        kernels += [kernel] * len(counts)
    operators: dict[str, dict[str, None]] = {}
    for operator, distances in extent.operators.items():
        number = 0
        for distance in distances:
            number += distance
            operators.setdefault(kernels[number], {})[operator] = None
    return {kernel: tuple(names) for kernel, names in operators.items()}
