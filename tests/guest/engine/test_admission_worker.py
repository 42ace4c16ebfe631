"""The worker itself checks the source of a launches file again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flacheck import toolchains
from flacheck.engine.executors import LocalPool, Task
from flacheck.engine.judge import judge
from flacheck.engine.provider import worker_kind
from flacheck.model import Attempt, Cell, Cut, Kernel, Launch, Outcome, Verdict
from flacheck.tables import targets

SOURCE = """
import triton
import triton.language as tl
from triton.language.extra import libdevice

EXP = tl.exp


@triton.jit
def inner(B: tl.constexpr):
    tl.static_assert(B > 0)


@triton.jit
def plain(x, F: tl.constexpr, B: tl.constexpr = 1):
    tl.store(x, libdevice.abs(EXP(tl.load(x))) + triton.cdiv(B, 2))


@triton.jit
def launching(x, F: tl.constexpr):
    F[0](B=1, ir_override="/etc/hostname")
"""
X = {"x": {"dtype": "fp32", "align": 16}, "F": {"constexpr": None}}


@pytest.fixture(scope="module")
def worker_answers() -> Iterator[Callable[..., Attempt]]:
    """Return a function that compiles a source; all tests share the worker."""
    toolchain = toolchains.provide(toolchains.FAMILIES["triton"].find_installed())
    pool = LocalPool(1, lambda task: 120)

    def ask(
        source: str, args: dict[str, Any], name: str = "plain", trust: bool = False, **launch: Any
    ) -> Attempt:
        request = {
            "op": "compile",
            "kernel": {"source": source, "qualname": name},
            "card": dataclasses.asdict(targets.find("sm90")),
            "target": "sm90",
            "launch": {"args": args, **launch},
            "options": {},
            "until": "ttir",
        }
        pool.submit([Task(0, worker_kind(toolchain, None, False, 8192, trust), request)])
        [(_, attempt)] = next(pool.results())
        return attempt

    yield ask
    pool.close()


def refusal(attempt: Attempt) -> str:
    """Return the reason of the record; it is never a failure of the compiler."""
    kernel = Kernel("program:k", None, "", Cut("", "k"))
    record = judge(Cell(kernel, "triton==3.9.0", "sm90", Launch({})), attempt)
    assert (record.verdict, record.code) == (Verdict.UNKNOWN, None), attempt.log
    assert record.reason is not None
    assert record.reason.endswith("--trust compiles it all the same")
    return record.reason


def test_a_source_of_the_language_compiles(worker_answers: Callable[..., Attempt]) -> None:
    """Builtins, library functions, constants and Triton's own functions are accepted."""
    answer = worker_answers(SOURCE, X)
    assert answer.outcome is Outcome.FINISHED, answer.log


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("EXP = tl.core", "triton.language.core is the module"),
        ("EXP = tl.core.os.system", "triton.language.core is the module"),
        ("EXP = libdevice", "the module libdevice is used as a value"),
        ("EXP = triton.runtime.driver", "triton.runtime is the module"),
        ("EXP = triton.jit", "triton.jit is not a function"),
        ("from os import system as EXP", "os is not a module"),
        ("import triton.runtime as EXP", "triton.runtime is not a module"),
        ("from triton.language import core as EXP", "triton.language.core is the module"),
        ("from triton.language.math import wraps as EXP", "math.wraps is not a function"),
    ],
)
def test_a_name_that_leads_out_of_the_language_is_refused(
    worker_answers: Callable[..., Attempt], source: str, what: str
) -> None:
    """The source is refused before its module runs."""
    assert what in refusal(worker_answers(SOURCE.replace("EXP = tl.exp", source), X))


@pytest.mark.parametrize("option", ["extern_libs", "ir_override", "debug", "grid"])
def test_an_argument_that_is_not_a_parameter_is_refused(
    worker_answers: Callable[..., Attempt], option: str
) -> None:
    """Triton would take such an argument for an option, and some options name files."""
    args = {**X, option: {"constexpr": "/etc/hostname.ptx"}}
    assert f"the argument {option} is not a parameter" in refusal(worker_answers(SOURCE, args))
    configs = [{"kwargs": {option: 1}}]
    answer = worker_answers(SOURCE, X, configs=configs)
    assert f"the argument {option} is not a parameter" in refusal(answer)


def test_a_module_is_not_a_constant_of_a_launch(worker_answers: Callable[..., Attempt]) -> None:
    """A launch may name functions that the kernel's source holds."""
    answer = worker_answers(SOURCE, {**X, "F": {"constexpr": {"function": "tl"}}})
    assert "the constant tl is not a function" in refusal(answer)
    answer = worker_answers(SOURCE, {**X, "F": {"constexpr": {"function": "inner"}}})
    assert answer.outcome is Outcome.FINISHED, answer.log


def test_a_kernel_launches_no_kernel(worker_answers: Callable[..., Attempt]) -> None:
    """The options of such a launch would be the source's own."""
    args = {**X, "F": {"constexpr": {"function": "inner"}}}
    assert "the source launches a kernel" in refusal(worker_answers(SOURCE, args, "launching"))


def test_a_function_that_triton_reads_otherwise_is_refused(
    worker_answers: Callable[..., Attempt],
) -> None:
    """The file holds a second text, which Python does not run."""
    hidden = "\ndef plain(x, F):\n    tl.store(x, 0.0)\n\n#"
    decorator = f"@triton.jit(do_not_specialize=['''{hidden}'''])"
    source = SOURCE.replace("@triton.jit\ndef plain", f"{decorator}\ndef plain")
    assert "Triton reads plain otherwise" in refusal(worker_answers(source, X))


def test_a_trusted_source_is_not_held_to_the_language(
    worker_answers: Callable[..., Attempt],
) -> None:
    """With `--trust` the source is not checked."""
    source = SOURCE.replace("EXP = tl.exp", "import os\nEXP = tl.exp\nNAME = os.name")
    answer = worker_answers(source, X, trust=True)
    assert answer.outcome is Outcome.FINISHED, answer.log
    assert "os is not a module" in refusal(worker_answers(source, X))
