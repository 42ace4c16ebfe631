"""The sizes of compiled launches, in words and as numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flacheck.evidence.analysis.compiled_sizes import join_sizes, name_sizes
from flacheck.evidence.analysis.observation import take_apart
from flacheck.model import Launch

OFFSETS = {"dtype": "i64", "align": 16}


def sizes_of(args: dict[str, object]) -> tuple[int | None, bool | None]:
    """Return the head size and the form of sequences of a launch with some arguments."""
    parts = take_apart(Launch.from_json({"args": args, "omitted": []}), {})
    return parts.head_size, parts.is_packed


@pytest.mark.parametrize(
    ("launches", "text"),
    [
        ([(256, True), (64, False), (128, None)], "head sizes 64, 128 and 256, with and without"),
        ([(128, False)], "head size 128, without"),
        ([(None, True)], "with"),
    ],
)
def test_a_text_has_head_sizes_and_forms_of_sequences(
    launches: Sequence[tuple[int | None, bool | None]], text: str
) -> None:
    """Sizes are in order, whatever the order of the launches."""
    sizes = name_sizes(launches)
    assert sizes is not None
    assert sizes.text == f"{text} cu_seqlens"


def test_a_text_of_many_sizes_starts_with_the_common_ones() -> None:
    """The numbers hold all of them."""
    numbers = (8, 16, 32, 64, 80, 96, 128, 256, 512)
    sizes = name_sizes([(number, None) for number in numbers])
    assert sizes is not None
    assert sizes.text == "head sizes 64, 128, 256, 8, 16, 32 and 3 others"
    assert sizes.head_sizes == numbers


def test_vocabularies_and_matrix_sizes_are_no_head_sizes() -> None:
    """A launch without a head size and without `cu_seqlens` has no sizes to name."""
    assert name_sizes([(151_936, None), (4096, None), (2, None), (None, None)]) is None


def test_the_sizes_of_several_answers_are_one_text() -> None:
    """An answer without sizes changes nothing."""
    joined = join_sizes([name_sizes([(64, True)]), None, name_sizes([(128, False)])])
    assert joined is not None
    assert joined.text == "head sizes 64 and 128, with and without cu_seqlens"
    assert join_sizes([None]) is None


def test_a_kernel_that_takes_no_offsets_has_no_form_of_sequences() -> None:
    """An offset argument that is None is a launch without `cu_seqlens`."""
    head = {"K": {"constexpr": 128}}
    assert sizes_of(head) == (128, None)
    assert sizes_of({**head, "cu_seqlens": None}) == (128, False)
    assert sizes_of({**head, "cu_seqlens": OFFSETS}) == (128, True)
