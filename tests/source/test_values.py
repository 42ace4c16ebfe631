"""The value of an expression, as far as the source determines it."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from flacheck.source.values import UNKNOWN, value

VALUES = {"BT": 64, "K": 100, "flag": False, "mode": "chunk"}


def worth(text: str) -> Any:
    """The value of an expression where some names are known."""
    expression = ast.parse(text, mode="eval").body
    return value(expression, lambda node: VALUES.get(getattr(node, "id", ""), UNKNOWN))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("BT", 64),
        ("BT // 16 + 1", 5),
        ("triton.cdiv(K, BT)", 2),
        ("min(128, triton.next_power_of_2(K))", 128),
        ("mode == 'chunk'", True),
        ("mode in ('step', 'chunk')", True),
        ("not flag", True),
        ("flag and unknown", False),
        ("unknown or not flag", True),
        ("32 if flag else BT", 64),
        ("64 if unknown else BT", 64),
    ],
)
def test_what_follows_from_known_names_is_known(text: str, value: object) -> None:
    """Constants, comparisons, truth values and the arithmetic of tile sizes."""
    assert worth(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "unknown",
        "BT + unknown",
        "BT // 0",
        "flag or unknown",
        "'a' * BT",
        "BT < mode",
        "BT < K < 200",
        "32 if unknown else BT",
        "count(BT)",
        "min(BT, key=unknown)",
        "[BT, unknown]",
    ],
)
def test_what_the_source_does_not_say_is_unknown(text: str) -> None:
    """Nothing is guessed and nothing raises."""
    assert worth(text) is UNKNOWN
