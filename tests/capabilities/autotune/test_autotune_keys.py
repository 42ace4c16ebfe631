"""Tuning keys of a release, and the specialisation of arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from flacheck.capabilities.autotune.keys import KeyEvidence, plain, specialisation
from tests.made_tuned import TENSOR, call, constexpr, tuned_launch


def evidence(folder: Path, *calls: dict[str, Any]) -> KeyEvidence:
    return KeyEvidence(tuned_launch(folder, *calls), Version("3.5.1"))


@pytest.mark.parametrize(
    ("spec", "key_part"),
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
def test_the_compiler_looks_at_integers_and_constexprs(spec: Any, key_part: str | None) -> None:
    """An integer is specialised by 1 and by multiples of 16; floats are not."""
    assert specialisation(spec) == key_part


@pytest.mark.parametrize(
    ("spec", "value"),
    [({"int": 7}, 7), ({"constexpr": None}, None), ({"float": 0.5}, 0.5), (TENSOR, TENSOR)],
)
def test_a_key_holds_plain_values(spec: Any, value: Any) -> None:
    """A number is its own key; a tensor's key is its description."""
    assert plain(spec) == value


def test_calls_are_told_apart_by_their_key(tmp_path: Path) -> None:
    """Calls that differ in an argument outside the key share a key."""
    key_evidence = evidence(
        tmp_path, call(), call(T={"int": 7}), call(K=constexpr(8), BK=constexpr(32))
    )
    lengths = [[args["T"]["int"] for args in calls] for calls in key_evidence.by_key.values()]
    assert lengths == [[512, 7], [512]]


def test_a_key_is_values_and_dtypes(tmp_path: Path) -> None:
    """A key lists values in key order, then dtypes in argument order."""
    key_evidence = evidence(tmp_path)
    assert key_evidence.key(call(g=TENSOR)) == ([4, 64, False], ["bf16", "bf16"])


@pytest.mark.parametrize(
    ("spec", "is_length"), [({"int": 512}, True), (constexpr(512), True), ({"float": 0.5}, False)]
)
def test_a_length_is_an_integer_by_the_name_of_one(
    tmp_path: Path, spec: dict[str, Any], is_length: bool
) -> None:
    """An integer argument named T is a length."""
    key_evidence = evidence(tmp_path, call(T=spec))
    assert key_evidence.is_length("T") == is_length
    assert not key_evidence.is_length("H")
