"""What a definition says, as the digest by which a changed kernel is known."""

from __future__ import annotations

import pytest

from flacheck.guest.recorder.definitions import Definitions, digest

MODULE = '''
import triton
import triton.language as tl

WARPS = [2, 4]
CONFIGS = [triton.Config({}, num_warps=w) for w in WARPS]
n = 1
unrelated = 5


def prune(configs, args):
    return configs


@triton.jit
def helper(x):
    return x * 2


@triton.autotune(CONFIGS, ["n"], prune_configs_by={"early_config_prune": prune})
@triton.jit
def kernel(x, n, BLOCK: tl.constexpr):
    """Doubles."""
    i = tl.arange(0, BLOCK)  # the places
    tl.store(x + i, helper(tl.load(x + i)), mask=i < n)


def make(k):
    @triton.jit
    def inner(x):
        tl.store(x, 1)

    return inner
'''


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("mask=i < n)", "mask=i <= n)"),
        ("x * 2", "x * 3"),
        ("[2, 4]", "[2, 4, 8]"),
        ("num_warps=w)", "num_warps=w, num_stages=1)"),
        ("    return configs", "    return configs[:1]"),
        ('["n"]', '["n", "x"]'),
    ],
)
def test_all_that_makes_a_kernel_counts(before: str, after: str) -> None:
    """Its body, its decorators, and what both read of the module, at any remove."""
    assert before in MODULE
    changed = Definitions(MODULE.replace(before, after)).of("kernel")
    assert changed != Definitions(MODULE).of("kernel")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("  # the places", ""),
        ('"""Doubles."""', '"""Twice\n\n    as much."""'),
        ("@triton.jit\ndef helper", "\n\n@triton.jit\n# twice\ndef helper"),
        ("unrelated = 5", "unrelated = 6\n"),
        ("n = 1", "n = 2"),
        ("store(x, 1)", "store(x, 2)"),
    ],
)
def test_what_says_nothing_of_a_kernel_does_not_count(before: str, after: str) -> None:
    """Comments, docstrings, empty lines, where it stands, and what the module has besides."""
    assert before in MODULE
    changed = Definitions(MODULE.replace(before, after)).of("kernel")
    assert changed == Definitions(MODULE).of("kernel")


def test_a_function_within_another_is_found_by_both_names() -> None:
    """As its qualified name has it, without `<locals>`."""
    known = Definitions(MODULE)
    assert len(known.of("make.inner")) == 1
    assert known.of("inner") == []
    line = MODULE.split("\n").index("    @triton.jit") + 1
    assert [known.at("make.inner", line)] == known.of("make.inner")
    assert known.at("make.inner", line + 1) is None


def test_branches_may_define_a_function_twice() -> None:
    """The recorder says which, by the line of its first decorator; a reader compares with both."""
    text = "if x:\n    @jit\n    def k(): return 1\nelse:\n    def k(): return 2\n"
    known = Definitions(text)
    first, second = known.of("k")
    assert first != second
    assert (known.at("k", 2), known.at("k", 5)) == (first, second)
    assert Definitions("@jit\ndef k(): return 1\n").of("k") == [first]


def test_a_files_end_makes_no_difference() -> None:
    """The lines that Python keeps end in a newline, which the file may lack."""
    assert digest("x = 1") == digest("x = 1\n\n")


@pytest.mark.parametrize("text", ["def k(:", "x = '\0'", "if x:\nk()"])
def test_what_is_no_python_is_refused(text: str) -> None:
    """The caller says what that means."""
    with pytest.raises((SyntaxError, ValueError)):
        Definitions(text)
