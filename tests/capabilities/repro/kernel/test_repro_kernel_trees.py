"""Syntax trees of kernels, and specimens that are written again."""

from __future__ import annotations

import ast

import pytest

from flacheck.capabilities.repro.kernel.rewriting import (
    drop_unread_parameters,
    pointer_to,
    replace_nodes,
    rewrite,
    without_parameters,
)
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.syntax_trees import (
    Extraction,
    assignment,
    callee_name,
    expression,
    keep_statements,
    reads,
    without_dead,
    writes,
)
from flacheck.capabilities.repro.passes.partial_evaluation import inline_calls
from tests.made_specimens import HEAD, POINTER, chain, specimen


def texts(body: list[ast.stmt]) -> list[str]:
    return [ast.unparse(statement) for statement in body]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("tl.dot(a, b)", "tl.dot"),
        ("tl.math.exp(a)", "tl.math.exp"),
        ("a.to(tl.float32)", ".to"),
        ("(a + b).sum(0)", ".sum"),
        ("helper(a)", "helper"),
        ("a + b", ""),
    ],
)
def test_a_call_is_named_by_what_it_calls(text: str, name: str) -> None:
    """A method by its name alone, the language's functions by their path."""
    assert callee_name(expression(text)) == name


def test_a_statement_reads_and_writes_names() -> None:
    """An augmented assignment reads its target too."""
    [loop] = ast.parse("for t in range(n):\n    acc += a").body
    assert reads(loop) == {"range", "n", "acc", "a"}
    assert writes(loop) == {"t", "acc"}


def test_a_plain_assignment_binds_one_name() -> None:
    """Tuples, chains and augmented assignments are none."""
    plain = [assignment(s) for s in ast.parse("a = b\nc, d = b\ne = f = b\ng += b").body]
    assert [one and one.name for one in plain] == ["a", None, None, None]


def test_dead_code_goes_and_effects_stay() -> None:
    """Assignments that nothing reads are dropped, however long the chain."""
    body = ast.parse("a = 1\nb = a\nc = b\ntl.store(x, 1)\nd = tl.atomic_add(x, 1)").body
    assert texts(without_dead(body)) == ["tl.store(x, 1)", "d = tl.atomic_add(x, 1)"]


def test_emptied_branches_go() -> None:
    """One side without statements passes; without either, the branch goes."""
    body = ast.parse("if a:\n    b = 1\nif c:\n    b = 2\nelse:\n    d = 3").body
    assert texts(keep_statements(body, lambda s: "b = " not in ast.unparse(s).splitlines()[0])) == [
        "if c:\n    pass\nelse:\n    d = 3"
    ]


def test_a_free_name_is_numbered_where_it_is_taken() -> None:
    """From 2 on."""
    names = Extraction({"a", "a_2"})
    assert [names.new_name(stem) for stem in "aab"] == ["a_3", "a_4", "b"]


def inlined_into(call: str, helper: str) -> list[str]:
    [function] = ast.parse(helper).body
    assert isinstance(function, ast.FunctionDef)
    body = inline_calls(ast.parse(call).body, {function.name: function})
    return texts(ast.fix_missing_locations(ast.Module(body, [])).body)


SCALED = "def scaled(a, by=2, *, plus=1):\n    b = a * by\n    return b + plus"


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
    """Its variables get names of their own; a call that is not understood stays."""
    assert inlined_into(call, SCALED) == result


def test_a_helper_that_returns_early_stays() -> None:
    """What cannot be written out is still called."""
    helper = "def pick(a):\n    if a > 1:\n        return a\n    return a + 1"
    assert inlined_into("c = pick(b)", helper) == ["c = pick(b)"]


def test_a_module_is_written_with_what_its_kernel_uses() -> None:
    """Unused helpers, constants and imports of Triton's parts go."""
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
    """Not in the signature, not in what is not to be specialized."""
    decorated = f"{HEAD}@triton.jit(do_not_specialize=['T', 'N'])\ndef kernel(x, T, N, B):\n"
    args = {"x": POINTER, "T": {"int": 8}, "N": {"int": 4}}
    one = Specimen(
        decorated + "    tl.store(x, T)\n", "kernel", args, "sm90", omitted_parameters=("B",)
    )
    after = drop_unread_parameters(one)
    assert list(after.args) == ["x", "T"]
    assert "do_not_specialize=['T']" in after.source
    assert "def kernel(x, T, B):" in after.source
    assert "@triton.jit\n" in without_parameters(after, ["T"]).source


def test_a_node_is_replaced_and_its_tree_stays() -> None:
    """The specimen's own tree is never changed."""
    one = specimen("a = tl.load(x)\ntl.store(x, a)", x=POINTER)
    before = ast.dump(one.tree)
    load = one.function.body[0]
    assert isinstance(load, ast.Assign)
    after = replace_nodes(one, {load.value: ast.Constant(1)})
    assert texts(after.function.body) == ["a = 1", "tl.store(x, a)"]
    assert ast.dump(one.tree) == before


def test_a_pointer_is_found_or_added() -> None:
    """Its name is one that the kernel does not use."""
    one = specimen("y = tl.load(x)\ntl.store(x, y)", x=POINTER)
    args = dict(one.args)
    assert pointer_to("fp16", args, one) == "x"
    assert pointer_to("fp32", args, one) == "z"
    assert args["z"] == {"dtype": "fp32", "align": 16}


def test_a_specimen_is_a_cell_of_its_own_content() -> None:
    """Equal specimens have one key; the order of the parameters is part of it."""
    one = chain()
    cell = one.cell("triton==3.2.0")
    assert cell.kernel.digest == one.key
    assert one.key == chain().key
    turned = dict(reversed(list(one.args.items())))
    assert one.with_(args=turned).key != one.key
