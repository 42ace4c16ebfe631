"""Partial evaluation of expressions and branches."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flacheck.capabilities.repro.kernel.constant_folding import fold_constants, literal


def after(text: str) -> str:
    """Return a text with every constant expression evaluated."""
    return "\n".join(map(ast.unparse, fold_constants(ast.parse(text).body)))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1 + 2 * 3", "7"),
        ("x * 1 + 0", "x"),
        ("1 * x", "x"),
        ("0 + x", "x"),
        ("x - 0", "x"),
        ("x // 1", "x"),
        ("0 - x", "0 - x"),
        ("0 * x", "0"),
        ("x if 3 > 4 else y", "y"),
        ("tl.cdiv(100, 64)", "2"),
        ("triton.next_power_of_2(65)", "128"),
        ("tl.cdiv(100, x)", "tl.cdiv(100, x)"),
        ("not None", "True"),
        ("(3, x)[1]", "x"),
        ("(3, x)[2]", "(3, x)[2]"),
        ("None is None and x", "x"),
        ("x and False", "x and False"),
        ("False and x", "False"),
        ("x or False", "x"),
        ("True and True", "True"),
    ],
)
def test_what_is_known_is_evaluated(text: str, result: str) -> None:
    """Arithmetic on literals is evaluated, and neutral integers are dropped."""
    assert after(text) == result


@pytest.mark.parametrize("text", ["1 // 0", "1.0 * x", "(-1) ** 0.5", "2 ** 70", "float('inf')"])
def test_what_would_raise_or_change_a_type_is_left(text: str) -> None:
    """Divisions by zero and values without a literal stay."""
    assert after(text) == text


def test_branches_on_literals_are_decided() -> None:
    """Branches on literals are decided, and an empty loop passes."""
    assert after("if 1 > 2:\n    a = 1\nelse:\n    a = 2") == "a = 2"
    assert after("for t in range(n):\n    if False:\n        a = 1") == (
        "for t in range(n):\n    pass"
    )


@given(
    st.integers(-50, 50),
    st.integers(-50, 50),
    st.sampled_from(["+", "-", "*", "//", "%", "<", "=="]),
)
def test_folding_agrees_with_python(first: int, right: int, operator: str) -> None:
    """A folded expression has the value that Python gives it."""
    text = f"({first}) {operator} ({right})"
    try:
        result = eval(text)
    except ZeroDivisionError:
        assert "0" in after(text)
    else:
        assert eval(after(text)) == result


@pytest.mark.parametrize("value", [-3, 0.5, -0.5, True, None, "text"])
def test_a_literal_says_its_value(value: object) -> None:
    """The literal of a value evaluates to it."""
    assert ast.literal_eval(literal(value)) == value
