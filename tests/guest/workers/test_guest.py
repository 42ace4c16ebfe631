"""The guest beside real compilers: what every release must do alike."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from flacheck import toolchains
from flacheck.engine.executors import LocalPool, Task
from flacheck.engine.sandbox import Worker, WorkerKind
from flacheck.model import Attempt, Outcome
from flacheck.tables import targets

RELEASES = ("3.1.0", "3.2.0", "3.5.1", "3.9.0")

SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def helper(x, n: tl.constexpr):
    return x * n


@triton.jit
def kernel(x, y, length, scale, nothing, N: tl.constexpr, DTYPE: tl.constexpr):
    offsets = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + offsets, mask=offsets < length)
    if nothing is not None:
        value += tl.load(nothing + offsets)
    tl.store(y + offsets, (helper(value, N) * scale).to(DTYPE), mask=offsets < length)


@triton.jit
def dots(x, y):
    rows = tl.arange(0, 64)
    tile = tl.load(x + rows[:, None] * 64 + rows[None, :])
    cols = tl.arange(0, 32)
    other = tl.load(y + rows[:, None] * 32 + cols[None, :])
    first = tl.dot(tile, other.to(tile.dtype))
    second = tl.dot(tile, first.to(tile.dtype))
    tl.store(x + rows[:, None] * 32 + cols[None, :], second.to(tl.float16))


@triton.autotune(
    configs=[triton.Config({"BN": 32}, num_warps=2), triton.Config({"BN": 64}, num_warps=4)],
    key=["length", "FLAG"],
)
@triton.jit
def tuned(x, length, BN: tl.constexpr, FLAG: tl.constexpr):
    offsets = tl.arange(0, BN)
    tl.store(x + offsets, offsets * FLAG, mask=offsets < length)


@triton.autotune(
    configs=[triton.Config({"BN": 32}, num_warps=2), triton.Config({"BN": 64}, num_warps=4)],
    key=["length", "FLAG"],
)
@triton.jit
def shifted(x, length, BN: tl.constexpr, FLAG: tl.constexpr, OTHER: tl.constexpr):
    offsets = tl.arange(0, BN)
    tl.store(x + offsets, offsets * FLAG * OTHER, mask=offsets < length)
"""
ARGS: dict[str, Any] = {
    "x": {"dtype": "bf16", "align": 16},
    "y": {"dtype": "fp16", "align": 8},
    "length": {"int": 1000},
    "scale": {"float": 0.5},
    "nothing": None,
    "N": {"constexpr": 64},
    "DTYPE": {"constexpr": {"dtype": "fp16"}},
}
DOTS = {"x": {"dtype": "fp16", "align": 16}, "y": {"dtype": "fp32", "align": 16}}

pytestmark = pytest.mark.network


@pytest.fixture(scope="module", params=RELEASES)
def kind(request: pytest.FixtureRequest) -> WorkerKind:
    (choice,) = toolchains.resolve([request.param]).choices
    if choice.reason:
        pytest.skip(choice.reason)
    toolchain = toolchains.provide(choice)
    return WorkerKind(toolchain.identity, toolchain.worker_config(), dict(toolchain.environment))


def request_for(
    function: str, args: dict[str, Any], op: str = "compile", target: str = "sm90", **more: Any
) -> dict[str, Any]:
    card = dataclasses.asdict(targets.find(target))
    kernel = {"source": SOURCE, "qualname": function}
    return {
        "op": op,
        "kernel": kernel,
        "card": card,
        "launch": {"args": args},
        "options": {},
        **more,
    }


def run(kind: WorkerKind, *requests: dict[str, Any]) -> list[Attempt]:
    pool = LocalPool(1, lambda task: 120)
    try:
        pool.submit(Task(index, kind, request) for index, request in enumerate(requests))
        attempts = {task.name: attempt for batch in pool.results() for task, attempt in batch}
        return [attempts[index] for index in range(len(requests))]
    finally:
        pool.close()


def version(kind: WorkerKind) -> tuple[int, ...]:
    return tuple(int(part) for part in kind.name.partition("==")[2].split("."))


def test_inline_source_compiles_for_every_target_without_torch(kind: WorkerKind) -> None:
    """Pointers, integers, floats, None and constants of every kind compile, for old and new targets
    in one worker.
    """
    names = ("sm70", "sm80", "sm90", "sm70")
    args = {**ARGS, "x": {"dtype": "fp32"}}
    attempts = run(kind, *(request_for("kernel", args, target=name) for name in names))
    assert [attempt.outcome for attempt in attempts] == [Outcome.FINISHED] * 4, attempts[0].log
    assert all(attempt.resources.registers for attempt in attempts)
    assert [attempt.resources.stack for attempt in attempts] == [0] * 4
    assert attempts[0].resources.threads == 128


def test_resources_are_those_of_cuobjdump(kind: WorkerKind) -> None:
    """The assembler's figures equal those of the binary."""
    (usual,) = run(kind, request_for("dots", DOTS, options={"num_warps": 4}))
    assert usual.outcome is Outcome.FINISHED
    assert usual.resources.shared
    assert usual.resources.registers
    if version(kind) >= (3, 2):
        assert usual.resources.spills == 0


def test_a_real_crash_leaves_the_next_compile_alone(kind: WorkerKind) -> None:
    """Two chained dots with 8 warps abort 3.2.0 in llir; other releases compile them."""
    crash, after = run(
        kind, request_for("dots", DOTS, options={"num_warps": 8}), request_for("kernel", ARGS)
    )
    assert after.outcome is Outcome.FINISHED
    if version(kind) == (3, 2, 0):
        assert (crash.outcome, crash.signal, crash.stage) == (Outcome.DIED, "SIGABRT", "llir")
        assert "reshapeOuts" in crash.log
    else:
        assert crash.outcome is Outcome.FINISHED


def test_until_ast_stops_before_the_first_stage_of_the_backend(kind: WorkerKind) -> None:
    """Only the front end has run."""
    (attempt,) = run(kind, request_for("kernel", ARGS, until="ast"))
    assert (attempt.outcome, attempt.stage) == (Outcome.FINISHED, "ast")
    assert attempt.resources.shared is None


def test_until_stops_after_a_stage(kind: WorkerKind) -> None:
    """Later stages are not run."""
    (attempt,) = run(kind, request_for("kernel", ARGS, until="ttgir"))
    assert (attempt.outcome, attempt.stage) == (Outcome.FINISHED, "ttgir")
    assert attempt.resources.registers is None


def test_an_error_in_the_kernel_comes_back_with_its_traceback(kind: WorkerKind) -> None:
    """The error has the release's own message and its stage."""
    (attempt,) = run(kind, request_for("kernel", {**ARGS, "N": {"constexpr": 48}}))
    assert (attempt.outcome, attempt.stage) == (Outcome.RAISED, "ast")
    assert "power of 2" in attempt.log
    assert "CompilationError" in attempt.exception


def test_no_launch_fits_a_kernel_that_collects_its_constants(kind: WorkerKind) -> None:
    """The launcher's error has the parameter as the removed API; 3.9 refuses the definition."""
    request = request_for("old", {"x": ARGS["x"]})
    request["kernel"]["source"] = "import triton\n\n\n@triton.jit\ndef old(x, **meta):\n    pass\n"
    (attempt,) = run(kind, request)
    assert attempt.outcome is Outcome.RAISED
    assert "meta" in attempt.log
    if version(kind) < (3, 9):
        assert attempt.facts == {"api": "**meta"}


def test_the_real_autotuner_shows_its_keys(kind: WorkerKind) -> None:
    """3.1.0 reads past the end, or another argument; from 3.2.0 on keys are looked up by name."""
    args = {"x": {"dtype": "i32"}, "length": {"int": 40}, "FLAG": {"constexpr": 2}}
    past, shift = run(
        kind,
        request_for("tuned", args, "autotune"),
        request_for("shifted", {**args, "OTHER": {"constexpr": 3}}, "autotune"),
    )
    faults = [[entry["fault"] for entry in attempt.facts["keys"]] for attempt in (past, shift)]
    if version(kind) < (3, 2):
        assert "IndexError" in past.exception
        assert faults == [[None, "past-end"], [None, "shifted"]]
        assert shift.facts["keys"][1] == {
            "key": "FLAG",
            "want": "FLAG",
            "got": "OTHER",
            "fault": "shifted",
        }
    else:
        assert past.outcome is Outcome.FINISHED
        assert shift.outcome is Outcome.FINISHED
        assert faults == [[None, None], [None, None]]


def test_fresh_requests_are_answered_by_forks_of_one_server(kind: WorkerKind) -> None:
    """Each gets a fork of its own, and the compiler is started once."""
    worker = Worker(kind)
    for index in range(3):
        worker.send({**request_for("kernel", ARGS), "id": index, "timeout": 120}, fresh=True)
    events: list[dict[str, Any]] = []
    while len([event for event in events if event["event"] == "answer"]) < 3:
        events.append(worker.receive())
    worker.close()
    answers = [event for event in events if event["event"] == "answer"]
    assert [event["attempt"]["outcome"] for event in answers] == ["finished"] * 3
    assert len({event["pid"] for event in answers}) == 3
    assert len([event for event in events if event["event"] == "ready"]) == 1
