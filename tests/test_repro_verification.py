"""What a maintainer will see: scripts in processes of their own, and Triton's IR."""

from __future__ import annotations

from typing import Any

import pytest

from flacheck.model import Attempt, Cell, Outcome
from flacheck.repro.oracle import same_signature
from flacheck.repro.reproduction import exit_status, surviving_ir, without_locations
from flacheck.toolchains.base import Toolchain
from tests.made_records import record
from tests.made_specimens import FAILS, chain

TOOLCHAIN = Toolchain("fake", "1.0", "fake==1.0", "path", ("/nowhere",), "")


@pytest.mark.parametrize("status", [0, 1, 125])
def test_a_script_tells_by_its_exit_status(status: int) -> None:
    """In a real process."""
    assert exit_status(f"raise SystemExit({status})", TOOLCHAIN) == status


def test_a_script_has_only_the_release_to_import_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the user's environment reaches it, and its folder is its own."""
    monkeypatch.setenv("LD_PRELOAD_OF_MINE", "1")
    script = """\
import os
assert os.environ["PYTHONPATH"] == "/nowhere"
assert "LD_PRELOAD_OF_MINE" not in os.environ
assert os.environ["HOME"] == os.environ["TMPDIR"] == os.getcwd()
assert os.listdir() == ["repro.py"]
"""
    assert exit_status(script, TOOLCHAIN) == 0


class ShowingCompilers:
    """Gives some IR, and an answer to the compile of that IR."""

    def __init__(self, shown: Attempt, compiled: Attempt) -> None:
        self._answers = {"show": shown, "compile_ir": compiled}
        self.asked: list[dict[str, Any]] = []

    def ask(self, cell: Cell, **changes: Any) -> Attempt:
        self.asked.append(changes)
        return self._answers[changes["op"]]


IR = Attempt(
    Outcome.FINISHED, facts={"ttir": '#loc = loc("/home/k.py":1:0)\nmodule {} loc(#loc)\n'}
)
DIED = Attempt(Outcome.RAISED, stage="llir", log="RuntimeError: boom", exception=("RuntimeError",))


def test_ir_that_fails_in_the_same_way_is_kept_without_locations() -> None:
    """It is compiled as it is written, and to its end."""
    cell = chain().cell(FAILS)
    compilers = ShowingCompilers(IR, DIED)
    failing = record("fails", code="FC000", signature=signature_of(cell))
    assert surviving_ir(cell, same_signature(failing), compilers) == "module {}\n"
    assert compilers.asked[1] == {"op": "compile_ir", "ir": "module {}\n", "until": None}


def signature_of(cell: Cell) -> str:
    from flacheck.engine.judge import judge

    return str(judge(cell, DIED).signature)


def test_ir_that_compiles_or_is_not_there_is_not_kept() -> None:
    """A kernel that the front end refuses has none."""
    cell = chain().cell(FAILS)
    failing = same_signature(record("fails", code="FC302", signature=signature_of(cell)))
    compiles = Attempt(Outcome.FINISHED)
    assert surviving_ir(cell, failing, ShowingCompilers(IR, compiles)) is None
    assert surviving_ir(cell, failing, ShowingCompilers(DIED, DIED)) is None


def test_ir_loses_the_places_of_its_source() -> None:
    """They name files of the machine that it was made on."""
    text = '#loc = loc("/home/k.py":1:0)\n%0 = x loc(#loc)\n%1 = y loc("a"(#loc1))\n'
    assert without_locations(text) == "%0 = x\n%1 = y\n"
