"""Hypothesis strategies that change a good input in one place."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

# Where a JSON value or a text is changed at all, by something like this.
_ODD_TEXTS = (
    *("", " ", "\0", "\n", "\ud800", "\u202e", "\x1b]0;x\x07", "`", "|", "<b>", "{T}", "{dtype}"),
    *("../../etc/passwd", "__class__", "FC999", "sm_90", "triton", "triton==", "1e999", "-1"),
    *("a" * 5_000, "9" * 5_000, "[" * 5_000),
)
_ODD_NUMBERS = (0, -1, 2**31, 2**63, 2**200, 10**400, 1e308, float("inf"), float("nan"), -0.0)


def _deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def odd_values() -> st.SearchStrategy[Any]:
    """Yield values that no reader expects in this place."""
    return st.one_of(
        st.sampled_from(_ODD_TEXTS),
        st.sampled_from(_ODD_NUMBERS),
        st.sampled_from([None, True, False, [], {}, [[]], {"a": {}}, _deep(50), _deep(400)]),
        st.text(max_size=20),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
            max_leaves=5,
        ),
    )


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _places(item, (*path, place))


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """The JSON value with a part of it replaced, removed, doubled or renamed."""
    path = draw(st.sampled_from(list(_places(value))))
    if not path:
        return draw(odd_values())
    other = copy.deepcopy(value)
    holder = other
    for key in path[:-1]:
        holder = holder[key]
    last = path[-1]
    how = draw(st.sampled_from(("replace", "replace", "remove", "rename", "wrap")))
    if how == "remove":
        del holder[last]
    elif how == "wrap":
        holder[last] = [holder[last]]
    elif how == "rename" and isinstance(holder, dict):
        holder[draw(st.sampled_from(_ODD_TEXTS))] = holder.pop(last)
    else:
        holder[last] = draw(odd_values())
    return other


@st.composite
def mangled(draw: st.DrawFn, text: str) -> str:
    """The text with a piece cut out, doubled, or replaced."""
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 200)))
    piece = draw(
        st.one_of(
            st.just(""),
            st.just(text[start:end] * 2),
            st.sampled_from(_ODD_TEXTS),
            st.text(max_size=10),
            st.sampled_from(
                ["&a [*a]", "*a", "!!int x", "!!binary x", "!!python/name:os.system ''", "? [a]"]
            ),
            st.sampled_from(
                ["2026-13-45", "0x" + "f" * 3_000, "[[[[", "}}", '"', "'", "\t", "---"]
            ),
        )
    )
    return text[:start] + piece + text[end:]


def dump(value: Any) -> str:
    """Return the value as an attacker would write it, with lone surrogates."""
    return json.dumps(value)
