"""The memory of a launch: its storages in one block of the GPU's, with guards between them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Protocol

from ..engine.messages import Json
from .driver import Gpu, LoadedBinary, c_value
from .numbers import BLOCK, FORMS, encode_integers, float_block, floats, positions

_GUARD_BYTES, _GUARD = 4096, 0xA7
# The alignment of torch's allocations.
_ALIGN = 512
_BLOCKS, _THREADS = 1024, 256
# Elements kept of a storage where results disagree; bytes that are searched for them, in windows.
_MOST_SAMPLES = 1_000
_MOST_SEARCHED_BYTES, _WINDOW = 16 << 20, 4096
# The results of compare.cu: seven sums, two largest numbers, and the smallest and largest bits of
# a written value.
_RESULT = struct.Struct("<9d2Q")
_NO_RESULT = _RESULT.pack(*[0.0] * 9, 2**64 - 1, 0)
COMPARED = {
    "entry": "compare",
    "threads": _THREADS,
    "shared": 0,
    "cluster": [1, 1, 1],
    "cooperative": False,
    "pdl": False,
}


class WritableMemory(Protocol):
    """Memory that a launch's inputs are written to: a GPU's, or the host's in its place."""

    def clear(self, address: int, value: int, count: int) -> None: ...

    def upload(self, address: int, content: bytes) -> None: ...

    def copy(self, target: int, source: int, count: int) -> None: ...

    def wait(self) -> None: ...


class Layout:
    """The places of a launch's storages in a block of `size` bytes.

    A guard lies before each storage and behind the last.
    """

    def __init__(self, launch: Json) -> None:
        self.launch = launch
        self.offsets: list[int] = []
        self._guards: list[tuple[int, int]] = []
        end = 0
        for size in launch["storages"]:
            start = -(-(end + _GUARD_BYTES) // _ALIGN) * _ALIGN
            self._guards.append((end, start))
            self.offsets.append(start)
            end = start + size
        self._guards.append((end, end + _GUARD_BYTES))
        self.size = end + _GUARD_BYTES

    def fill(
        self, card: WritableMemory, base: int, distribution: str, seed: int, wobble: float = 0.0
    ) -> None:
        """Write guards and inputs: random floats, the integers of the program, zeros elsewhere.

        Each float is off by a random part of itself of at most `wobble`.
        """
        card.clear(base, 0, self.size)
        for start, end in self._guards:
            card.clear(base + start, _GUARD, end - start)
        card.wait()
        for number, place in enumerate(self.offsets):
            size = self.launch["storages"][number]
            tensors = self._tensors_of(number)
            floats = [each["dtype"] for each in tensors if _is_random(each["dtype"])]
            if floats and size:
                block = float_block(floats[0], distribution, seed, wobble)
                width = len(block) // BLOCK
                # Each storage begins elsewhere in the block, so that no two are equal.
                turn = number * 10_007 % BLOCK * width
                self._repeat(card, base + place, block[turn:] + block[:turn], size)
            for tensor in tensors:
                self._write_integers(card, base + place, size, tensor)
        card.wait()

    def _tensors_of(self, number: int) -> list[Json]:
        tensors = self.launch["tensors"].values()
        return [tensor for tensor in tensors if tensor["storage"] == number]

    def form_of(self, number: int) -> tuple[int, int]:
        """Return the size and form of a storage's elements: those of its first floats."""
        forms = [FORMS[tensor["dtype"]] for tensor in self._tensors_of(number)]
        return max(forms, key=lambda form: form[1] > 0, default=(1, 0))

    def has_booleans(self, number: int) -> bool:
        """Return True for a storage of bytes that are 0 or 1."""
        return any(tensor["dtype"] == "i1" for tensor in self._tensors_of(number))

    def _repeat(self, card: WritableMemory, address: int, block: bytes, size: int) -> None:
        card.upload(address, block[:size])
        done = min(size, len(block))
        while done < size:
            count = min(done, size - done)
            card.copy(address + done, address, count)
            done += count
        card.wait()

    def _write_integers(self, card: WritableMemory, address: int, size: int, tensor: Json) -> None:
        if tensor["values"] is None or _is_random(tensor["dtype"]):
            return
        width, _ = FORMS[tensor["dtype"]]
        places = positions(tensor["shape"], tensor["strides"], tensor["offset"])
        for start, content in _runs(places, encode_integers(tensor["dtype"], tensor["values"])):
            if (start * width) + len(content) <= size:
                card.upload(address + start * width, content)

    def elements(self, content: bytes, number: int) -> bytes:
        """Return the part of a block's content that belongs to a storage."""
        size, _ = self.form_of(number)
        start, count = self.offsets[number], self.launch["storages"][number] // size
        return content[start : start + count * size]

    def broken_guard(self, card: Gpu, base: int) -> int | None:
        """Return the number of the storage whose guard changed, None without one."""
        for number, (start, end) in enumerate(self._guards):
            if card.download(base + start, end - start).strip(bytes([_GUARD])):
                return number
        return None

    def addresses(self, base: int, function: LoadedBinary, scratch: list[int]) -> list[Any]:
        """Return the C values of a binary's parameters."""
        values = []
        for parameter in function.launch["parameters"]:
            if parameter["type"] == "pointer":
                tensor = self.launch["tensors"][parameter["tensor"]]
                width, _ = FORMS[tensor["dtype"]]
                place = self.offsets[tensor["storage"]] + tensor["offset"] * width
                values.append(c_value("u64", str(base + place)))
            else:
                values.append(c_value(parameter["type"], parameter["value"]))
        return values + [c_value("u64", str(address)) for address in scratch]


def _is_random(dtype: str) -> bool:
    return FORMS[dtype][1] > 0


def _runs(places: Iterator[int], contents: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield neighbouring elements together, as the place of the first and their bytes."""
    start, end, run = 0, -1, bytearray()
    for place, content in zip(places, contents):
        if place != end:
            if run:
                yield start, bytes(run)
            start, run = place, bytearray()
        run += content
        end = place + 1
    if run:
        yield start, bytes(run)


def rounding_bounds(
    layout: Layout, number: int, tolerance: float, scale: float
) -> tuple[float, float]:
    """Return the absolute and relative difference of a storage's elements that rounding explains.

    That of floats is the tolerance, relative to an element and to `scale`, the root mean square of
    all. Bytes are quantised floats and may differ by one; booleans and wider integers, which are
    indices and counts, are left alone by rounding, unless the tolerance was widened.
    """
    size, form = layout.form_of(number)
    if form:
        return tolerance * scale, tolerance
    usual = layout.launch["tolerance"]
    widening = tolerance / usual if usual else 1.0
    is_quantised = size == 1 and not layout.has_booleans(number)
    return (1.5 if is_quantised else 0.5) * widening, 0.0


def places_outside(
    layout: Layout, number: int, one: bytes, two: bytes, tolerance: float
) -> list[int]:
    """Return the places of a storage's elements that differ by more than `rounding_bounds`.

    They are evenly spread, and so are the parts of a large storage in which they are looked for.
    """
    size, form = layout.form_of(number)
    every = max(1, -(-len(one) // _MOST_SEARCHED_BYTES))
    starts = range(0, len(one), _WINDOW * every)
    one, two = (b"".join(each[at : at + _WINDOW] for at in starts) for each in (one, two))
    first, second = floats((size, form), one), floats((size, form), two)
    finite = [value for value in first if value - value == 0]
    scale = (sum(value * value for value in finite) / max(1, len(finite))) ** 0.5
    absolute, relative = rounding_bounds(layout, number, tolerance, scale)
    places = []
    for place, (x, y) in enumerate(zip(first, second)):
        difference = abs(x - y)
        if not form and size == 1:
            difference = min(difference, 256 - difference)
        # A comparison with NaN is false.
        if x != y and not difference <= absolute + relative * abs(x):
            window, offset = divmod(place, _WINDOW // size)
            places.append(window * every * (_WINDOW // size) + offset)
    return places[:: max(1, -(-len(places) // _MOST_SAMPLES))]


class ResultComparison:
    """The kernel that compares two results, loaded once."""

    def __init__(self, card: Gpu, ptx: bytes) -> None:
        self._card = card
        self._function = card.load(ptx + b"\0", COMPARED)
        self._result = card.allocate(_RESULT.size)

    def compare(
        self, layout: Layout, bases: tuple[int, int, int], tolerance: float
    ) -> dict[int, Json]:
        """Return the difference of two results for each storage that one of them changed.

        `bases` are the addresses of the results and of the memory before the launch. An element is
        `outside` if it differs by more than `rounding_bounds`; `worst` is the largest multiple.
        """
        differences = {}
        for number in range(len(layout.offsets)):
            first = self._figures(layout, number, bases, 0.0, 0.0)
            if not first["written"]:
                continue
            if first["differing"]:
                scale = (first.pop("squares") / first["written"]) ** 0.5
                bounds = rounding_bounds(layout, number, tolerance, scale)
                figures = self._figures(layout, number, bases, *bounds)
                first |= {"outside": figures["outside"], "worst": figures["worst"]}
                if not layout.form_of(number)[1] and bounds[0] < 1:
                    # The kernel computes in doubles, which hold no integer of 64 bits.
                    first["outside"] = first["differing"]
            differences[number] = first
        return differences

    def _figures(
        self,
        layout: Layout,
        number: int,
        bases: tuple[int, int, int],
        absolute: float,
        relative: float,
    ) -> Json:
        size, form = layout.form_of(number)
        count = layout.launch["storages"][number] // size
        self._card.upload(self._result, _NO_RESULT)
        values = [c_value("u64", str(base + layout.offsets[number])) for base in bases]
        values += [c_value("u64", str(count)), c_value("i32", str(size)), c_value("i32", str(form))]
        values += [c_value("fp64", absolute.hex()), c_value("fp64", relative.hex())]
        values.append(c_value("u64", str(self._result)))
        self._card.launch(self._function, (_BLOCKS,), values)
        self._card.wait()
        sums = _RESULT.unpack(self._card.download(self._result, _RESULT.size))
        written, differing, only_one, neither, outside, squares, errors, *rest = sums
        largest, worst, low, high = rest
        return {
            "written": int(written),
            "differing": int(differing),
            "not_finite": int(only_one + neither),
            "not_finite_in_one": int(only_one),
            "outside": int(outside),
            "squares": squares,
            "error": (errors / squares) ** 0.5 if squares else 0.0,
            "largest": largest,
            "worst": worst,
            "is_constant": low >= high,
        }
