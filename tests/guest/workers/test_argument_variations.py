"""Which refused launches no other arguments would save: every release's front end is asked."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from flacheck import toolchains
from flacheck.engine.executors import LocalPool, Task
from flacheck.engine.sandbox import WorkerKind
from flacheck.model import Outcome
from flacheck.tables import targets

pytestmark = pytest.mark.network

_SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def unknown_call(x, n, FLAG: tl.constexpr):
    offsets = tl.arange(0, 16)
    value = tl.load(x + offsets, mask=offsets < n)
    if FLAG:
        value = value.unheard_of()
    tl.store(x + offsets, value)


@triton.jit
def needs_integers(x, y, n, FLAG: tl.constexpr):
    offsets = tl.arange(0, 16)
    value = tl.load(x + offsets) ^ tl.load(y + offsets)
    tl.store(x + offsets, value)


@triton.jit
def needs_larger_tiles(x, D: tl.constexpr):
    rows = tl.make_block_ptr(x, (64, D), (D, 1), (0, 0), (64, D), (1, 0))
    tile = tl.load(rows)
    tl.store(x + tl.arange(0, 64), tl.sum(tl.dot(tile, tl.trans(tile)), 1))


@triton.jit
def needs_floats_and_larger_tiles(x, D: tl.constexpr):
    rows = tl.make_block_ptr(x, (64, D), (D, 1), (0, 0), (64, D), (1, 0))
    tile = tl.load(rows)
    tl.store(x + tl.arange(0, 64), tl.sum(tl.dot(tile, tl.trans(tile)), 1))


@triton.jit
def divides(x, y):
    rows = tl.arange(0, 16)
    tl.store(x + rows, tl.math.fdiv(tl.load(x + rows), tl.load(y + rows)))


@triton.jit
def rejects(x, n, FLAG: tl.constexpr):
    tl.static_assert(FLAG is None, "no flag")
"""
_TENSOR = {"dtype": "bf16", "align": 16}
_UNKNOWN = {"x": _TENSOR, "n": {"int": 7}, "FLAG": {"constexpr": True}}


@pytest.mark.parametrize("release", ["3.0.0", "3.6.0"])
def test_only_what_no_argument_gets_past_fails_alike(release: str) -> None:
    """A method that the language lacks fails alike; operands of the wrong dtype or size do not.

    An assertion is about the arguments, so nothing is tried for it.
    """
    facts = _facts(
        _worker_kind(release),
        unknown_call=_UNKNOWN,
        needs_integers={**_UNKNOWN, "y": _TENSOR},
        needs_larger_tiles={"x": _TENSOR, "D": {"constexpr": 4}},
        needs_floats_and_larger_tiles={
            "x": {"dtype": "i32", "align": 16},
            "D": {"constexpr": 4},
        },
        rejects=_UNKNOWN,
    )
    assert facts["unknown_call"]["variations"]["alike"] is True
    assert facts["unknown_call"]["variations"]["depends_on"] == []
    assert facts["needs_integers"]["variations"]["alike"] is False
    assert facts["needs_integers"]["variations"]["depends_on"] == ["the dtypes of all tensors"]
    assert facts["needs_larger_tiles"]["variations"]["alike"] is False
    assert facts["needs_larger_tiles"]["variations"]["depends_on"] == ["D"]
    # No single variation meets both requirements of the dot.
    assert facts["needs_floats_and_larger_tiles"]["variations"]["alike"] is False
    assert facts["needs_floats_and_larger_tiles"]["variations"]["depends_on"]
    assert facts["rejects"] == {}


@pytest.mark.parametrize("release", ["3.0.0", "3.6.0"])
def test_operands_of_different_types_depend_on_the_dtypes(release: str) -> None:
    """Releases up to 3.8 do not convert them; the verifier refuses them."""
    arguments = {"x": {"dtype": "fp32", "align": 16}, "y": _TENSOR}
    facts = _facts(_worker_kind(release), divides=arguments)
    assert facts["divides"]["variations"]["depends_on"] == ["the dtypes of all tensors"]


def _worker_kind(release: str) -> WorkerKind:
    (choice,) = toolchains.resolve([release]).choices
    if choice.reason:
        pytest.skip(choice.reason)
    toolchain = toolchains.provide(choice)
    config = {**toolchain.worker_config(), "trust": True}
    return WorkerKind(toolchain.identity, config, dict(toolchain.environment))


def _facts(kind: WorkerKind, **arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of each kernel's refused launch."""
    card = dataclasses.asdict(targets.find("sm90"))
    tasks = []
    for name, specs in arguments.items():
        request = {
            "op": "compile",
            "kernel": {"source": _SOURCE, "qualname": name},
            "card": card,
            "launch": {"args": specs},
            "options": {},
            "vary": True,
        }
        tasks.append(Task(name, kind, request))
    pool = LocalPool(1, lambda task: 120)
    facts = {}
    try:
        pool.submit(tasks)
        for ended in pool.results():
            for task, attempt in ended:
                assert attempt.outcome is Outcome.RAISED, attempt.log
                facts[task.name] = dict(attempt.facts)
    finally:
        pool.close()
    return facts
