"""The text of a definition, as the digest that reveals a changed kernel."""

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
    """The kernel's body, its decorators, and everything that they read count."""
    assert before in MODULE
    digest = Definitions(MODULE.replace(before, after)).of("kernel")
    assert digest != Definitions(MODULE).of("kernel")


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
    """Comments, docstrings, empty lines, the position and the rest of the module do not count."""
    assert before in MODULE
    digest = Definitions(MODULE.replace(before, after)).of("kernel")
    assert digest == Definitions(MODULE).of("kernel")


def test_a_function_within_another_is_found_by_both_names() -> None:
    """The qualified name works with and without `<locals>`."""
    definitions = Definitions(MODULE)
    assert len(definitions.of("make.inner")) == 1
    assert definitions.of("inner") == []
    line = MODULE.split("\n").index("    @triton.jit") + 1
    assert [definitions.at("make.inner", line)] == definitions.of("make.inner")
    assert definitions.at("make.inner", line + 1) is None


def test_branches_may_define_a_function_twice() -> None:
    """The line of the first decorator decides between the two."""
    text = "if x:\n    @jit\n    def k(): return 1\nelse:\n    def k(): return 2\n"
    definitions = Definitions(text)
    first, second = definitions.of("k")
    assert first != second
    assert (definitions.at("k", 2), definitions.at("k", 5)) == (first, second)
    assert Definitions("@jit\ndef k(): return 1\n").of("k") == [first]


def test_a_files_end_makes_no_difference() -> None:
    """A missing or additional newline at the end of a file does not change its digest."""
    assert digest("x = 1") == digest("x = 1\n\n")


@pytest.mark.parametrize("text", ["def k(:", "x = '\0'", "if x:\nk()"])
def test_what_is_no_python_is_refused(text: str) -> None:
    """A text that cannot be parsed raises the parser's error."""
    with pytest.raises((SyntaxError, ValueError)):
        Definitions(text)
