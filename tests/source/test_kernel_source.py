"""A kernel file: what its names are bound to, and the digest of what a kernel uses."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from flacheck.errors import MatrixError
from flacheck.source.kernel_source import KernelSource, bindings

TEXT = """\
import triton
SCALE = 2
TABLE = {}
OPERATOR = "sum"
KERNELS = {"k": 1}

def helper(x):
    return x * SCALE

TABLE["f"] = helper

@triton.jit
def k(x, B=KERNELS):
    y = helper(x)
    return y

@triton.jit
def other(x):
    SCALE = 3
    return x + SCALE

@triton.jit
def by_table(x):
    return TABLE["f"](x)
"""


def source(text: str = TEXT) -> KernelSource:
    return KernelSource.from_text(Path("k.py"), text)


def statement(text: str) -> ast.stmt:
    return ast.parse(text).body[0]


def names_changed(before: str, after: str) -> set[str]:
    """The kernels whose digest a change of the file changes."""
    assert before in TEXT
    old, new = source(), source(TEXT.replace(before, after))
    return {name for name in ("k", "other", "by_table") if old.digest(name) != new.digest(name)}


def test_a_digest_follows_what_a_kernel_uses() -> None:
    """The kernel may use it directly or through helpers; a local variable hides the module's."""
    assert names_changed("SCALE = 2", "SCALE = 4") == {"k", "by_table"}
    assert names_changed("SCALE = 3", "SCALE = 5") == {"other"}
    assert names_changed("x * SCALE", "SCALE * x") == {"k", "by_table"}
    assert names_changed('TABLE["f"] = helper', 'TABLE["f"] = abs') == {"by_table"}


def test_a_digest_ignores_declarations_and_what_is_not_used() -> None:
    """Launches hold the declared values, so the digest leaves declarations out."""
    assert names_changed('OPERATOR = "sum"', 'OPERATOR = "product"') == set()
    assert names_changed('{"k": 1}', '{"k": 2}') == set()
    assert names_changed("import triton\n", "import triton\nNEW = 1\n") == set()


def test_a_decorator_is_part_of_a_kernel() -> None:
    """The decorator decides how the kernel is compiled."""
    assert "k" in names_changed("@triton.jit\ndef k", "@triton.jit(noinline=True)\ndef k")


def test_the_last_function_of_a_name_counts() -> None:
    """The later definition of a name replaces the earlier one, as in Python."""
    twice = source("def f(): return 1\ndef f(): return 2\nx = 1\n")
    function = twice.function("f")
    assert function is not None
    assert function.lineno == 2
    assert twice.function("x") is None
    assert twice.function("none") is None


def test_a_file_that_is_no_python_is_an_error_with_its_line(tmp_path: Path) -> None:
    """Nothing is guessed."""
    with pytest.raises(MatrixError, match=r"k\.py:2: not Python: "):
        source("x = 1\ndef (\n")
    (tmp_path / "a.py").write_text(TEXT)
    assert KernelSource.of(tmp_path / "a.py").digest("k") == source().digest("k")


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("import a.b, c as d", {"a", "d"}),
        ("from a import b, c as d", {"b", "d"}),
        ("def f(x):\n    y = x", {"f"}),
        ("class C:\n    y = 1", {"C"}),
        ("a, (b, *c) = d", {"a", "b", "c"}),
        ("if a:\n    b = 1\nelse:\n    def c(): pass", {"b", "c"}),
        ("for i in a:\n    b = i", {"i", "b"}),
        ("with a as b:\n    pass", {"b"}),
        ("t['x'] = f", {"t"}),
        ("a.b = f", {"a"}),
        ("f(a)", set()),
    ],
)
def test_what_a_statement_binds_at_module_level(text: str, bound: set[str]) -> None:
    """A statement binds names, or changes them in place."""
    assert bindings(statement(text)) == bound


def test_a_digest_covers_what_is_imported_from_a_file_beside(tmp_path: Path) -> None:
    """Only a change of an imported function, or of names that it uses, changes the digest."""
    family = tmp_path / "family.py"
    shared = tmp_path / "_shared.py"
    family.write_text("from ._shared import twice\n\ndef k(x):\n    return twice(x)\n")
    text = "TWO = 2\nTHREE = 3\n\ndef twice(x):\n    return TWO * x\n"
    shared.write_text(text)
    before = KernelSource.of(family).digest("k")
    shared.write_text(text.replace("THREE = 3", "THREE = 4"))
    assert KernelSource.of(family).digest("k") == before
    shared.write_text(text.replace("TWO = 2", "TWO = 4"))
    assert KernelSource.of(family).digest("k") != before
