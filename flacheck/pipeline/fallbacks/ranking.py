"""The order of all fallbacks, from records and from searches: the nearest to the failure first.

The fewest settings that change come first; then the fewest steps, a step being a doubling or a
halving (another dtype counts as one); then options before tile sizes, because options leave the
grid and the host code as they are; then the least estimated loss; then the smaller value.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any

from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.order import by_target, by_version
from flacheck.model import canonical

Use = dict[str, Any]
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def rank(
    failing: Mapping[str, Any],
    use: Mapping[str, Any],
    tiles: Collection[str] = (),
    loss: float = 0.0,
) -> tuple[Any, ...]:
    """Return the sort key of a change of failing settings.

    A search passes `tiles` and `loss` from the kernel's source; scan records have neither.
    """
    values = [(position(name), size(value)) for name, value in use.items()]
    changed_tiles = sum(name in tiles for name in use)
    return len(use), steps(failing, use), changed_tiles, loss, values, canonical(use)


def steps(failing: Mapping[str, Any], use: Mapping[str, Any]) -> float:
    """Return the number of doublings or halvings from the failing settings to a fallback's."""
    total = 0.0
    for name, value in use.items():
        total += distance(failing.get(name), value)
    return round(total, 2)


def distance(before: Any, after: Any) -> float:
    """Return the doublings between two values; 1 unless both are positive numbers."""
    if _is_positive(before) and _is_positive(after):
        return abs(math.log2(after / before))
    return 1.0


def _is_positive(value: Any) -> bool:
    return type(value) in (int, float) and value > 0


def size(value: Any) -> tuple[bool, float]:
    """Return the sort key at equal distance: the smaller number first."""
    if type(value) in (int, float):
        return False, value
    return True, 0.0


def position(name: str) -> tuple[int, str]:
    """Return the sort key of a setting's name: options, constexprs and sizes, then the dtype."""
    if name in _OPTIONS:
        return _OPTIONS.index(name), name
    return len(_OPTIONS) + (name == "dtype"), name


def named_values(cell: ObservedCell) -> dict[str, Any]:
    """Return the settings and sizes of a cell in the order of `position`."""
    values = {**cell.settings, **cell.shape}
    return {name: values[name] for name in sorted(values, key=position)}


def order(cell: ObservedCell) -> tuple[Any, ...]:
    """Return the sort key of a failing cell: release, target, kernel, settings."""
    # Padded numbers put 8 warps before 16.
    values = [(name, str(value).zfill(8)) for name, value in named_values(cell).items()]
    release, target = by_version(cell.toolchain), by_target(cell.target)
    return release, target, cell.kernel, cell.package or "", values
