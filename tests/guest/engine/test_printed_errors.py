"""A compile that ends well after its compiler printed an error is a failure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flacheck.capabilities.bisect.history import Kind
from flacheck.guest.engine.assembler import Assembler
from flacheck.model import Verdict
from flacheck.store import Store
from tests import fake
from tests.capabilities.bisect.test_bisect import bisect, family
from tests.engine.test_scan import run
from tests.rule_logs import signature_of
from tests.subjects.inputs.launches.test_launches import HEADER, launch, write

REGISTER = "error: could not allocate output register for constraint 'f'"
OLDER = "error: couldn't allocate output register for constraint 'f'"


@pytest.mark.parametrize(
    ("output", "code"),
    [
        (REGISTER, "FC402"),
        (OLDER, "FC402"),
        ("error: unknown asm constraint 'f'", "FC402"),
        ("<inline asm>:1:2: error: invalid instruction", "FC000"),
        ("/home/user/my kernel.py:4:5: error: failed to legalize operation 'tt.dot'", "FC204"),
        ('loc("kernel.py":4:5): error: operand #0 does not dominate this use', "FC202"),
        ("ptxas /tmp/tmp1.ptx, line 7; error   : Unexpected instruction types", "FC409"),
        ("ptxas fatal   : Ptx assembly aborted due to errors", "FC406"),
        ("ld.lld: error: undefined symbol: f", "FC809"),
    ],
)
def test_a_finished_compile_that_printed_an_error_fails(
    output: str, code: str, store: Store
) -> None:
    """The failure has the stage of the printed error; the worker's other cells compile."""
    cells = [fake.cell("good"), fake.cell("broken"), fake.cell("good", num_warps=8)]
    records = run(store, cells, {"broken": f"at lower complain {output}"}, jobs=1)
    by_kernel = {record.kernel: record for record in records}
    broken = by_kernel["fake.broken"]
    assert (broken.verdict, broken.code, broken.stage) == (Verdict.FAILS, code, "lower")
    assert broken.message == output
    assert by_kernel["fake.good"].verdict is Verdict.COMPILES


@pytest.mark.parametrize(
    "output",
    [
        "warning: error: is a word",
        "k.py:3:4: warning: the loop was not pipelined, error: none",
        "remark: k.py:3:4: error: no vector",
        "note: see the error: above",
        "0 errors",
        "the error: in the middle of a sentence",
        "ptxas info    : (C7510) error handling is off",
        "    tt.print error: 3",
    ],
)
def test_warnings_and_remarks_are_no_failure(output: str, store: Store) -> None:
    """The word `error` counts only where a compiler writes it."""
    (record,) = run(store, [fake.cell("kernel")], {"kernel": f"complain {output}"}, jobs=1)
    assert (record.verdict, record.code) == (Verdict.COMPILES, None)


def test_what_a_kernel_prints_is_no_failure(store: Store) -> None:
    """A kernel may print the word `error:` at compile time, to either stream."""
    (record,) = run(store, [fake.cell("kernel")], {"kernel": f"print {REGISTER}"}, jobs=1)
    assert record.verdict is Verdict.COMPILES


def test_a_bisection_finds_no_end_of_a_failure_that_goes_on_with_exit_status_0(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process aborts up to 2.0 and continues from 3.0, and one line differs in a word."""
    table = {"==1.0": f"abort {OLDER}", "==2.0": f"abort {OLDER}", "else": f"complain {REGISTER}"}
    family(monkeypatch, {"k": table})
    result = bisect(store, fake.cell("k", "1.0"))
    assert {record.verdict for record in result.history} == {Verdict.FAILS}
    assert not [change for change in result.changes if change.kind is Kind.MENDED]
    assert len({record.signature for record in result.history}) == 1


def test_both_wordings_are_one_signature() -> None:
    """Triton 3.7.1 ends its process, 3.8.0 continues; LLVM changed a word between them."""
    names = ("golden-f-on-gfx942-3.7.1.log", "golden-f-on-gfx942-3.8.0.log")
    assert len({signature_of(f"FC402/{name}") for name in names}) == 1


def test_an_error_of_an_assembler_that_succeeds_is_printed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Triton deletes the log of an assembler that returned 0."""
    monkeypatch.setattr(subprocess, "run", subprocess.run)
    Assembler(str(tmp_path)).listen()
    for line in ("ptxas error   : Unexpected", "ptxas warning : error is a word"):
        with open(tmp_path / "log", "w") as log:
            subprocess.run(["printf", line], stderr=log, stdout=log, check=True)
    assert capfd.readouterr().err == "ptxas error   : Unexpected"


KERNEL = """import triton
import triton.language as tl


@triton.jit
def double(x, o, BT: tl.constexpr):
    i = tl.arange(0, BT)
    v = tl.load(x + i)
    tl.static_print("error: printed by the kernel")
    y = tl.inline_asm_elementwise("ASM", "=C,C", [v], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(o + i, y)
"""


def _launch(asm: str, constraint: str, name: str) -> dict[str, Any]:
    text = KERNEL.replace("ASM", asm).replace("=C,C", f"={constraint},{constraint}")
    pointer = {"dtype": "fp32", "align": 16}
    args = {"x": pointer, "o": pointer, "BT": {"constexpr": 128}}
    return launch(
        text,
        id=name * 4,
        kernel=f"program:{name}",
        qualname="double",
        launch={"args": args},
        heuristics={},
        options={"num_warps": 4},
    )


@pytest.mark.network
@pytest.mark.parametrize(
    ("target", "good", "bad"),
    [
        ("gfx942", ("v_add_f32 $0, $1, $1", "v"), ("add.f32 $0, $1, $1;", "f")),
        ("sm90", ("add.f32 $0, $1, $1;", "f"), ("add.f32 $0, $1, $1;", "v")),
    ],
)
def test_a_wrong_constraint_fails_under_real_releases(
    target: str, good: tuple[str, str], bad: tuple[str, str], tmp_path: Path
) -> None:
    """3.7.1 ends its process; 3.8.0 and 3.9.0 return a broken kernel with exit status 0."""
    launches = [_launch(*good, "good"), _launch(*bad, "evil")]
    file = write(tmp_path, HEADER, *launches)
    command = [sys.executable, "-m", "flacheck", "scan", str(file), "--target", target]
    command += ["--triton", "3.7.1,3.8.0,3.9.0", "--format", "json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    attempts = {
        (record["kernel"], record["toolchain"]): (record["verdict"], record["signature"])
        for record in json.loads(done.stdout)["records"]
    }
    assert len(attempts) == 6, done.stderr
    verdicts = {
        name: {attempts[key][0] for key in attempts if key[0] == name} for name, _ in attempts
    }
    assert verdicts == {"program:good": {"compiles"}, "program:evil": {"fails"}}
    (signature,) = {
        signature_seen
        for (name, _), (_, signature_seen) in attempts.items()
        if name == "program:evil"
    }
    assert signature.startswith("FC402:")
