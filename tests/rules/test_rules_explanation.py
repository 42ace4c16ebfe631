"""Explanations: a rule's texts beside the findings."""

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
    """The explanation of a code has the rule's texts, without a line."""
    (finding,) = of_code("FC302")
    rule = RULES["FC302"]
    assert (finding.code, finding.cause, finding.remedy) == ("FC302", rule.cause, rule.remedy)
    assert (finding.line, finding.excerpt) == (None, "")


def test_an_unknown_code_names_the_known_ones() -> None:
    """The error lists the known codes."""
    with pytest.raises(UsageError, match="no failure code FC999: known are FC000, FC101"):
        of_code("FC999")


def test_a_log_is_explained_with_its_place() -> None:
    """Lines are counted from 1."""
    (finding,) = of_log("fine\nValueError: something new\n")
    assert (finding.code, finding.line) == ("FC000", 2)
    assert finding.excerpt == "ValueError: something new"
    assert of_log("fine\n") == []


def test_the_document_names_bad_and_good_releases() -> None:
    """The document has bad and good releases, without links."""
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
    """Spills are explained with function and bytes."""
    (finding,) = of_log(text)
    assert finding.code == "FC505"
    assert finding.facts == {"kernel": "_Z1kPf", "stores": 420, "loads": 420}
    assert "__launch_bounds__" in finding.remedy


def test_spills_explain_no_failure_of_another_kind() -> None:
    """Spills do not explain a failing build."""
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
    """Messages of nvlink, lld and ld have a remedy."""
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
    """The remedy is the option of the C++ standard."""
    assert "-std=c++20" in of_log(text)[0].remedy


def test_errors_of_a_cuda_build_without_a_specific_rule_are_counted() -> None:
    """Unexplained errors of a CUDA build are counted, each once."""
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
