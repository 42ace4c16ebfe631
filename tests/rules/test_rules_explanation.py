"""Explanations: a rule's texts beside what was found."""

from __future__ import annotations

import pytest

from flacheck.errors import UsageError
from flacheck.rules import RULES
from flacheck.rules.excerpts import Excerpt
from flacheck.rules.explanation import (
    UnexplainedErrors,
    find_unexplained,
    of_code,
    of_log,
    to_json,
)


def test_a_code_is_explained_by_its_rule() -> None:
    """It has no line and no excerpt."""
    (explained,) = of_code("FC302")
    rule = RULES["FC302"]
    assert (explained.code, explained.cause, explained.remedy) == ("FC302", rule.cause, rule.remedy)
    assert (explained.line, explained.excerpt) == (None, "")


def test_an_unknown_code_names_the_known_ones() -> None:
    """As whoever mistyped it needs them."""
    with pytest.raises(UsageError, match="no failure code FC999: known are FC000, FC101"):
        of_code("FC999")


def test_a_log_is_explained_with_its_place() -> None:
    """The line counts from 1."""
    (explained,) = of_log("fine\nValueError: something new\n")
    assert (explained.code, explained.line) == ("FC000", 2)
    assert explained.excerpt == "ValueError: something new"
    assert of_log("fine\n") == []


def test_the_document_names_bad_and_good_releases() -> None:
    """Links stay with the rule."""
    document = to_json(of_code("FC101"))
    assert document["schema"] == "flacheck.explain/1"
    (finding,) = document["findings"]
    rule = RULES["FC101"]
    assert finding["versions"] == {"bad": list(rule.bad), "good": list(rule.good)}
    assert not {"links", "bad", "good"} & set(finding)


FIGURES = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_80'
ptxas info    : Function properties for _Z1kPf
    384 bytes stack frame, {} bytes spill stores, 420 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 384 bytes cumulative stack size
"""
WARNING = (
    "ptxas warning : Registers are spilled to local memory in function '_Z1kPf', 420 bytes spill"
    " stores, 420 bytes spill loads\n"
)


@pytest.mark.parametrize("text", [FIGURES.format(420), WARNING])
def test_spills_are_explained_where_nothing_fails(text: str) -> None:
    """With the function and its bytes, and how it gets more registers."""
    (explained,) = of_log(text)
    assert explained.code == "FC505"
    assert explained.facts == {"kernel": "_Z1kPf", "stores": 420, "loads": 420}
    assert "__launch_bounds__" in explained.remedy


def test_spills_explain_no_failure_of_another_kind() -> None:
    """A build that fails prints the figures of the units that compiled, too."""
    assert of_log(FIGURES.format(0)) == []
    unknown = of_log(FIGURES.format(420) + "nvcc error   : something new\n")
    assert [each.code for each in unknown] == ["FC000"]
    wrapper = of_log(FIGURES.format(420) + "ninja: build stopped: subcommand failed.\n")
    assert [each.code for each in wrapper] == ["FC815"]


@pytest.mark.parametrize(
    ("text", "code", "cure"),
    [
        ("nvlink error   : Undefined reference to '_Z1gv' in 'b.o'\n", "FC809", "-rdc=true"),
        ("ld.lld: error: undefined symbol: cudaMalloc\n", "FC809", "-lcudart"),
        (
            "/usr/bin/ld: a.o: in function `f()':\na.cpp:(.text+0x1): undefined reference to"
            " `__cudaRegisterLinkedBinary_44_tmpxft'\n",
            "FC809",
            "-dlink",
        ),
        (
            "nvlink error   : Multiple definition of '_Z1fv' in 'b.o', first defined in 'a.o'\n"
            "nvlink fatal   : merge_elf failed\n",
            "FC822",
            "`inline`",
        ),
        ("nvlink fatal   : Input file 'a.o' newer than toolkit (131 vs 130)\n", "FC822", "newest"),
        ("ld.lld: error: duplicate symbol: f\n", "FC822", "`inline`"),
        ("ld.lld: error: unable to find library -lcudart\n", "FC931", "library"),
    ],
)
def test_a_linkers_message_has_a_cure_for_cuda(text: str, code: str, cure: str) -> None:
    """Of nvlink, lld and ld."""
    first = of_log(text)[0]
    assert first.code == code
    assert cure in first.remedy


@pytest.mark.parametrize(
    "text",
    [
        # nvcc 13.0 of `template <class T> requires (sizeof(T) == 4) __global__ …`.
        "a.cu(1): error: this declaration has no storage class or type specifier\n",
        'a.cu(3): error: identifier "concept" is undefined\n',
        "a.cpp:3:12: error: ‘requires’ does not name a type\n",
        "a.cpp:3:20: error: ‘concept’ does not name a type\n",
    ],
)
def test_a_keyword_of_a_later_standard_names_the_standard(text: str) -> None:
    """nvcc and gcc report it in other words."""
    assert "-std=c++20" in of_log(text)[0].remedy


def test_errors_of_a_cuda_build_without_a_specific_rule_are_counted() -> None:
    """Each once; the first with its line. Other logs have none."""
    text = (
        "FAILED: a.o\n"
        'a.cu(3): error: identifier "x" is undefined\n'
        'a.cu(4): error: expected a ";"\n'
        'b.cu(9): error: expected a ";"\n'
        "nvlink warning : SM Arch ('sm_90') not found in 'a.o'\n"
        "ptxas error   : something new\n"
        '2 errors detected in the compilation of "a.cu".\n'
        "ninja: build stopped: subcommand failed.\n"
    )
    unexplained_errors = find_unexplained([Excerpt(1, text)])
    assert unexplained_errors == UnexplainedErrors(2, 3, 'a.cu(4): error: expected a ";"')
    document = to_json(of_log(text), unexplained_errors=unexplained_errors)
    assert document["unexplained_errors"]["count"] == 2
    assert find_unexplained([Excerpt(1, "k.py:3:4: error: failed to legalize\n")]) is None
