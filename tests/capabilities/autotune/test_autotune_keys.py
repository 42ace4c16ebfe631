"""What a release tells launches apart by, and what the compiler looks at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from flacheck.capabilities.autotune.keys import KeyEvidence, plain, specialisation
from tests.made_tuned import TENSOR, call, constexpr, tuned


def evidence(folder: Path, *calls: dict[str, Any]) -> KeyEvidence:
    return KeyEvidence(tuned(folder, *calls), Version("3.5.1"))


@pytest.mark.parametrize(
    ("spec", "seen"),
    [
        ({"int": 1}, "1"),
        ({"int": 512}, "a multiple of 16"),
        ({"int": 1000}, "any other integer"),
        ({"constexpr": 64}, '{"constexpr":64}'),
        ({"bool": True}, None),
        ({"float": 1.0}, None),
        (TENSOR, None),
        (None, None),
    ],
)
def test_the_compiler_looks_at_integers_and_constexprs(spec: Any, seen: str | None) -> None:
    """At an integer only for whether it is 1 or a multiple of 16; at other numbers not at all."""
    assert specialisation(spec) == seen


@pytest.mark.parametrize(
    ("spec", "value"),
    [({"int": 7}, 7), ({"constexpr": None}, None), ({"float": 0.5}, 0.5), (TENSOR, TENSOR)],
)
def test_a_key_holds_plain_values(spec: Any, value: Any) -> None:
    """The number itself; of what is no number, all that is known."""
    assert plain(spec) == value


def test_calls_are_told_apart_by_their_key(tmp_path: Path) -> None:
    """T is in no key, so two lengths share one; what a configuration supplies tells nothing."""
    known = evidence(tmp_path, call(), call(T={"int": 7}), call(K=constexpr(8), BK=constexpr(32)))
    lengths = [[args["T"]["int"] for args in calls] for calls in known.by_key.values()]
    assert lengths == [[512, 7], [512]]


def test_a_key_is_values_and_dtypes(tmp_path: Path) -> None:
    """In the order of the keys, then in that of the arguments."""
    known = evidence(tmp_path)
    assert known.key(call(g=TENSOR)) == ([4, 64, False], ["bf16", "bf16"])


@pytest.mark.parametrize(
    ("spec", "is_length"), [({"int": 512}, True), (constexpr(512), True), ({"float": 0.5}, False)]
)
def test_a_length_is_an_integer_by_the_name_of_one(
    tmp_path: Path, spec: dict[str, Any], is_length: bool
) -> None:
    """`T`, whatever its value, unless a call passes something else."""
    known = evidence(tmp_path, call(T=spec))
    assert known.is_length("T") == is_length
    assert not known.is_length("H")
