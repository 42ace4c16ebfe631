"""The head sizes of compiled launches and their forms of sequences, as answers name them."""

from __future__ import annotations

from collections.abc import Iterable

from flacheck.evidence.analysis.order import some
from flacheck.model.launch_sizes import HEAD_SIZES
from flacheck.model.wire import Count, JsonStruct, NotEmpty

# The smallest head size of the grid, and the largest in tables/model_sizes.yaml. Other values of a
# parameter with such a name are vocabularies and sizes of plain matrices.
_SMALLEST, _LARGEST = 8, 576
# The number of head sizes that a text lists.
_MOST = 6


class CompiledSizes(JsonStruct, frozen=True):
    """The head sizes of compiled launches, without and with `cu_seqlens`.

    Both flags are false if no kernel takes `cu_seqlens`. `text` is the same in words: `head sizes
    64, 128 and 256, with and without cu_seqlens`.
    """

    head_sizes: tuple[Count, ...]
    with_cu_seqlens: bool
    without_cu_seqlens: bool
    text: NotEmpty


def name_sizes(launches: Iterable[tuple[int | None, bool | None]]) -> CompiledSizes | None:
    """Return the sizes of launches; None if no launch has a head size or takes `cu_seqlens`.

    A launch is its head size and whether it has `cu_seqlens`, each None if its kernel has none.
    """
    head_sizes: set[int] = set()
    forms: set[bool] = set()
    for head_size, is_packed in launches:
        if head_size is not None and _SMALLEST <= head_size <= _LARGEST:
            head_sizes.add(head_size)
        if is_packed is not None:
            forms.add(is_packed)
    return _describe(head_sizes, forms)


def join_sizes(parts: Iterable[CompiledSizes | None]) -> CompiledSizes | None:
    """Return the sizes of several answers as one."""
    head_sizes: set[int] = set()
    forms: set[bool] = set()
    for part in filter(None, parts):
        head_sizes.update(part.head_sizes)
        if part.with_cu_seqlens:
            forms.add(True)
        if part.without_cu_seqlens:
            forms.add(False)
    return _describe(head_sizes, forms)


def _describe(head_sizes: set[int], forms: set[bool]) -> CompiledSizes | None:
    texts = []
    if head_sizes:
        noun = "head size" if len(head_sizes) == 1 else "head sizes"
        texts.append(f"{noun} {_list(head_sizes)}")
    if forms:
        words = [word for form, word in ((True, "with"), (False, "without")) if form in forms]
        texts.append(f"{' and '.join(words)} cu_seqlens")
    if not texts:
        return None
    return CompiledSizes(tuple(sorted(head_sizes)), True in forms, False in forms, ", ".join(texts))


def _list(head_sizes: set[int]) -> str:
    """Return `64, 128 and 256`; of many sizes the commonest come first."""
    sizes = sorted(head_sizes)
    if len(sizes) > _MOST:
        sizes.sort(key=lambda size: size not in HEAD_SIZES)
    *first, last = some([str(size) for size in sizes], _MOST, "{} others")
    return f"{', '.join(first)} and {last}" if first else last
