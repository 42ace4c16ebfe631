"""Shapes that a docstring gives: `q (Tensor): queries of shape `[B, T, H, K]``, and such."""

from __future__ import annotations

import inspect
import re

from .sizes import SIZES, extent

_GROUP = r"[\[(]([^\[\]()]{1,60})[\])]"
_NAMED = re.compile(
    r"^[ \t]*(?:-[ \t]*|:param[ \t]+)?`?(\w+)`?[ \t]*(?:\(.*?\)|\[[\w\[\]., |]*\])?[ \t]*:(?!:)",
    re.M,
)
_SHAPE = re.compile(
    rf"(?:shaped?|size|dimensions?)\W{{0,12}}(?:of|is|as|:)?\W{{0,6}}?{_GROUP}|`{_GROUP}`|^\s*{_GROUP}",
    re.I | re.M,
)
_CHOICE = re.compile(
    rf"{_GROUP}`?\s+if\s+`?(\w+)\s*=+\s*(\w+)`?[\s,]*(?:else|otherwise)\s+`?{_GROUP}", re.I
)


def documented(function) -> dict[str, tuple[str, ...]]:
    """Parameter → its dimensions, as far as the docstring says them."""
    text = getattr(function, "__doc__", None)
    if not isinstance(text, str):
        return {}
    defaults = _defaults(function)
    places = list(_NAMED.finditer(text))
    ends = [place.start() for place in places[1:]] + [len(text)]
    found = {}
    for place, end in zip(places, ends):
        if place[1] in defaults:
            dimensions = _dimensions(text[place.end() : end], defaults)
            if dimensions:
                found.setdefault(place[1], dimensions)
    return found


def _defaults(function) -> dict:
    try:
        return {name: p.default for name, p in inspect.signature(function).parameters.items()}
    except (ValueError, TypeError):
        return {}


def _dimensions(text: str, defaults: dict) -> tuple[str, ...] | None:
    choice = _CHOICE.search(text)
    if choice:
        taken = str(defaults.get(choice[2], False)) == choice[3]
        return _split(choice[1] if taken else choice[4])
    for found in _SHAPE.finditer(text):
        dimensions = _split(next(filter(None, found.groups())))
        if dimensions:
            return dimensions
    return None


def dimensions_in(text: str) -> tuple[str, ...] | None:
    """The dimensions that a message spells out in letters, as `[B, T, H]`."""
    for group in re.findall(_GROUP, text):
        dimensions = _split(group)
        if dimensions and not any(part.isdigit() for part in dimensions):
            return dimensions
    return None


def _split(text: str) -> tuple[str, ...] | None:
    """The dimensions in `B, T, H*K`; a text that lists anything else is no shape. `...` stands for
    batch and time.
    """
    parts = [part.strip() for part in text.replace("...", "B, T").replace("*,", "B, T,").split(",")]
    parts = [re.sub(r"(?<=[a-z]) (?=[a-z])", "_", part) for part in parts if part]
    known = parts and all(
        extent(part, SIZES) is not None and not part.lower().startswith("optional")
        for part in parts
    )
    return tuple(parts) if known else None
