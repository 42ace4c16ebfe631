"""Syntax trees of kernels, and specimens that are written again."""

from __future__ import annotations

import ast

import pytest

from flacheck.capabilities.repro.kernel.rewriting import (
    drop_unread_parameters,
    rewrite,
    without_parameters,
)
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.passes.partial_evaluation import inline_calls
from tests.made_specimens import HEAD, POINTER, chain, specimen


def texts(body: list[ast.stmt]) -> list[str]:
    return [ast.unparse(statement) for statement in body]


def inlined_into(call: str, helper: str) -> list[str]:
    [function] = ast.parse(helper).body
    assert isinstance(function, ast.FunctionDef)
    body = inline_calls(ast.parse(call).body, {function.name: function})
    return texts(ast.fix_missing_locations(ast.Module(body, [])).body)


SCALE_HELPER = "def scaled(a, by=2, *, plus=1):\n    b = a * by\n    return b + plus"


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ("c = scaled(b, 3)", ["b_2 = b * 3", "c = b_2 + 1"]),
        ("c = scaled(b, plus=5)", ["b_2 = b * 2", "c = b_2 + 5"]),
        ("c = scaled(b + 1)", ["a = b + 1", "b_2 = a * 2", "c = b_2 + 1"]),
        ("c = scaled(*b)", ["c = scaled(*b)"]),
        ("c = scaled()", ["c = scaled()"]),
        ("c = scaled(b) if b else b", ["c = scaled(b) if b else b"]),
    ],
)
def test_a_helper_is_written_out_where_it_is_called(call: str, result: list[str]) -> None:
    """An inlined helper's variables have new names; an unreadable call stays."""
    assert inlined_into(call, SCALE_HELPER) == result


def test_a_helper_that_returns_early_stays() -> None:
    """A helper with an early return is still called."""
    helper = "def pick(a):\n    if a > 1:\n        return a\n    return a + 1"
    assert inlined_into("c = pick(b)", helper) == ["c = pick(b)"]


def test_a_module_is_written_with_what_its_kernel_uses() -> None:
    """Unused helpers, constants and imports are dropped."""
    prelude = "import math\nfrom triton import jit\nN = 3\nM = N\nL = 1\n\n\n"
    prelude += "@triton.jit\ndef used(a):\n    return a + M\n\n\n"
    prelude += "@triton.jit\ndef unused(a):\n    return a\n\n\n"
    one = specimen("tl.store(x, used(1))\na = unused(2)", prelude, x=POINTER)
    after = rewrite(one, one.copied_body())
    assert list(after.helpers) == ["used"]
    assert list(after.constants) == ["N", "M"]
    assert after.source.startswith(HEAD + "import math\n")
    assert "from triton" not in after.source


def test_a_lost_parameter_is_named_nowhere() -> None:
    """A dropped parameter leaves the signature and do_not_specialize."""
    header = f"{HEAD}@triton.jit(do_not_specialize=['T', 'N'])\ndef kernel(x, T, N, B):\n"
    args = {"x": POINTER, "T": {"int": 8}, "N": {"int": 4}}
    one = Specimen(
        header + "    tl.store(x, T)\n", "kernel", args, "sm90", omitted_parameters=("B",)
    )
    after = drop_unread_parameters(one)
    assert list(after.args) == ["x", "T"]
    assert "do_not_specialize=['T']" in after.source
    assert "def kernel(x, T, B):" in after.source
    assert "@triton.jit\n" in without_parameters(after, ["T"]).source


def test_a_specimen_is_a_cell_of_its_own_content() -> None:
    """Equal specimens have one key, which depends on the order of parameters."""
    one = chain()
    cell = one.cell("triton==3.2.0")
    assert cell.kernel.digest == one.key
    assert one.key == chain().key
    other_order = dict(reversed(list(one.args.items())))
    assert one.with_(args=other_order).key != one.key
