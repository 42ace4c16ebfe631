"""Trials beside real compilers: the release's own Autotuner on one configuration."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from flacheck.engine.sandbox import WorkerKind
from flacheck.model import Outcome
from flacheck.tables import targets
from tests.guest.workers import test_guest

pytestmark = pytest.mark.network
# Workers beside the same releases.
kind, run, version = test_guest.kind, test_guest.run, test_guest.version

SOURCE = """\
import triton
import triton.language as tl



@triton.heuristics({"FLAG": lambda args: args["y"] is not None})
@triton.autotune(
    configs=[triton.Config({"BN": 32}, num_warps=2), triton.Config({"BN": 64}, num_warps=4)],
    key=["length", "FLAG"],
    reset_to_zero=["x"],
)
@triton.jit
def tuned(x, y, length, BN: tl.constexpr, FLAG: tl.constexpr):
    tl.static_assert(BN != 16)
    rows = tl.arange(0, BN)
    total = tl.zeros([BN, BN], tl.float32)
    for i in range(length):
        tile = tl.load(x + i * BN * BN + rows[:, None] * BN + rows[None, :])
        total += tl.dot(tile, tile)
    tl.store(x + rows[:, None] * BN + rows[None, :], total.to(tl.float16))


@triton.heuristics({"FLAG": lambda args: args["x"].shape[0] > 8})
@triton.autotune(configs=[triton.Config({"BN": 32}), triton.Config({"BN": 64})], key=["length"])
@triton.jit
def measuring(x, length, BN: tl.constexpr, FLAG: tl.constexpr):
    tl.static_assert(FLAG)
    tl.store(x + tl.arange(0, BN), length.to(tl.float16))


@triton.jit
def bare(x, length, FLAG: tl.constexpr, BN: tl.constexpr):
    tl.store(x + tl.arange(0, BN), FLAG + length)


@triton.jit
def abroad(x, BN: tl.constexpr):
    tl.store(x + tl.arange(0, BN), undefined_name)
"""
TENSOR = {"dtype": "fp16", "align": 16}
ARGS: dict[str, Any] = {"x": TENSOR, "y": TENSOR, "length": {"int": 1000}}


def config(size: int, **more: int) -> dict[str, Any]:
    return {"kwargs": {"BN": size}, "num_warps": 4, "num_stages": 2, **more}


def request_for(
    op: str, name: str, *configs: dict[str, Any], args: dict[str, Any] = ARGS, limit: int = 0
) -> dict[str, Any]:
    """Return a request; a `limit` in bytes makes the card one with less shared memory."""
    card = dataclasses.asdict(targets.find("sm90"))
    launch = {"args": args, "configs": list(configs), "keys": ["length", "FLAG"]}
    card |= {"shared_limit": limit} if limit else {}
    return {
        "op": op,
        "kernel": {"source": SOURCE, "qualname": name},
        "card": card,
        "launch": launch,
        "options": {},
    }


def test_what_compiles_and_fits_runs(kind: WorkerKind) -> None:
    """The trial has the resources of a plain compile."""
    plain = {**request_for("compile", "tuned"), "options": {"num_warps": 4, "num_stages": 2}}
    plain["launch"] = {"args": {**ARGS, "BN": {"constexpr": 64}}}
    trial, binary = run(kind, request_for("trial", "tuned", config(64), config(32)), plain)
    assert (trial.outcome, trial.stage) == (Outcome.FINISHED, "load"), trial.log
    assert trial.resources == binary.resources
    assert trial.resources.registers


def test_the_releases_own_autotuner_skips_what_it_forgives(kind: WorkerKind) -> None:
    """A static assertion, and shared memory over the card's limit: with others in the list, and
    alone.
    """
    forgiven, alone, over, over_alone = run(
        kind,
        request_for("trial", "tuned", config(16), config(64)),
        request_for("trial", "tuned", config(16)),
        request_for("trial", "tuned", config(64), config(32), limit=4096),
        request_for("trial", "tuned", config(64), limit=4096),
    )
    assert [a.outcome for a in (forgiven, alone, over, over_alone)] == [Outcome.RAISED] * 4
    assert (forgiven.tolerated, alone.tolerated) == (True, False)
    assert "CompileTimeAssertionFailure" in forgiven.exception
    assert (over.tolerated, over_alone.tolerated) == (True, False)
    assert over.exception[0] == "OutOfResources"
    assert over.stage == "load"
    assert "Hardware limit: 4096" in over.log
    assert (over.resources.shared or 0) > 4096


def test_any_other_error_ends_the_run(kind: WorkerKind) -> None:
    """This holds also if other configurations would compile."""
    (attempt,) = run(
        kind, request_for("trial", "abroad", config(32), config(64), args={"x": TENSOR})
    )
    assert attempt.outcome is Outcome.RAISED
    assert not attempt.tolerated
    assert "undefined_name" in attempt.log


def test_a_function_without_its_autotuner_gets_the_releases(kind: WorkerKind) -> None:
    """Kernels that are cut out of their files have the same configurations."""
    args = {"x": TENSOR, "length": {"int": 3}, "FLAG": {"constexpr": 1}}
    trial, keys = run(
        kind,
        request_for("trial", "bare", config(64), config(32), args=args),
        request_for("keys", "bare", config(64), config(32), args=args),
    )
    assert trial.outcome is Outcome.FINISHED, trial.log
    assert [(key["key"], key["got"]) for key in keys.facts["keys"]] == [
        ("length", "length"),
        ("FLAG", "FLAG"),
    ]


def test_keys_are_read_without_a_compile_and_trials_leave_no_trace(kind: WorkerKind) -> None:
    """Keys are read by position up to 3.1, where BN stands before FLAG, before and after a trial in
    one worker.
    """
    question = request_for("keys", "tuned", config(64), config(32))
    before, trial, view, after = run(
        kind,
        question,
        request_for("trial", "tuned", config(64), config(32)),
        request_for("inspect", "tuned"),
        question,
    )
    assert trial.outcome is Outcome.FINISHED
    assert (before.facts, before.outcome) == (after.facts, after.outcome)
    assert view.facts["keys"] == ["length", "FLAG"]
    assert len(view.facts["configs"]) == 2
    faults = [key["fault"] for key in before.facts["keys"]]
    assert faults == ([None, "past-end"] if version(kind) < (3, 2) else [None, None])
    assert before.resources.registers is None


def measuring(op: str, **heuristics: dict[str, Any]) -> dict[str, Any]:
    """Return a request for the kernel whose heuristic reads a shape."""
    args = {"x": TENSOR, "length": {"int": 1000}}
    question = request_for(op, "measuring", config(32), config(64), args=args)
    question["launch"]["heuristics"] = heuristics
    return question


@pytest.mark.parametrize("op", ["autotune", "keys", "trial"])
def test_heuristics_give_what_was_recorded(kind: WorkerKind, op: str) -> None:
    """A heuristic that reads the shape of a tensor without data gets its recorded value; the next
    launch of the kernel uses the kernel's own heuristics."""
    bare, constant = measuring(op), measuring(op, FLAG={"constexpr": True})
    record, computation = run(kind, constant, bare)
    assert record.outcome is Outcome.FINISHED, record.log
    assert computation.outcome is Outcome.RAISED
    assert "has no attribute 'shape'" in computation.log


def test_an_autotuner_run_ends_at_the_stage_asked_for(kind: WorkerKind) -> None:
    """The key has been built by that stage."""
    question = measuring("autotune", FLAG={"constexpr": True})
    (result,) = run(kind, {**question, "until": "ttir"})
    assert result.outcome is Outcome.FINISHED, result.log
    assert result.facts["configs"] == 2
