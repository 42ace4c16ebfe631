"""Which of two specimens a maintainer would rather read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flacheck.repro.kernel.candidates import cost
from tests.made_specimens import CHAIN, POINTER, specimen

BODIES = st.lists(
    st.sampled_from([CHAIN.splitlines()[0], "a = tl.load(x)", "b = a + 1", "tl.store(x, a)"]),
    max_size=6,
)


@given(BODIES, BODIES)
def test_the_order_is_total(left: list[str], right: list[str]) -> None:
    """Of two different specimens one is better, and neither is better than itself."""
    first, second = (specimen("\n".join(body) or "pass", x=POINTER) for body in (left, right))
    assert (cost(first) < cost(second)) + (cost(second) < cost(first)) == (first.key != second.key)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("tl.store(x, 1)", "for t in range(4):\n    tl.store(x, 1)"),
        ("tl.store(x, 1)", "tl.store(x, 1024)"),
        ("a = tl.load(x)\ntl.store(x, a)", "a = tl.load(x, mask=None)\ntl.store(x, a)"),
    ],
)
def test_plain_bodies_come_first(better: str, worse: str) -> None:
    """Control flow, masks and large numbers are more to read."""
    assert cost(specimen(better, x=POINTER)) < cost(specimen(worse, x=POINTER))


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"dtype": "fp16", "align": 1}, {"dtype": "fp16", "align": 16}),
        ({"dtype": "fp16", "align": 16}, {"dtype": "fp8e5", "align": 16}),
        ({"int": 1}, {"int": 4096}),
        ({"int": 64}, {"constexpr": 64}),
        (None, {"int": 1}),
    ],
)
def test_plain_arguments_come_first(better: object, worse: object) -> None:
    """Nothing said of a pointer, usual dtypes, small numbers, no constants."""
    assert cost(specimen("tl.store(x, 1)", x=better)) < cost(specimen("tl.store(x, 1)", x=worse))


def test_few_and_usual_options_come_first() -> None:
    """None, then the usual number of warps, then others."""
    of = [specimen("tl.store(x, 1)", options=o, x=POINTER) for o in _OPTIONS]
    assert sorted(of, key=cost) == of


_OPTIONS = ({}, {"num_warps": 4}, {"num_warps": 8}, {"num_warps": 8, "num_stages": 2})
