"""The identity of a failure whose message has no cause."""

from __future__ import annotations

from typing import Any

import pytest

from flacheck.capabilities.repro import identity, versions
from flacheck.capabilities.repro.compilers import Compilers
from flacheck.capabilities.repro.oracle import Oracle, same_code, same_signature
from flacheck.capabilities.repro.versions import ReleaseVerdict
from flacheck.model import Attempt, Cell, Outcome, Verdict
from tests.made_records import record
from tests.made_specimens import FAILING, FAILS, SIGNATURE, FakeCompilers, chain, oracle

OTHER = "FC301:llir:-:4f5da522"
COMPILES = ReleaseVerdict(Verdict.COMPILES)


@pytest.mark.parametrize(
    ("message", "signature", "weak"),
    [
        # An exception's name is not a cause: three bugs raise an IndexError from `map::at`.
        ("IndexError: map::at", "FC303:llir:-:1", True),
        ("what():  map::at", "FC303:llir:-:1", True),
        ("map::at", "FC303:llir:-:1", True),
        # A wrapper's message does not name the pass.
        ("RuntimeError: PassManager::run failed", "FC000:ttgir:-:1", True),
        ("RuntimeError: Internal Triton PTX codegen error", "FC000:llir:-:1", True),
        ("RuntimeError: Unsupported rounding mode for conversion", "FC301:llir:-:1", False),
        ("SIGSEGV in stage llir, nothing on stderr", "FC000:llir:-:1", True),
        ("LinearLayout.cpp:1: int f(): Assertion `ok' failed.", "FC302:llir:f:1", False),
    ],
)
def test_few_words_without_a_function_are_weak(message: str, signature: str, weak: bool) -> None:
    """A short message without a compiler function is a weak identity."""
    signal = "SIGSEGV" if "SIGSEGV" in message else None
    failing = record("fails", code="FC303", signature=signature, message=message, signal=signal)
    assert identity.is_weak(failing) is weak


class DumpingCompilers(FakeCompilers):
    """Compilers that return one pass for every request of passes."""

    def __init__(self, last_pass: str) -> None:
        super().__init__(lambda _: True)
        self.begun = last_pass

    def ask(self, cell: Cell, **changes: Any) -> Attempt:
        if changes.get("op") != "passes":
            return super().ask(cell, **changes)
        names = ["ConvertTritonToTritonGPU", self.begun]
        log = "".join(
            f"// -----// IR Dump Before {name} (a-pass) ('module') //----- //\n" for name in names
        )
        return Attempt(Outcome.DIED, log=log)


def test_the_pass_that_was_begun_last_is_the_one_that_fails() -> None:
    """The last pass in the dump is the failing one."""
    assert identity.failing_pass(chain(), FAILS, DumpingCompilers("InsertAref")) == "InsertAref"
    silent: Compilers = FakeCompilers(lambda _: True)
    assert identity.failing_pass(chain(), FAILS, silent) is None


def test_a_candidate_that_fails_in_another_pass_is_refused() -> None:
    """A failure in another pass is a slip."""
    asking = oracle(DumpingCompilers("InsertAref"))
    assert asking(chain())
    asking.failing_pass = "AnotherPass"
    assert not asking(chain())
    assert asking.effort.slips == 1


def test_neighbours_are_the_nearest_that_differ_in_whatever_way() -> None:
    """The nearest release with another verdict is a neighbour, except one that cannot read the
    source."""
    table = {
        "triton==3.0.0": COMPILES,
        "triton==3.1.0": ReleaseVerdict(Verdict.FAILS, SIGNATURE),
        FAILS: ReleaseVerdict(Verdict.FAILS, SIGNATURE),
        "triton==3.3.0": ReleaseVerdict(Verdict.FAILS, "FC101:ast:-:1"),
        "triton==3.3.1": ReleaseVerdict(Verdict.FAILS, OTHER),
        "triton==3.4.0": COMPILES,
    }
    assert versions.neighbours(table, FAILS) == ["triton==3.0.0", "triton==3.3.1"]
    assert versions.contrasts(table, FAILS) == ["triton==3.0.0", "triton==3.4.0"]


def test_a_neighbour_must_go_on_failing_in_its_own_way() -> None:
    """A candidate must fail on the neighbour as the original does."""
    neighbour = {"triton==3.3.0": ReleaseVerdict(Verdict.FAILS, OTHER)}

    def accepts(compilers: Compilers) -> bool:
        return Oracle(compilers, FAILS, same_signature(FAILING), neighbour)(chain())

    otherwise = FakeCompilers(lambda _: True, slips=lambda _: True)
    assert accepts(otherwise)
    assert not accepts(FakeCompilers(lambda _: True))


def test_a_failure_known_by_its_code_is_compared_by_codes() -> None:
    """Failures of autotuners are compared by code."""
    failure = same_code(record("fails", code="FC601", signature="FC601:autotune:-:1"))
    verdict = ReleaseVerdict(Verdict.FAILS, "FC602:autotune:-:1")
    assert failure.agrees(verdict, record("fails", code="FC602", signature="FC602:autotune:-:9"))
    assert not failure.agrees(verdict, record("fails", code="FC603", signature="FC603:x:-:9"))
    assert not failure.agrees(verdict, record("compiles"))
