"""The kinds of failure, and the check of each in a script."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flacheck.capabilities.repro import kinds
from flacheck.capabilities.repro.passes.autotuner import SHIFTED_KEY, add_autotuner
from flacheck.model import Cell, Launch
from tests.made_records import record
from tests.made_specimens import FAILS, POINTER, chain, specimen


def cell(stage: str = "compile") -> Cell:
    bare = chain().cell(FAILS)
    return Cell(bare.kernel, FAILS, "sm90", Launch(chain().args), {}, stage=stage)


@pytest.mark.parametrize(
    ("stage", "fields", "kind"),
    [
        ("compile", {"verdict": "compiles"}, kinds.SLOW),
        ("compile", {"code": "FC101", "stage": "ast"}, kinds.REFUSED_SOURCE),
        ("compile", {"code": "FC501", "stage": "load"}, kinds.OVER_LIMIT),
        ("compile", {"code": "FC302", "stage": "llir"}, kinds.FAILING),
        ("autotune", {"code": "FC603", "stage": "import"}, kinds.REFUSED_KEY),
        ("autotune", {"code": "FC601", "stage": "autotune"}, kinds.TUNER_FAULT),
        ("keys", {"code": "FC601", "stage": "keys"}, kinds.TUNER_FAULT),
        ("trial", {"code": "FC302", "stage": "llir"}, kinds.FAILING),
    ],
)
def test_a_record_tells_its_kind(
    stage: str, fields: dict[str, Any], kind: kinds.FailureKind
) -> None:
    """The kind follows from verdict, stage and code."""
    failing = record(**{"verdict": "fails", **fields})
    assert kinds.kind_of(cell(stage), failing) is kind


def test_a_title_names_release_gpu_and_stage_in_one_line() -> None:
    """A long message is cut between two words."""
    failing = record("fails", stage="llir", message="word " * 40)
    title = kinds.title(cell(), failing)
    where = "triton 3.2.0 fails on sm90 (NVIDIA H100 80GB HBM3), stage llir: "
    assert title == where + "word " * 18 + "…"


@pytest.mark.parametrize(
    ("target", "code", "figures", "limit"),
    [
        ("sm90", "FC501", ["used = compiled.metadata.shared\n"], 232448),
        ("sm90", "FC502", ["compiled.metadata.num_warps * 32"], 1024),
        ("gfx942", "FC502", ["compiled.metadata.num_warps * 64"], 1024),
        ("sm90", "FC503", ["cuobjdump", "(registers + 7) // 8 * 8"], 65536),
        ("gfx942", "FC503", [r"\.vgpr_count:\s+(\d+)", "num_warps * 64"], 131072),
        ("sm100", "FC504", ["compiled.metadata.tmem_size"], 512),
    ],
)
def test_every_limit_is_compared_in_the_script(
    target: str, code: str, figures: list[str], limit: int
) -> None:
    """Threads, registers and tensor memory are compared with the GPU's limits."""
    text = "out of resource: it, Required: 5, Hardware limit: 4."
    over = record("fails", code=code, stage="load", message=text)
    symptom = kinds.OVER_LIMIT.symptom(replace(cell(), target=target), over, chain())
    compile(symptom.check, "check", "exec")
    assert [figure for figure in figures if figure not in symptom.check] == []
    assert f'if used > {limit}:\n    print("out of resource: it", used' in symptom.check


def test_a_slow_compile_is_timed_by_the_script() -> None:
    """Half of the original time is slow, and the script waits twenty times as long."""
    slow = record("fails", code="FC921", seconds=21.0)
    symptom = kinds.SLOW.symptom(cell(), slow, chain())
    assert symptom.title == "triton 3.2.0 takes 21 s to compile this for sm90"
    assert "if time.perf_counter() - started > 10.5:" in symptom.check
    assert symptom.prepare.endswith("started = time.perf_counter()\n")
    assert symptom.timeout == 420


def test_a_quick_compile_gets_two_minutes() -> None:
    """The timeout of a quick compile is two minutes."""
    quick = record("fails", code="FC302", message="boom", seconds=0.1)
    assert kinds.FAILING.symptom(cell(), quick, chain()).timeout == 120


def test_shifted_keys_are_compared_and_missing_ones_speak() -> None:
    """The script compares the key for FC602 and expects an exception for FC601."""
    start = specimen("pass", x=POINTER, K={"constexpr": 32})
    one = add_autotuner(start, [{"kwargs": {}, "num_warps": 2}] * 2, ["K"])
    wrong_key = record("fails", code="FC602", message="keys")
    past = record("fails", code="FC601", message="IndexError: list index out of range")
    assert kinds.TUNER_FAULT.symptom(cell(), wrong_key, one).words == SHIFTED_KEY
    assert "want = (32,)" in kinds.TUNER_FAULT.symptom(cell(), wrong_key, one).check
    past_symptom = kinds.TUNER_FAULT.symptom(cell(), past, one)
    assert (past_symptom.words, past_symptom.check) == ("list index out of range", "")
