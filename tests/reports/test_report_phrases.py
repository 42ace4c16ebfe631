"""Phrases that several reports share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.analysis.groups import SignatureGroup
from flacheck.pipeline.fallbacks.constexprs import HOST
from flacheck.reports import phrases
from flacheck.reports.autotune import write_ranges
from flacheck.reports.document import Heading, Item, Paragraph, Tone

GROUP = SignatureGroup(
    signature="FC302:llir:f:0",
    code="FC302",
    count=2,
    toolchains=("triton==3.2.0",),
    targets=("sm90",),
    kernels=("m:a", "m:b"),
    tolerated_count=0,
    stage="llir",
    line="boom",
    example="0" * 64,
)


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        (phrases.count_noun(1, "cell"), "1 cell"),
        (phrases.count_noun(0, "cell"), "0 cells"),
        (phrases.count_noun(2, "fails", "fail"), "2 fail"),
        (phrases.beside("a", "b"), "a (b)"),
        (phrases.beside("a", None), "a"),
        (phrases.format_omitted(20, "row"), ""),
        (phrases.format_omitted(21, "row"), "1 more row omitted (--format json has all)"),
        (phrases.format_omitted(59, "row"), "39 more rows omitted (--format json has all)"),
        (phrases.title_of("FC399"), "FC399"),
        (phrases.where(GROUP), "2 × 3.2.0 · sm90 · a, b"),
    ],
)
def test_singular_and_plural_agree_and_nothing_is_said_of_nothing(phrase: str, text: str) -> None:
    """Nouns agree with their number, and an empty remainder has no text."""
    assert phrase == text


def test_of_many_kernels_the_first_are_named() -> None:
    """The first kernels are named, each once."""
    kernels = tuple(f"m{number % 2}:k{number // 2}" for number in range(14))
    assert phrases.where(replace(GROUP, kernels=kernels)).endswith("k0, k1, k2, k3, 3 more kernels")


def test_a_failure_of_templates_names_their_arguments() -> None:
    """Each instantiation has its own line."""
    sizes = tuple(f"BM={number}, W=8" for number in range(6))
    item = next(
        part
        for part in phrases.failures([replace(GROUP, instantiations=sizes)])
        if isinstance(part, Item)
    )
    assert item.notes == (
        "[with BM=0, W=8]",
        "[with BM=1, W=8]",
        "[with BM=2, W=8]",
        "[with BM=3, W=8]",
        "2 more instantiations",
        phrases.where(GROUP),
    )


def test_a_failure_that_an_autotuner_skips_is_no_alarm() -> None:
    """A tolerated failure has the doubtful tone."""
    bad = list(phrases.failures([GROUP]))
    doubtful = list(phrases.failures([replace(GROUP, tolerated_count=2)]))
    assert bad[0] == Heading("Failures")
    assert bad[1] == Paragraph(phrases.title_of("FC302"), Tone.BAD, "· 2 cells")
    assert bad[2] == Item("boom", notes=(phrases.where(GROUP),), code=True)
    assert doubtful[1] == Paragraph(phrases.title_of("FC302"), Tone.DOUBT, "· 2 cells, tolerated")


def test_without_a_failure_there_is_no_heading() -> None:
    """An empty list has no heading."""
    assert list(phrases.failures([])) == []
    assert list(phrases.items("Known good", [])) == []


def fallback(warps: int, target: str, **use: int) -> Fallback:
    return Fallback("m:k", None, "triton==3.2.0", target, {"num_warps": warps}, use, 1.0)


def test_fallbacks_that_help_alike_are_said_once() -> None:
    """Equal fallbacks share a row, without longer variants."""
    fallbacks = [
        fallback(warps, target, **use)
        for warps in (8, 16)
        for target in ("sm100", "sm90")
        for use in ({"num_stages": 2}, {"num_stages": 2, "BK": 32})
    ]
    assert phrases.advice(fallbacks) == [
        phrases.Advice(
            "m:k",
            ("num_warps=8", "num_warps=16"),
            ("num_stages=2",),
            ("triton==3.2.0",),
            ("sm90", "sm100"),
        )
    ]


def test_a_change_of_the_host_code_is_marked() -> None:
    """A change of the host code is marked."""
    with_mark = replace(fallback(8, "sm90", BK=32), marks={"BK": HOST})
    (advice,) = phrases.advice([with_mark])
    assert advice.uses == (f"BK=32 ({HOST})",)


def test_numbers_that_follow_each_other_are_a_range() -> None:
    """Consecutive numbers are written as a range."""
    assert write_ranges([1, 4, 5, 6, 9]) == "1, 4–6, 9"


@pytest.mark.parametrize(
    ("toolchain", "target", "words", "absent"),
    [
        ("triton==3.2.0", "sm70", "Triton 3.4.0 compiles bf16", "TORCH_CUDA_ARCH_LIST"),
        ("triton==3.9.0", "gfx942", "PYTORCH_ROCM_ARCH", "Triton 3.4.0"),
        ("nvcc==13.0.88", "sm75", "TORCH_CUDA_ARCH_LIST", "Triton 3.4.0"),
    ],
)
def test_a_remedy_fits_the_compiler_and_the_gpu(
    toolchain: str, target: str, words: str, absent: str
) -> None:
    """One code has a remedy for each of them."""
    group = replace(GROUP, code="FC401", toolchains=(toolchain,), targets=(target,))
    remedy = phrases.texts_of(group).remedy
    assert words in remedy
    assert absent not in remedy
