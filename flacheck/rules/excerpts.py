"""The parts of a log that rules need, taken out of a stream of any length in bounded memory."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

# Messages of failures contain one of these; `bytes.find` passes over the rest at memory speed.
_HINTS = (
    *(b"rror", b"ERROR", b"xception", b"ssert", b"atal", b"UNREACHABLE", b"ailed", b"illed"),
    *(b" fault", b"nsupported", b"out of resource", b"annot ", b"undefined symbol", b"Traceback"),
    *(b"nvalid", b"too old", b"Mismatched", b"not supported", b"recognized processor"),
    *(b"not found", b"out of memory", b"OutOfResources", b"misaligned", b"Bad machine code"),
    *(b"bug report", b"non-zero exit", b"power of 2", b"FAILED", b"FAULT", b"timeout", b"No valid"),
    *(b"NVRM: Xid", b"ould not find", b"module named", b"did not run", b"recent call first"),
    *(b"ompatible", b"core dumped", b"not detected", b"not exist", b" failure"),
)
# Lines are compared without these: most lines of a log differ in numbers only.
_DIGITS = b"0123456789."
_PLAIN_HINTS = tuple((hint, hint.translate(None, _DIGITS)) for hint in _HINTS)
# Lines of earlier blocks are passed over; they are short ones, of blocks that repeat much.
_LONGEST_LINE, _MOST_LINES, _MOST_NEW_LINES = 400, 8_192, 1_024
# Lines of one shape are read once, and a log has few shapes: their number is bounded as well.
_SHAPE = re.compile(rb"[\d.]+|0x[0-9a-f]+")
_SHAPE_LENGTH, _MOST_SHAPES = 160, 4096
# Bytes around a hint: a traceback before a message, its continuation after it.
_BEFORE, _AFTER = 12_000, 6_000
# Bytes at both ends of a log, where programs print the versions of what they use.
_END = 128 << 10
# Bytes for the surroundings of all hints together: half for the first hints, half for the last.
_HALF = _BLOCK = 1 << 20


@dataclass(frozen=True)
class Excerpt:
    """A part of a log; its first line has the number `line`, from 1."""

    line: int
    text: str


@dataclass
class _Kept:
    """The first and the last neighbourhoods that fit into the limit."""

    first: list[tuple[int, bytes]] = field(default_factory=list)
    last: deque[tuple[int, bytes]] = field(default_factory=deque)
    sizes: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, line: int, part: bytes) -> None:
        if self.sizes[0] + len(part) <= _HALF:
            self.first.append((line, part))
            self.sizes[0] += len(part)
            return
        self.last.append((line, part))
        self.sizes[1] += len(part)
        while self.sizes[1] > _HALF:
            self.sizes[1] -= len(self.last.popleft()[1])


@dataclass
class _EarlierLines:
    """Lines of earlier blocks, without their digits."""

    lines: set[bytes] = field(default_factory=set)

    def hints_in_new(self, block: bytes) -> list[bytes]:
        """Return the hints that occur in lines of a block which no earlier block has.

        Comparing whole lines is several times as fast as searching each hint.
        """
        new = set(block.translate(None, _DIGITS).split(b"\n")) - self.lines
        if len(new) <= _MOST_NEW_LINES and len(self.lines) < _MOST_LINES:
            self.lines.update(line for line in new if len(line) <= _LONGEST_LINE)
        text = b"\n".join(new)
        return [hint for hint, plain in _PLAIN_HINTS if plain in text]


def take(chunks: Iterable[bytes]) -> list[Excerpt]:
    """Return a log's ends and the neighbourhoods of all that may report a failure, in order.

    A log that is short is one excerpt.
    """
    budget = _Kept()
    shapes: set[bytes] = set()
    earlier = _EarlierLines()
    before = b""
    line = 1
    for block, after in _with_next(_whole_lines(chunks)):
        text = before + block + after[:_AFTER]
        first_line = line - before.count(b"\n")
        end_of_block = len(before) + len(block)
        hints = earlier.hints_in_new(block)
        for start, end in find_neighbourhoods(text, len(before), end_of_block, shapes, hints):
            budget.add(first_line + text.count(b"\n", 0, start), text[start:end])
        is_first, is_last = not before, not after
        if is_first:
            budget.first.insert(0, (1, block if is_last else _head(block)))
        elif is_last:
            tail = _tail(before + block)
            budget.last.append((line + block.count(b"\n") - tail.count(b"\n"), tail))
        line += block.count(b"\n")
        before = _tail(block)[-_BEFORE:]
        before = before[before.find(b"\n") + 1 :]
        if is_first and is_last:
            return [Excerpt(1, _decode(block))]
    excerpts = [Excerpt(number, _decode(part)) for number, part in (*budget.first, *budget.last)]
    return sorted(excerpts, key=lambda excerpt: excerpt.line)


def _decode(part: bytes) -> str:
    return part.decode("utf-8", "replace")


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield blocks that end with a line; a line longer than a block is cut."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size < _BLOCK:
            continue
        text = b"".join(parts)
        end = text.rfind(b"\n") + 1 or len(text)
        yield text[:end]
        parts = [text[end:]]
        size = len(parts[0])
    rest = b"".join(parts)
    if rest:
        yield rest


def _with_next(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield each block with the block after it."""
    previous = None
    for block in blocks:
        if previous is not None:
            yield previous, block
        previous = block
    if previous is not None:
        yield previous, b""


def _head(block: bytes) -> bytes:
    end = block.rfind(b"\n", 0, _END) + 1
    return block[: end or _END]


def _tail(block: bytes) -> bytes:
    part = block[-_END:]
    if len(part) < len(block):
        part = part[part.find(b"\n") + 1 :]
    return part


def find_neighbourhoods(
    text: bytes, start: int, end: int, shapes: set[bytes], hints: Sequence[bytes] = _HINTS
) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the text around each new hint between two places, without overlaps."""
    places = sorted(_places(text, start, end, shapes, hints))
    bounds: tuple[int, int] | None = None
    for place in places:
        first = text.rfind(b"\n", 0, max(place - _BEFORE, 0)) + 1
        last = text.find(b"\n", min(place + _AFTER, len(text))) + 1 or len(text)
        if bounds is None:
            bounds = (first, last)
        elif first <= bounds[1]:
            bounds = (bounds[0], last)
        else:
            yield bounds
            bounds = (first, last)
    if bounds is not None:
        yield bounds


def _places(
    text: bytes, start: int, end: int, shapes: set[bytes], hints: Sequence[bytes]
) -> Iterator[int]:
    """Yield the places of hints in lines of a new shape."""
    for hint in hints:
        place = text.find(hint, start, end)
        while place >= 0:
            line_start = text.rfind(b"\n", 0, place) + 1
            line = text[line_start : line_start + _SHAPE_LENGTH]
            shape = _SHAPE.sub(b"", line.partition(b"\n")[0])
            if shape not in shapes and len(shapes) < _MOST_SHAPES:
                shapes.add(shape)
                yield place
            line_end = text.find(b"\n", place, end)
            if line_end < 0:
                break
            place = text.find(hint, line_end, end)
