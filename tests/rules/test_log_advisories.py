"""Advisories that a log of a running program matches."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.rules import explanation, log_advisories
from flacheck.tables import advisories
from tests.paths import TESTS
from tests.schemas import validate_json

LOGS = TESTS / "logs"
WRONG = "AssertionError: Tensor-likes are not close!\n dk diff: 11.625 ratio: 0.538\n"


def _ids(log: str) -> list[str]:
    return [advisory.id for advisory in log_advisories.of_log(log)]


def test_the_refusal_of_a_package_is_the_advisory_behind_it() -> None:
    """A package's refusal matches the advisory of its range."""
    older = _ids((LOGS / "FC702" / "golden-fla-0.5.0.log").read_text())
    newer = _ids((LOGS / "FC702" / "golden-fla-0.6.0.log").read_text())
    assert older == ["fla-gated-dqkwg-hopper", "fla-refuses-gated-dqkwg-hopper"]
    assert newer == ["fla-gated-dqkwg-hopper"]


@pytest.mark.parametrize(
    ("where", "is_named"),
    [
        ("NVIDIA H100, triton 3.7.0", True),
        ("H200 | Triton: 3.4.0", True),
        ("sm_90a triton==3.5.1+gitabc", True),
        ("triton-3.6.0 on Hopper", True),
        ("triton 3.7.0", True),
        ("NVIDIA H100", True),
        ("NVIDIA H100, triton 3.7.1", False),
        ("NVIDIA H100, triton 3.3.1", False),
        ("NVIDIA A100-SXM4-80GB, triton 3.7.0", False),
    ],
)
def test_release_and_gpu_of_the_log_must_not_contradict(where: str, is_named: bool) -> None:
    """An advisory matches unless the release or GPU contradicts it."""
    log = f"{where}\nFAILED tests/ops/test_gated_delta.py::test_chunk\n{WRONG}"
    assert ("fla-gated-dqkwg-hopper" in _ids(log)) is is_named


def test_a_log_without_a_symptom_calls_nothing_to_mind() -> None:
    """A log without wrong results matches no advisory."""
    assert _ids("H100 triton 3.7.0 compiled chunk_bwd_kernel_dqkwg in 3 s") == []


def test_a_log_that_names_no_kernel_needs_release_and_gpu() -> None:
    """Without a kernel, an advisory needs both release and GPU."""
    assert _ids(WRONG) == []
    assert _ids(f"triton 3.8.0\n{WRONG}") == []
    ids = _ids(f"triton 3.8.0 on NVIDIA B200\n{WRONG}")
    assert ids == ["two-dots-one-accumulator-blackwell"]


def test_kernels_of_one_name_are_told_apart_by_their_module() -> None:
    """Kernels of one name are distinguished by their modules."""
    crash = "RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered\n"
    frame = 'File "fla/ops/{}/wy_fast.py", line 3, in f\n  prepare_wy_repr_bwd_kernel[grid](\n'
    delta = _ids("H100 triton 3.7.1\n" + frame.format("delta_rule") + crash)
    comba = _ids("H100 triton 3.7.1\n" + frame.format("comba") + crash)
    assert "fla-delta-rule-wy-hopper" in delta
    assert "fla-delta-rule-wy-hopper" not in comba


@pytest.mark.parametrize(
    "log", sorted(LOGS.glob("*/*.log")), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_a_compilers_log_calls_no_advisory_to_mind(log: Path) -> None:
    """A compile error matches no advisory."""
    if log.name.startswith("golden-fla") and log.parent.name == "FC702":
        return
    assert _ids(log.read_text()) == []


def test_advisories_of_an_explanation_are_valid_against_the_schema() -> None:
    """Every advisory follows the schema of an explanation."""
    document = explanation.to_json([], advisories.every())
    validate_json("explain", document)
    assert len(document["advisories"]) == len(advisories.every())
