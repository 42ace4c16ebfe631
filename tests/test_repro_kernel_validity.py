"""What is refused before any compiler is asked."""

from __future__ import annotations

import pytest

from flacheck.repro.kernel.candidates import is_valid
from flacheck.repro.kernel.specimen import Specimen
from tests.made_specimens import HEAD, POINTER, chain, specimen


def test_a_kernel_that_compiles_is_valid() -> None:
    """Loops, branches and what a module binds are understood."""
    assert is_valid(chain())
    assert is_valid(specimen("tl.store(x, N)", "N = 3\n\n\n", x=POINTER))


@pytest.mark.parametrize(
    "body",
    [
        "a = tl.zeros([16, 32], tl.float16)\ntl.store(x, tl.dot(a, a))",
        "a = tl.zeros([8, 8], tl.float16)\ntl.store(x, tl.dot(a, a))",
        "a = tl.arange(0, 16) + tl.arange(0, 32)\ntl.store(x + tl.arange(0, 16), a)",
        "tl.store(x, tl.arange(0, 32))",
    ],
)
def test_shapes_at_odds_are_refused(body: str) -> None:
    """So are dots below the smallest, and values larger than where they are stored."""
    assert not is_valid(specimen(body, x=POINTER))


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
    """In the order of execution; either side of a branch may bind."""
    assert is_valid(specimen(body, x=POINTER)) is valid


def test_every_parameter_has_its_value_and_every_value_its_parameter() -> None:
    """A parameter that the autotuner supplies is none of the launch's."""
    source = f"{HEAD}@triton.jit\ndef kernel(x, B):\n    tl.store(x, B)\n"
    bare = Specimen(source, "kernel", {"x": POINTER}, "sm90")
    assert not is_valid(bare)
    assert is_valid(bare.with_(omitted=("B",)))
    assert not is_valid(bare.with_(args={"x": POINTER, "B": 1, "C": 1}))


def test_an_empty_kernel_is_worth_no_compile() -> None:
    """An autotuner's fault lies before the compile, and shows without a body."""
    empty = specimen("pass", x=POINTER)
    assert not is_valid(empty)
    assert is_valid(empty.with_(stage="autotune"))
