"""Verification of scripts in processes of their own, and of Triton's IR."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flacheck.capabilities.repro.oracle import same_signature
from flacheck.capabilities.repro.output.script import render
from flacheck.capabilities.repro.output.symptom import Symptom
from flacheck.capabilities.repro.verification import run_script, surviving_ir, without_locations
from flacheck.model import Attempt, Cell, Outcome
from flacheck.toolchains.base import Toolchain
from tests.made_records import record
from tests.made_specimens import FAILS, chain

TOOLCHAIN = Toolchain("fake", "1.0", "fake==1.0", "path", ("/nowhere",), "")


@pytest.mark.parametrize("status", [0, 1, 125])
def test_a_script_tells_by_its_exit_status(status: int) -> None:
    """The exit status is that of the script's process."""
    [run] = run_script(f"raise SystemExit({status})", TOOLCHAIN)
    assert run.status == status


def test_a_script_has_only_the_release_to_import_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The user's environment and packages do not reach the script."""
    monkeypatch.setenv("LD_PRELOAD_OF_MINE", "1")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "release").mkdir()
    (tmp_path / "release/compiler.py").write_text("")
    (tmp_path / "mine.py").write_text("")
    script = """\
import importlib.util, os, subprocess, sys
assert not {"PYTHONPATH", "LD_PRELOAD_OF_MINE"} & set(os.environ)
assert os.environ["HOME"] == os.environ["TMPDIR"] == os.getcwd()
assert sorted(os.listdir()) == ["python", "repro.py"]
import compiler
for name in ("mine", "flacheck", "torch", "typer", "pytest"):
    assert importlib.util.find_spec(name) is None, name
# A child has the same interpreter, as the script's own compile has.
command = [sys.executable, "-c", "import compiler, flacheck"]
assert "No module named 'flacheck'" in subprocess.run(command, capture_output=True, text=True).stderr
"""
    [run] = run_script(script, replace(TOOLCHAIN, paths=(str(tmp_path / "release"),)))
    assert run.output == ""
    assert run.status == 0


@pytest.mark.parametrize(
    ("output", "words", "status"),
    [
        ("it fails so", (), 0),
        ("it fails so", ("--expect-pass",), 1),
        ("it fails otherwise", (), 1),
        ("it fails otherwise", ("--expect-pass",), 125),
        ("ModuleNotFoundError: No module named 'torch'", (), 125),
        ("", (), 1),
        ("", ("--expect-pass",), 0),
    ],
)
def test_a_script_serves_a_bisection_either_way(
    output: str, words: tuple[str, ...], status: int, tmp_path: Path
) -> None:
    """The script exits with 0 if the failure shows, or inverted with --expect-pass."""
    for name in ("__init__", "language", "backends", "compiler"):
        (tmp_path / "triton").mkdir(exist_ok=True)
        (tmp_path / f"triton/{name}.py").write_text("")
    (tmp_path / "triton/backends.py").unlink()
    (tmp_path / "triton/backends").mkdir()
    (tmp_path / "triton/backends/compiler.py").write_text("GPUTarget = print\n")
    (tmp_path / "torch.py").write_text("")
    for on_card in (False, True):
        script = render(chain(), Symptom("it fails so", "it fails", on_card=on_card))
        head, _, _ = script.partition("@triton.jit")
        file = tmp_path / "repro.py"
        file.write_text(head + (f"sys.exit({output!r})\n" if output else ""))
        command = [sys.executable, file, *words]
        outcome = subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True)
        # On a GPU a crash is no right result.
        assert outcome.returncode == (125 if on_card and "otherwise" in output else status)


class ShowingCompilers:
    """Compilers that return some IR, and an attempt for the compile of that IR."""

    def __init__(self, ir_attempt: Attempt, compile_attempt: Attempt) -> None:
        self._answers = {"show": ir_attempt, "compile_ir": compile_attempt}
        self.asked: list[dict[str, Any]] = []

    def ask(self, cell: Cell, **changes: Any) -> Attempt:
        self.asked.append(changes)
        return self._answers[changes["op"]]


IR = Attempt(
    Outcome.FINISHED, facts={"ttir": '#loc = loc("/home/k.py":1:0)\nmodule {} loc(#loc)\n'}
)
DIED = Attempt(Outcome.RAISED, stage="llir", log="RuntimeError: boom", exception=("RuntimeError",))


def test_ir_that_fails_in_the_same_way_is_kept_without_locations() -> None:
    """The IR is compiled to its end, without locations."""
    cell = chain().cell(FAILS)
    compilers = ShowingCompilers(IR, DIED)
    failing = record("fails", code="FC000", signature=signature_of(cell))
    assert surviving_ir(cell, same_signature(failing), compilers) == "module {}\n"
    assert compilers.asked[1] == {"op": "compile_ir", "ir": "module {}\n", "until": None}


def signature_of(cell: Cell) -> str:
    from flacheck.engine.judge import judge

    return str(judge(cell, DIED).signature)


def test_ir_that_compiles_or_is_not_there_is_not_kept() -> None:
    """IR that compiles, or that is missing, is not kept."""
    cell = chain().cell(FAILS)
    failing = same_signature(record("fails", code="FC302", signature=signature_of(cell)))
    compiles = Attempt(Outcome.FINISHED)
    assert surviving_ir(cell, failing, ShowingCompilers(IR, compiles)) is None
    assert surviving_ir(cell, failing, ShowingCompilers(DIED, DIED)) is None


def test_ir_loses_the_places_of_its_source() -> None:
    """Locations, which contain local paths, are removed."""
    text = '#loc = loc("/home/k.py":1:0)\n%0 = x loc(#loc)\n%1 = y loc("a"(#loc1))\n'
    assert without_locations(text) == "%0 = x\n%1 = y\n"
