"""Facts that the syntax of a module shows."""

from __future__ import annotations

import ast

import pytest

from flacheck.guest.pysource.functions import parameters
from flacheck.source import syntax


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def statement(text: str) -> ast.stmt:
    return ast.parse(text).body[0]


def function(text: str) -> ast.FunctionDef:
    node = statement(text)
    assert isinstance(node, ast.FunctionDef)
    return node


def call(text: str) -> ast.Call:
    node = expression(text)
    assert isinstance(node, ast.Call)
    return node


def texts(*nodes: ast.AST | None) -> list[str]:
    return [ast.unparse(node) for node in nodes if node is not None]


def test_text_that_is_no_python_is_an_empty_module() -> None:
    """`parse` raises where the caller needs the error."""
    for text in ("def (", "x = 1\0", b"\xff\xfe", "(" * 5_000):
        assert syntax.tree(text).body == []
    assert len(syntax.tree("x = 1\ny = 2\n").body) == 2
    with pytest.raises(SyntaxError):
        syntax.parse("def (")


def test_what_a_call_is_given_for_a_parameter() -> None:
    """The name comes before the position, which a keyword-only parameter lacks."""
    node = call("f(a, b, key=c)")
    parameters = [
        syntax.argument(node, "key", 0),
        syntax.argument(node, "other", 1),
        syntax.argument(node, "other", 2),
        syntax.argument(node, "other"),
    ]
    assert [each and ast.unparse(each) for each in parameters] == ["c", "b", None, None]


def test_parameters_and_their_defaults() -> None:
    """Defaults of positional parameters belong to the last ones; `*args` and `**kwargs` are left
    out."""
    node = function("def f(a, b, /, c=1, *args, d, e=2, **kwargs): pass")
    assert [each.arg for each in parameters(node)] == ["a", "b", "c", "d", "e"]
    defaults = syntax.defaults(node.args)
    assert {name: ast.unparse(each) for name, each in defaults.items()} == {"c": "1", "e": "2"}


@pytest.mark.parametrize(
    ("decorators", "is_kernel"),
    [
        ("@triton.jit", True),
        ("@jit", True),
        ("@triton.jit(do_not_specialize=['T'])", True),
        ("@triton.autotune(configs=[], key=[])\n@triton.jit", True),
        ("@numba.jit", False),
        ("@functools.cache", False),
        ("", False),
    ],
)
def test_a_kernel_is_known_by_its_decorator(decorators: str, is_kernel: bool) -> None:
    """The decorator counts by any import, with or without arguments."""
    assert syntax.is_kernel(statement(f"{decorators}\ndef k(x): pass")) is is_kernel
    assert not syntax.is_kernel(statement("class K: pass"))


def test_a_launch_names_its_kernel() -> None:
    """`name[grid](…)` is a launch of `name`, and a computed kernel is left out."""
    launches = {
        "k[(1,)](x)": ["k"],
        "k(x)": [],
        "kernels[0][grid](x)": ["kernels"],
        "(ops.a if fast else b)[grid](x)": ["ops.a", "b"],
        "getattr(ops, 'a')[grid](x)": ["ops.a"],
        "{'a': a, 'b': b}[name][grid](x)": ["a", "b"],
        "k.warmup(x, grid=grid)": ["k"],
    }
    for text, names in launches.items():
        assert list(syntax.launched_names(expression(text))) == names


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("a = b.c = 1", ["a", "b.c"]),
        ("a: int = 1", ["a"]),
        ("a += 1", ["a"]),
        ("f(a)", []),
    ],
)
def test_what_a_statement_assigns_to(text: str, targets: list[str]) -> None:
    """Each form of assignment gives its targets."""
    assert texts(*syntax.targets(statement(text))) == targets
