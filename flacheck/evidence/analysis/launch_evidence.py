"""Evidence of launches: a launch compiles if the autotuner can do without its failures."""

from collections.abc import Iterable, Sequence
from typing import Any

from flacheck.evidence.analysis.observation import ObservedCell


def compile_all(cells: Sequence[ObservedCell]) -> bool:
    """Return True if every launch of these cells compiles in some configuration.

    Failures and unknown verdicts must be covered by another configuration.
    """
    proven_launches = compiled_launches(cells)
    for cell in cells:
        # A compile that was stopped before its last stage does not prove the launch.
        if cell.partial or cell.launch not in proven_launches:
            return False
        if cell.fails and not cell.tolerated:
            return False
    return bool(proven_launches)


def find_blocking_failures(cells: Iterable[ObservedCell]) -> list[ObservedCell]:
    """Return the failures that matter: untolerated, or of a launch that never compiles."""
    cells = list(cells)
    proven_launches = {(cell.place, cell.launch) for cell in cells if cell.compiles}
    failures = []
    for cell in cells:
        is_covered = cell.tolerated and (cell.place, cell.launch) in proven_launches
        if cell.fails and not is_covered:
            failures.append(cell)
    return failures


def compiled_launches(cells: Iterable[ObservedCell]) -> set[tuple[Any, ...]]:
    """Return the launches that some configuration compiles up to its last stage."""
    return {cell.launch for cell in cells if cell.compiles and not cell.partial}
