"""Which names a definition uses in a state: a length, training or not, plain or configured."""

from __future__ import annotations

import ast
from textwrap import dedent, indent

import pytest

from flacheck.source.flow import State, all_names, chooses_mode, is_length, limit, sets_mode, uses

SHORT, LONG = 16, 4096


def definition(text: str) -> ast.stmt:
    return ast.parse(dedent(text)).body[0]


def used(body: str, length: int = LONG, training: bool = False, plain: bool = True) -> set[str]:
    """Which of the functions `one`, `two` and `three` the `forward` of a layer uses."""
    text = "class Layer:\n    def __init__(self, mode='chunk', gated=False):\n"
    text += "        self.mode = mode\n        self.gated = gated\n"
    text += "    def forward(self, x):\n" + indent(dedent(body), " " * 8)
    names = uses(definition(text), State(length, training, plain))
    return names & {"one", "two", "three"}


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("q_len", True),
        ("T", True),
        ("L", True),
        ("length", True),
        ("x.shape[1]", True),
        ("x.shape[-2]", True),
        ("x.size(1)", True),
        ("x.size(-2)", True),
        ("x.shape[0]", False),
        ("x.size()", False),
        ("TT", False),
        ("batch", False),
    ],
)
def test_what_names_a_length(text: str, is_one: bool) -> None:
    """The axis after the batch, by a layer's usual names."""
    assert is_length(ast.parse(text, mode="eval").body) is is_one


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("q_len <= 64", 64),
        ("64 < q_len", 64),
        ("T == 1", 1),
        ("T < x", None),
        ("T < True", None),
        ("x.shape[0] < 64", None),
        ("1 < T < 64", None),
        ("T", None),
    ],
)
def test_a_limit_is_a_constant_beside_a_length(text: str, bound: int | None) -> None:
    """On either side of one comparison."""
    assert limit(ast.parse(text, mode="eval").body) == bound


def test_a_mode_is_set_directly() -> None:
    """By the name that layers give it."""
    assert sets_mode(definition("mode = 'chunk'"))
    assert not sets_mode(definition("self.mode = 'chunk'"))
    branch = definition("if a:\n    mode = 'x'\n")
    assert isinstance(branch, ast.If)
    assert chooses_mode(branch)


def test_the_length_decides_the_mode_and_the_mode_the_branch() -> None:
    """A layer's way to its kernels."""
    body = """
        mode = 'step' if x.shape[1] <= 64 else self.mode
        if mode == 'step':
            return one(x)
        elif mode == 'chunk':
            return two(x)
        return three(x)
    """
    assert used(body, SHORT) == {"one"}
    assert used(body, LONG) == {"two"}


def test_a_length_elsewhere_decides_nothing() -> None:
    """The second axis of another tensor need not be the sequence."""
    assert used("if x.shape[1] <= 64:\n    one(x)\nelse:\n    two(x)\n") == {"one", "two"}


def test_training_is_known() -> None:
    """A test of it takes one way."""
    body = "if self.training:\n    return one(x)\nreturn two(x)\n"
    assert used(body, training=True) == {"one"}
    assert used(body, training=False) == {"two"}


def test_a_plain_layer_has_its_constructors_defaults() -> None:
    """A configured one may have any."""
    body = "if self.gated:\n    one(x)\nelse:\n    two(x)\n"
    assert used(body) == {"two"}
    assert used(body, plain=False) == {"one", "two"}


def test_what_a_method_changes_is_no_default() -> None:
    """It may hold anything by then."""
    body = "self.gated = x\nif self.gated:\n    one(x)\nelse:\n    two(x)\n"
    assert used(body) == {"one", "two"}


def test_a_layer_that_can_only_raise_uses_nothing() -> None:
    """In the state where it raises."""
    body = "assert not self.training\nreturn one(x)\n"
    assert used(body, training=True) == set()
    assert used(body, training=False) == {"one"}


def test_both_ways_of_an_unknown_test_are_walked() -> None:
    """And what both agree on is known behind them."""
    body = """
        if x:
            mode = 'a'
        else:
            mode = 'a'
        if mode == 'a':
            return one(x)
        return two(x)
    """
    assert used(body) == {"one"}


def test_a_way_that_ended_says_nothing_of_what_comes_behind() -> None:
    """Only the other one goes on."""
    body = """
        if x:
            mode = 'a'
            return three(x)
        else:
            mode = 'b'
        if mode == 'a':
            return one(x)
        return two(x)
    """
    assert used(body) == {"two", "three"}


def test_a_loop_forgets_what_it_changes() -> None:
    """A later turn sees what an earlier one assigned."""
    body = """
        mode = 'a'
        for part in x:
            if mode == 'a':
                one(part)
            else:
                two(part)
            mode = 'b'
        if mode == 'a':
            three(x)
    """
    assert used(body) == {"one", "two", "three"}


def test_a_conditional_expression_uses_the_arm_that_is_taken() -> None:
    """Where its test is known."""
    assert used("return one(x) if self.training else two(x)\n") == {"two"}
    assert used("return one(x) if x else two(x)\n") == {"one", "two"}


def test_every_name_of_a_node_in_whatever_branch() -> None:
    """For what is no definition."""
    names = all_names(definition("y = a.b(c) if d else e"))
    assert names == {"y", "a.b", "c", "d", "e"}
    assert uses(definition("y = a"), State(1, False, True)) == {"y", "a"}
