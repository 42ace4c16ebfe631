"""The launches that are compiled by default: the sizes that people use."""

from __future__ import annotations

from typing import Any

from flacheck.model import Launch
from flacheck.model.launch_sizes import head_size, is_packed
from flacheck.subjects.inputs import launches
from flacheck.subjects.inputs.launches import RecordedLaunch


def launch_of(size: int | None, dtype: str = "bf16", is_packed: bool = False) -> RecordedLaunch:
    """Return a launch of one kernel with a head size, or with offsets of packed sequences."""
    args: dict[str, Any] = {"q": {"dtype": dtype, "align": 16}, "cu_seqlens": None}
    if size is not None:
        args["K"] = {"constexpr": size}
    if is_packed:
        args["cu_seqlens"] = {"dtype": "i64", "align": 16}
    name = f"{size}{dtype}{is_packed}"
    return RecordedLaunch(id=name, kernel="fla.ops:k", qualname="k", launch=Launch(args))


def sizes(launches: list[RecordedLaunch]) -> list[tuple[int | None, str | None, bool]]:
    return [
        (head_size(each.launch.args), each.launch.dtype, is_packed(each.launch.args))
        for each in launches
    ]


def test_usual_launches_have_every_common_head_size_in_bf16() -> None:
    """Packed sequences come once, and another dtype in the commonest size."""
    entries = [launch_of(size, dtype) for dtype in ("bf16", "fp16") for size in (8, 64, 128, 256)]
    entries += [launch_of(64, is_packed=True), launch_of(128, is_packed=True)]
    assert sizes(launches.one_each(entries)) == [
        (128, "bf16", False),
        (64, "bf16", False),
        (256, "bf16", False),
        (128, "bf16", True),
        (128, "fp16", False),
    ]


def test_a_kernel_without_a_common_head_size_has_one_usual_launch() -> None:
    """A kernel that only takes packed sequences has one as well."""
    assert sizes(launches.one_each([launch_of(16), launch_of(8)])) == [(16, "bf16", False)]
    assert sizes(launches.one_each([launch_of(None)])) == [(None, "bf16", False)]
    assert sizes(launches.one_each([launch_of(None, is_packed=True)])) == [(None, "bf16", True)]


def test_a_kernel_without_bf16_has_all_sizes_in_its_first_dtype() -> None:
    """Sums in fp32 have head sizes as well."""
    entries = [launch_of(size, "fp32") for size in (64, 256)]
    assert sizes(launches.one_each(entries)) == [(64, "fp32", False), (256, "fp32", False)]


def test_recordings_share_the_usual_launch_of_each_size() -> None:
    """A size that one recording lacks is compiled for the other all the same."""
    first = [launch_of(64), launch_of(128)]
    second = [launch_of(128), launch_of(256)]
    assert [sizes(each) for each in launches.shared([first, second])] == [
        [(64, "bf16", False), (128, "bf16", False)],
        [(128, "bf16", False), (256, "bf16", False)],
    ]
