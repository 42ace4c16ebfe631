"""The total order of specimens, and specimens that are rejected without a compile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flacheck.capabilities.repro.kernel.candidates import cost, is_valid
from flacheck.capabilities.repro.kernel.specimen import Specimen
from tests.made_specimens import CHAIN, HEAD, POINTER, chain, specimen

BODIES = st.lists(
    st.sampled_from([CHAIN.splitlines()[0], "a = tl.load(x)", "b = a + 1", "tl.store(x, a)"]),
    max_size=6,
)


@given(BODIES, BODIES)
def test_the_order_is_total(first_body: list[str], second_body: list[str]) -> None:
    """One of two different specimens is better, and no specimen is better than itself."""
    first, second = (
        specimen("\n".join(body) or "pass", x=POINTER) for body in (first_body, second_body)
    )
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
    """Control flow, masks and large numbers cost more."""
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
    """Unaligned pointers, usual dtypes and small numbers cost less; constants cost more."""
    assert cost(specimen("tl.store(x, 1)", x=better)) < cost(specimen("tl.store(x, 1)", x=worse))


def test_few_and_usual_options_come_first() -> None:
    """No option costs least, then the usual number of warps."""
    of = [specimen("tl.store(x, 1)", options=o, x=POINTER) for o in _OPTIONS]
    assert sorted(of, key=cost) == of


_OPTIONS: tuple[dict[str, int], ...] = (
    {},
    {"num_warps": 4},
    {"num_warps": 8},
    {"num_warps": 8, "num_stages": 2},
)


def test_a_kernel_that_compiles_is_valid() -> None:
    """Loops, branches and names of the module are valid."""
    assert is_valid(chain())
    assert is_valid(specimen("tl.store(x, N)", "N = 3\n\n\n", x=POINTER))


@pytest.mark.parametrize(
    ("body", "valid"),
    [
        ("tl.store(x, y)", False),
        ("tl.store(x, a)\na = 1", False),
        ("for t in range(y):\n    tl.store(x, t)", False),
        ("for t in range(4):\n    tl.store(x, a)\n    a = t", False),
        ("if x:\n    a = 1\ntl.store(x, a)", True),
        ("if y:\n    tl.store(x, 1)", False),
        ("tl.store(x, [i for i in (1, 2)][0])", True),
    ],
)
def test_names_are_bound_before_they_are_read(body: str, valid: bool) -> None:
    """A name must be bound first, on either side of a branch."""
    assert is_valid(specimen(body, x=POINTER)) is valid


def test_every_parameter_has_its_value_and_every_value_its_parameter() -> None:
    """Each parameter has a value from the launch or from the autotuner."""
    source = f"{HEAD}@triton.jit\ndef kernel(x, B):\n    tl.store(x, B)\n"
    bare = Specimen(source, "kernel", {"x": POINTER}, "sm90")
    assert not is_valid(bare)
    assert is_valid(bare.with_(omitted_parameters=("B",)))
    assert not is_valid(bare.with_(args={"x": POINTER, "B": 1, "C": 1}))


def test_an_empty_kernel_is_worth_no_compile() -> None:
    """An empty kernel is valid only for a fault of the autotuner."""
    empty = specimen("pass", x=POINTER)
    assert not is_valid(empty)
    assert is_valid(empty.with_(stage="autotune"))
