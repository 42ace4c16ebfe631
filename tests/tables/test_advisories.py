"""Advisories and the releases, targets, kernels and packages that they cover."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import pytest

from flacheck.tables import advisories
from flacheck.tables.advisories import Advisory, Effect
from flacheck.tables.targets import TARGETS
from flacheck.toolchains import triton_releases

DQKWG = "fla.ops.common.chunk_o:chunk_bwd_kernel_dqkwg"
BY_ID = {advisory.id: advisory for advisory in advisories.every()}


@dataclass(frozen=True)
class Case:
    """A release and a target that a row covers, and the neighbours that it does not."""

    id: str
    release: str
    target: str
    other_release: str
    other_target: str
    # A kernel that the row names; "" for a row about a pattern in the code.
    kernel: str = ""
    package: str | None = None
    other_package: str | None = None


CASES = [
    Case(
        "fla-gated-dqkwg-hopper",
        "3.7.0",
        "sm90",
        "3.7.1",
        "sm80",
        DQKWG,
        "fla-core==0.4.2",
        "liger-kernel==0.8.5",
    ),
    Case(
        "fla-refuses-gated-dqkwg-hopper",
        "3.7.1",
        "sm90",
        "3.7.0",
        "sm100",
        DQKWG,
        "flash-linear-attention==0.5.1",
        "flash-linear-attention==0.5.2",
    ),
    Case(
        "fla-delta-rule-wy-hopper",
        "3.4.0",
        "sm90",
        "3.3.1",
        "sm100",
        "fla.ops.delta_rule.wy_fast:prepare_wy_repr_bwd_kernel",
        "flash-linear-attention==0.5.1",
        "flash-linear-attention==0.5.2",
    ),
    Case(
        "fla-state-backward-hopper",
        "3.7.1",
        "sm90",
        "3.8.0",
        "sm89",
        "fla.ops.common.chunk_h:chunk_bwd_kernel_dh",
        "flash-linear-attention==0.5.2",
        "flash-linear-attention==0.6.0",
    ),
    Case(
        "fla-kda-wy-backward-hopper",
        "3.3.0",
        "sm90",
        "3.2.0",
        "sm100",
        "fla.ops.kda.chunk_bwd:chunk_kda_bwd_kernel_wy_dqkg_fused",
        "fla-core==0.4.2",
        "fla-core==0.5.0",
    ),
    Case(
        "fla-parallax-dqr-hopper",
        "3.5.1",
        "sm90",
        "3.6.0",
        "sm100",
        "fla.ops.parallax.parallel:parallel_parallax_bwd_kernel_dqr",
        "flash-linear-attention==0.6.0",
        "flash-linear-attention==0.5.1",
    ),
    Case(
        "fla-iplr-wu-hopper",
        "3.9.0",
        "sm90",
        "3.8.0",
        "sm100",
        "fla.ops.generalized_delta_rule.iplr.wy_fast:wu_fwd_kernel",
        "fla-core==0.6.0",
        "liger-kernel==0.8.5",
    ),
    Case(
        "fla-gated-delta-state-blackwell",
        "3.6.0",
        "sm100",
        "3.7.0",
        "sm90",
        "fla.ops.common.chunk_delta_h:chunk_gated_delta_rule_fwd_kernel_h_blockdim64",
        "flash-linear-attention==0.5.1",
        "flash-linear-attention==0.5.2",
    ),
    Case(
        "fla-gated-delta-kkt-blackwell",
        "3.7.0",
        "sm100",
        "3.7.1",
        "sm120",
        "fla.ops.gated_delta_rule.chunk_fwd:chunk_gated_delta_rule_fwd_kkt_solve_kernel",
        "flash-linear-attention==0.5.0",
        "flash-linear-attention==0.4.2",
    ),
    Case(
        "fla-gated-delta-recurrent-blackwell",
        "3.7.0",
        "sm100",
        "3.6.0",
        "sm90",
        "fla.ops.gated_delta_rule.fused_recurrent:fused_recurrent_gated_delta_rule_fwd_kernel",
        "flash-linear-attention==0.5.0",
        "flash-linear-attention==0.5.1",
    ),
    Case(
        "fla-gated-delta-wy-blackwell",
        "3.3.1",
        "sm100",
        "3.3.0",
        "sm90",
        "fla.ops.gated_delta_rule.wy_fast:prepare_wy_repr_bwd_kernel",
        "flash-linear-attention==0.5.1",
        "flash-linear-attention==0.5.2",
    ),
    Case(
        "fla-kda-wy-backward-blackwell",
        "3.3.0",
        "sm100",
        "3.2.0",
        "sm120",
        "fla.ops.kda.chunk_bwd:chunk_kda_bwd_kernel_wy_dqkg_fused",
        "flash-linear-attention==0.5.2",
        "flash-linear-attention==0.6.0",
    ),
    Case(
        "liger-swiglu-mlp-blackwell",
        "3.8.0",
        "sm100",
        "3.9.0",
        "sm90",
        "liger_kernel.ops.mlp:_swiglu_kernel_backward_dI",
        "liger-kernel==0.8.4",
        "liger-kernel==0.8.5",
    ),
    Case(
        "liger-fused-moe-blackwell",
        "3.7.1",
        "sm100",
        "3.9.0",
        "sm90",
        "liger_kernel.ops.fused_moe_kernels:_moe_bwd_dX_expanded_kernel",
        "liger-kernel==0.8.4",
        "liger-kernel==0.8.5",
    ),
    Case(
        "mlstm-xl-chunk-backward-sm120",
        "3.7.1",
        "sm120",
        "3.7.0",
        "sm100",
        "mlstm_kernels.triton.chunkwise.xl_chunk:mlstm_chunkwise__parallel_bw_dQ_kernel",
        "mlstm_kernels==2.0.2",
        "xlstm==2.0.5",
    ),
    Case(
        "scattermoe-sm120",
        "3.5.1",
        "sm120",
        "3.5.0",
        "sm90",
        "scattermoe.kernels.ops:_scatter2scatter",
        "scattermoe==0.2.0",
        "megablocks==0.7.0",
    ),
    Case(
        "inductor-conv2d-weight-blackwell",
        "3.7.0",
        "sm100",
        "3.7.1",
        "sm90",
        "c7.cdnldbt5:triton_convolution2d_bwd_weight_0",
    ),
    Case(
        "vllm-batch-invariant-matmul-blackwell",
        "3.7.0",
        "sm100",
        "3.6.0",
        "sm90",
        "vllm.model_executor.layers.batch_invariant:matmul_kernel_persistent",
        "vllm==0.20.0",
        "sglang==0.5.10",
    ),
    Case(
        "aiter-gemm-afp4wfp4-gfx950",
        "3.7.1",
        "gfx950",
        "3.8.0",
        "gfx942",
        "aiter.ops.triton.gemm:_gemm_afp4wfp4_kernel",
        "amd-aiter==0.1.0",
        "vllm==0.20.0",
    ),
    Case(
        "aiter-gemm-a16w16-gfx950",
        "3.8.0",
        "gfx950",
        "3.7.1",
        "gfx942",
        "aiter.ops.triton.gemm:_gemm_a16_w16_kernel",
        "amd-aiter==0.1.0",
        "vllm==0.20.0",
    ),
    Case("two-dots-one-accumulator-blackwell", "3.8.0", "sm100", "3.9.0", "sm90"),
    Case("dot-recurrence-race-blackwell", "3.6.0", "sm100", "3.7.0", "sm90"),
    Case("many-dots-memory-error-hopper", "3.7.1", "sm90", "3.5.1", "sm80"),
    Case("wgmma-register-operand-hopper", "3.8.0", "sm90", "3.7.1", "sm100"),
    Case("wgmma-late-operand-hopper", "3.9.0", "sm90", "3.8.0", "sm100"),
    Case("packed-int16-add-hopper", "3.8.0", "sm90", "3.9.0", "sm80"),
    Case("inductor-slices", "3.7.1", "sm90", "3.8.0", "sm80"),
    Case("jump-threading-ampere", "3.7.0", "sm86", "3.6.0", "sm90"),
    Case("half-precision-scalar-arguments", "3.3.1", "sm80", "3.4.0", "gfx942"),
    Case("multi-cta-exit-sm120", "3.8.0", "sm120", "3.7.1", "sm100"),
    Case("missing-store-wait-rdna", "3.8.0", "gfx1100", "3.7.1", "gfx942"),
]
by_id = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


def _ids(rows: tuple[Advisory, ...]) -> set[str]:
    return {advisory.id for advisory in rows}


def test_every_row_has_a_case() -> None:
    """Every advisory has a case with a release and target just outside."""
    assert [case.id for case in CASES] == list(BY_ID)


@by_id
def test_an_advisory_speaks_of_the_release_and_the_target_it_names(case: Case) -> None:
    """The neighbouring release and another GPU are not covered."""
    assert case.id in _ids(advisories.against(case.release, case.target))
    assert case.id not in _ids(advisories.against(case.other_release, case.target))
    assert case.id not in _ids(advisories.against(case.release, case.other_target))


@by_id
def test_an_advisory_speaks_of_the_kernels_it_names(case: Case) -> None:
    """A kernel matches by its whole name or last part."""
    if not case.kernel:
        assert BY_ID[case.id].is_general
        ids = advisories.against(case.release, case.target, kernels=["retention.chunk_fwd_o"])
        assert case.id not in _ids(ids)
        return
    rows = advisories.against(case.release, case.target, kernels=[case.kernel])
    other = advisories.against(case.release, case.target, kernels=["retention.chunk_fwd_o"])
    assert case.id in _ids(rows)
    assert case.id not in _ids(other)


@pytest.mark.parametrize("case", [case for case in CASES if case.package], ids=lambda case: case.id)
def test_an_advisory_speaks_of_the_packages_it_names(case: Case) -> None:
    """Another version or package is not covered."""
    inside = advisories.against(case.release, case.target, package=case.package)
    outside = advisories.against(case.release, case.target, package=case.other_package)
    assert case.id in _ids(inside)
    assert case.id not in _ids(outside)


@pytest.mark.parametrize("advisory", BY_ID.values(), ids=lambda each: each.id)
def test_a_row_is_complete(advisory: Advisory) -> None:
    """A row has known targets and releases, a date, a remedy and a source."""
    assert set(advisory.targets) <= set(TARGETS)
    assert any(
        advisory.covers(release, target)
        for release in triton_releases.known_releases()
        for target in advisory.targets
    )
    assert date(2024, 1, 1) < advisory.reported < date(2026, 12, 31)
    assert not any(
        phrase.endswith(".") for phrase in (advisory.what, advisory.when, advisory.remedy)
    )
    assert advisory.what in advisory.text and advisory.sources[0] in advisory.text


def test_what_is_not_known_rules_nothing_out() -> None:
    """Without a kernel or package every advisory of the place matches."""
    ids = _ids(advisories.against("3.7.0", "sm90"))
    assert {"fla-gated-dqkwg-hopper", "fla-delta-rule-wy-hopper"} <= ids


def test_dtypes_narrow_what_counts() -> None:
    """An advisory with dtypes needs one of those of the launch."""
    swiglu = ["liger_kernel.ops.mlp:_swiglu_kernel_backward_dI"]
    assert not advisories.against("3.7.1", "sm100", kernels=swiglu, dtypes=["fp32"])
    assert advisories.against("3.7.1", "sm100", kernels=swiglu, dtypes=["fp32", "bf16"])


@pytest.mark.parametrize("release", ["3.7.0+git1234", "3.7.0rc1"])
def test_local_builds_and_release_candidates_are_in_the_range(release: str) -> None:
    """A build or candidate of a release is covered like it."""
    assert advisories.of([DQKWG], release, "sm90")


def test_a_version_that_nobody_can_order_may_be_meant() -> None:
    """An unordered version is not excluded."""
    rows = advisories.against("3.5.1", "sm90", package="flash-linear-attention==main-a1b2")
    assert "fla-gated-dqkwg-hopper" in _ids(rows)


def test_an_advisory_is_told_as_json() -> None:
    """The JSON has plain values and one line of text."""
    plain = BY_ID["fla-gated-dqkwg-hopper"].to_json()
    assert plain["effect"] == Effect.WRONG_RESULTS.value
    assert plain["reported"] == "2025-11-12"
    assert plain["targets"] == ["sm90"]
    assert plain["text"].startswith("The backward pass of gated chunk operators")
