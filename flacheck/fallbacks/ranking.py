"""Which fallback is nearer to what fails: the one order of all fallbacks, seen or searched.

The fewest settings that change come first; then the fewest steps, a step being a doubling or a
halving (another dtype counts as one); then options before tile sizes, for they leave the grid and
the host code as they are; then the least estimated loss; then the smaller value.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any

from flacheck.analysis.observation import ObservedCell
from flacheck.analysis.order import by_target, by_version
from flacheck.model import canonical

Use = dict[str, Any]
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def rank(
    failing: Mapping[str, Any],
    use: Mapping[str, Any],
    tiles: Collection[str] = (),
    loss: float = 0.0,
) -> tuple[Any, ...]:
    """Sort key of a change of failing settings. Which settings are `tiles`, and what the change
    loses, is known where the kernel's source was read; of a scan's records it is not."""
    values = [(position(name), size(value)) for name, value in use.items()]
    changed_tiles = sum(name in tiles for name in use)
    return len(use), steps(failing, use), changed_tiles, loss, values, canonical(use)


def steps(failing: Mapping[str, Any], use: Mapping[str, Any]) -> float:
    """How many doublings or halvings lead from the failing settings to those of a fallback."""
    return round(sum(distance(failing.get(name), value) for name, value in use.items()), 2)


def distance(before: Any, after: Any) -> float:
    """The doublings between two values; 1 between what is no positive number."""
    if all(type(value) in (int, float) and value > 0 for value in (before, after)):
        return abs(math.log2(after / before))
    return 1.0


def size(value: Any) -> tuple[bool, float]:
    """Sort key at equal distance: the smaller number first, fewer warps, smaller blocks."""
    if type(value) in (int, float):
        return False, value
    return True, 0.0


def position(name: str) -> tuple[int, str]:
    """The order in which settings are named: options, then constexprs and sizes, then the dtype."""
    if name in _OPTIONS:
        return _OPTIONS.index(name), name
    return len(_OPTIONS) + (name == "dtype"), name


def named_values(cell: ObservedCell) -> dict[str, Any]:
    """The settings and sizes of a cell in the order in which they are named."""
    values = {**cell.settings, **cell.shape}
    return {name: values[name] for name in sorted(values, key=position)}


def order(cell: ObservedCell) -> tuple[Any, ...]:
    """The order in which failing cells are advised: release, target, kernel, settings."""
    # Digits are filled up, so that 8 warps come before 16.
    values = [(name, str(value).zfill(8)) for name, value in named_values(cell).items()]
    release, target = by_version(cell.toolchain), by_target(cell.target)
    return release, target, cell.kernel, cell.package or "", values
