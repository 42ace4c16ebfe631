"""How well two orders agree."""

from __future__ import annotations

from collections.abc import Sequence


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation, −1 to 1, ties sharing their mean rank; None for fewer than three
    pairs, or where all of one side are equal.
    """
    one, two = ranks(first), ranks(second)
    if len(one) < 3:
        return None
    mean = (len(one) + 1) / 2
    products = sum((a - mean) * (b - mean) for a, b in zip(one, two))
    squares = sum((a - mean) ** 2 for a in one) * sum((b - mean) ** 2 for b in two)
    return round(products / squares**0.5, 3) if squares else None


def ranks(values: Sequence[float]) -> list[float]:
    """Each value's rank from 1, ties sharing their mean."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) + 1) / 2 for value in values]
