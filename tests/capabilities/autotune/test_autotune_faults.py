"""Faults of autotuning keys, each with source lines that fix it."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from flacheck.capabilities.autotune.key_faults import correct_keys, faults
from flacheck.capabilities.autotune.keys import KeyEvidence
from flacheck.capabilities.autotune.missing_keys import find_unkeyed_constexprs
from flacheck.capabilities.autotune.results import KeyFault, TunedLaunch
from flacheck.pipeline.fallbacks.constexprs import kernel_code
from flacheck.source.host_code import HostLaunch
from tests.made_tuned import SOURCE, TENSOR, call, constexpr, tuned_launch
from tests.source.test_autotuned import paste, read


def find_faults(of: TunedLaunch, version: str = "3.5.1", audit: Any = ()) -> list[KeyFault]:
    return faults(KeyEvidence(of, Version(version), audit))


def names_of(of: list[KeyFault]) -> list[tuple[str, str]]:
    return [(fault.fault, fault.key) for fault in of]


def test_keys_without_fault_have_none(tmp_path: Path) -> None:
    """A correct kernel has no fault."""
    assert find_faults(tuned_launch(tmp_path, call(), call(K=constexpr(128)))) == []


@pytest.mark.parametrize(
    ("version", "word"), [("3.1.0", "ValueError"), ("3.5.1", "silently"), ("3.9.0", "ValueError")]
)
def test_a_key_that_is_no_argument(tmp_path: Path, version: str, word: str) -> None:
    """The fault suggests an argument with a similar name and gives the release's consequence."""
    source = SOURCE.replace("'USE_G'],", "'USE_GG', 'NOTHING_LIKE_IT'],")
    one, other = find_faults(tuned_launch(tmp_path, source=source), version)
    assert (one.fault, one.key, one.want, one.got) == ("no-argument", "USE_GG", "USE_G", None)
    assert other.want is None
    assert word in one.why
    assert one.file == "made.py"
    assert one.line is not None
    assert one.end_line is not None
    again = read(tmp_path, paste(source, one.line, one.end_line, one.fix))
    assert [name for name, _ in again.keys] == ["H", "K", "USE_G"]


def test_keys_by_position_are_mended_in_the_signature(tmp_path: Path) -> None:
    """The fix moves the omitted arguments behind all keys."""
    audit = [
        {"key": "H", "want": "H", "got": "K", "fault": "shifted"},
        {"key": "K", "want": "K", "got": None, "fault": "past-end"},
        {"key": "USE_G", "want": "USE_G", "got": "USE_G", "fault": None},
    ]
    one, other = find_faults(tuned_launch(tmp_path), "3.1.0", audit)
    assert (one.fault, one.want, one.got) == ("shifted", "H", "K")
    assert (other.fault, other.got) == ("past-end", None)
    assert "IndexError" in other.why
    assert one.line is not None
    assert one.end_line is not None
    again = read(tmp_path, paste(SOURCE, one.line, one.end_line, one.fix))
    assert again.arguments == ("x", "g", "T", "H", "K", "USE_G", "BK", "eps")


def test_a_constexpr_that_differs_within_a_key_is_missing(tmp_path: Path) -> None:
    """Two launches that share a key and differ in H show that H is missing."""
    source = SOURCE.replace("key=['H', 'K', 'USE_G']", "key=['K', 'USE_G']")
    (fault,) = find_faults(tuned_launch(tmp_path, call(), call(H=constexpr(8)), source=source))
    assert (fault.fault, fault.key, fault.want, fault.got) == ("missing", "H", "H", None)
    assert "4, then 8" in fault.why
    assert "key=['K', 'USE_G', 'H']," in fault.fix
    apart = tuned_launch(tmp_path, call(), call(H=constexpr(8), K=constexpr(128)), source=source)
    assert find_faults(apart) == []
    assert find_unkeyed_constexprs(KeyEvidence(apart, Version("3.5.1"))) == ["H"]


@pytest.mark.parametrize(
    ("flag_source", "assignments", "missing"),
    [
        ("flag", {}, ["FLAG"]),  # the caller's
        ("K > 64", {}, []),  # K is a key
        ("size", {"size": ["64 if K <= 128 else 32", "min(size, 16)"]}, []),
        ("size", {"size": ["64 if x.shape[0] == 1 else 32"]}, ["FLAG"]),  # the data's
        ("True", {}, []),
    ],
)
def test_a_free_constexpr_that_decides_a_branch_is_missing(
    tmp_path: Path, flag_source: str, assignments: dict[str, list[str]], missing: list[str]
) -> None:
    """A constexpr that decides a branch and does not follow from keys is missing."""
    source = SOURCE.replace(
        "    K: tl.constexpr,\n", "    K: tl.constexpr,\n    FLAG: tl.constexpr,\n"
    )
    source = source.replace("    tl.store(x, H)", "    if FLAG:\n        tl.store(x, H)")
    of = tuned_launch(tmp_path, call(FLAG=constexpr(True)), source=source)
    code = kernel_code(of.cell.kernel, {})

    def parse_expression(text: str) -> ast.expr:
        return ast.parse(text, mode="eval").body

    definitions = {name: tuple(map(parse_expression, texts)) for name, texts in assignments.items()}
    host = HostLaunch(
        {"K": parse_expression("K"), "FLAG": parse_expression(flag_source)},
        definitions,
        parameters=frozenset({"x", "K", "flag"}),
    )
    (*free,) = find_faults(replace(of, code=code, hosts=(host,)))
    assert [fault.key for fault in free] == missing
    assert all(
        "key=['H', 'K', 'USE_G', 'FLAG']," in fault.fix and fault.file == "made.py"
        for fault in free
    )
    unbranched = replace(of, code=replace(code, steering=frozenset()), hosts=(host,))
    assert find_faults(unbranched) == [] == find_faults(of)
    assert find_unkeyed_constexprs(KeyEvidence(unbranched, Version("3.5.1"))) == ["FLAG"]


def test_a_heuristic_speaks_for_its_tensor(tmp_path: Path) -> None:
    """A heuristic's flag is missing if two tensors of one dtype can change places."""
    source = SOURCE.replace("key=['H', 'K', 'USE_G']", "key=['H', 'K']")
    calls = (call(g=TENSOR, x=None, USE_G=constexpr(True)), call())
    (fault,) = find_faults(tuned_launch(tmp_path, *calls, source=source))
    assert (fault.fault, fault.key) == ("missing", "USE_G")


def test_a_scalar_that_may_be_absent_is_told_by_its_flag(tmp_path: Path) -> None:
    """A float that can be None does not have to be a key."""
    source = SOURCE.replace("eps=1e-5", "eps")
    calls = (call(eps={"float": 0.5}), call(eps=None), call(eps={"float": 0.25}))
    assert find_faults(tuned_launch(tmp_path, *calls, source=source)) == []


def test_a_specialised_integer_is_missing_only_where_it_is_compiled_differently(
    tmp_path: Path,
) -> None:
    """An integer is missing only if its values make different binaries."""
    source = SOURCE.replace("(do_not_specialize=['T'])", "").replace("    T,\n", "    N,\n")

    def calls(*sizes: int) -> list[dict[str, Any]]:
        return [
            {("N" if n == "T" else n): a for n, a in call(T={"int": size}).items()}
            for size in sizes
        ]

    assert find_faults(tuned_launch(tmp_path, *calls(512, 1024), source=source)) == []
    (fault,) = find_faults(tuned_launch(tmp_path, *calls(512, 1000), source=source))
    assert (fault.fault, fault.key, fault.fix) == (
        "missing",
        "N",
        "@triton.jit(do_not_specialize=['N'])",
    )
    assert find_faults(tuned_launch(tmp_path, call(), call(T={"int": 1000}))) == []


def test_a_length_is_no_key_to_add(tmp_path: Path) -> None:
    """The fix for a length is do_not_specialize, or an argument that is not a constexpr."""
    source = SOURCE.replace("(do_not_specialize=['T'])", "")
    (fault,) = find_faults(tuned_launch(tmp_path, call(), call(T={"int": 1000}), source=source))
    assert fault.fix == "@triton.jit(do_not_specialize=['T'])"
    assert fault.line is not None
    assert source.splitlines()[fault.line - 1] == "@triton.jit"
    source = SOURCE.replace("    T,\n", "    T: tl.constexpr,\n").replace(
        "(do_not_specialize=['T'])", ""
    )
    (fault,) = find_faults(
        tuned_launch(tmp_path, call(T=constexpr(512)), call(T=constexpr(1024)), source=source)
    )
    assert fault.fix == "    T,"
    assert source.splitlines()[(fault.line or 0) - 1] == "    T: tl.constexpr,"


@pytest.mark.parametrize("name", ["T", "NT", "seqlen_q", "total_tokens"])
def test_a_sequence_length_as_a_key_is_a_storm(tmp_path: Path, name: str) -> None:
    """A key with the name of a sequence length retunes for every value."""
    source = SOURCE.replace("['H', 'K', 'USE_G']", "['T', 'H', 'K', 'USE_G']")
    args = call()
    args_of_length = {(name if n == "T" else n): spec for n, spec in args.items()}
    (fault,) = find_faults(
        tuned_launch(
            tmp_path,
            args_of_length,
            source=source.replace("'T'", f"'{name}'").replace("T,\n", f"{name},\n"),
        )
    )
    assert (fault.fault, fault.key, fault.want, fault.got) == ("storm", name, None, name)
    assert f"'{name}'" not in fault.fix.partition("#")[0]
    bucket = source.replace("'T'", "'T_BUCKET'").replace("T,\n", "T_BUCKET,\n")
    args_of_length = {("T_BUCKET" if n == "T" else n): spec for n, spec in args.items()}
    assert find_faults(tuned_launch(tmp_path, args_of_length, source=bucket)) == []


def test_many_values_are_a_storm_whatever_the_name(tmp_path: Path) -> None:
    """A key with eight values is a storm under any name."""
    assert (
        find_faults(
            tuned_launch(tmp_path, *[call(H=constexpr(n)) for n in range(1, 8)], driven=True)
        )
        == []
    )
    (fault,) = find_faults(
        tuned_launch(tmp_path, *[call(H=constexpr(n)) for n in range(1, 9)], driven=True)
    )
    assert names_of([fault]) == [("storm", "H")]
    assert "8 values" in fault.why


def test_a_constant_key_is_told_of_a_programs_launches_only(tmp_path: Path) -> None:
    """A key is constant only if four launches of a program show it."""
    calls = [call(K=constexpr(size)) for size in (16, 32, 64, 128)]
    one, other = find_faults(tuned_launch(tmp_path, *calls))
    assert (names_of([one, other]), one.got) == ([("constant", "H"), ("constant", "USE_G")], "4")
    assert "key=['K']," in one.fix
    assert (
        find_faults(tuned_launch(tmp_path, *calls, driven=True))
        == []
        == find_faults(tuned_launch(tmp_path, *calls[:3]))
    )


def test_a_key_that_follows_from_another_is_constant(tmp_path: Path) -> None:
    """A key that is a function of another key is constant."""
    calls = [call(H=constexpr(n), K=constexpr(16 * n)) for n in (1, 2, 4, 8)]
    from_heads = [
        fault for fault in find_faults(tuned_launch(tmp_path, *calls)) if fault.key == "K"
    ]
    assert names_of(from_heads) == [("constant", "K")]
    assert "follows from H" in from_heads[0].why
    free = [*calls, call(H=constexpr(8), K=constexpr(16))]
    assert [fault for fault in find_faults(tuned_launch(tmp_path, *free)) if fault.key == "K"] == []


def test_one_list_mends_all_faults(tmp_path: Path) -> None:
    """The fixes of all faults are one list of keys, after which no fault is left."""
    source = SOURCE.replace("['H', 'K', 'USE_G']", "['T', 'KK', 'USE_G']")
    calls = (call(), call(H=constexpr(8)), call(K=constexpr(32)))
    several = find_faults(tuned_launch(tmp_path, *calls, source=source))
    assert {fault.fault for fault in several} == {"no-argument", "storm", "missing"}
    assert len({fault.fix for fault in several}) == 1
    assert several[0].line
    assert several[0].end_line
    new = paste(source, several[0].line, several[0].end_line, several[0].fix)
    assert find_faults(tuned_launch(tmp_path, *calls, source=new)) == []
    assert correct_keys(["A", "B"], []) == ["A", "B"]
