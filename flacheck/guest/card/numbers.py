"""Random numbers as the bytes of Triton's dtypes, without numpy."""

from __future__ import annotations

import array
import functools
import itertools
import random
import struct
from collections.abc import Callable, Iterator, Sequence

# Bytes of an element, and its form in compare.cu: 0 for integers.
FORMS = {"fp64": (8, 1), "fp32": (4, 1), "fp16": (2, 2), "bf16": (2, 3)}
FORMS |= {"fp8e4nv": (1, 4), "fp8e5": (1, 5)}
FORMS |= dict.fromkeys(("fp8e4b8", "fp8e5b16", "fp8e4b15", "i1", "i8", "u8"), (1, 0))
FORMS |= {"i16": (2, 0), "u16": (2, 0), "i32": (4, 0), "u32": (4, 0), "i64": (8, 0), "u64": (8, 0)}
# The numbers of a block. A prime, so that no two rows of a tensor are equal when blocks repeat.
BLOCK = 65_521
# The distributions of floats, in the order in which they are tried. Gates and decays are
# exponentiated, so some kernels overflow with positive numbers and others with large ones.
_SPREAD, _SMALL = 0.5, 0.02
DISTRIBUTIONS: dict[str, Callable[[float], float]] = {
    "normal": lambda draw: draw * _SPREAD,
    "negative": lambda draw: -abs(draw) * _SPREAD,
    "positive": lambda draw: abs(draw) * _SPREAD,
    "small": lambda draw: draw * _SMALL,
}
_SMALLEST_E4 = 2.0**-9
_UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}


@functools.lru_cache(maxsize=32)
def float_block(dtype: str, distribution: str, seed: int, wobble: float = 0.0) -> bytes:
    """Return a block of random floats; the same seed gives the same bytes everywhere.

    Each number is changed by a random part of itself of at most `wobble`.
    """
    source, change = random.Random(seed), random.Random(seed + 1)
    shape = DISTRIBUTIONS[distribution]
    values = [shape(source.gauss(0.0, 1.0)) for _ in range(BLOCK)]
    if wobble:
        values = [value * (1 + change.uniform(-wobble, wobble)) for value in values]
    return _encode(dtype, values)


def _encode(dtype: str, values: Sequence[float]) -> bytes:
    if dtype == "fp64":
        return array.array("d", values).tobytes()
    if dtype == "fp32":
        return array.array("f", values).tobytes()
    if dtype == "bf16":
        return _upper_half(array.array("f", values).tobytes(), 4)
    halves = struct.pack(f"<{len(values)}e", *values)
    if dtype == "fp16":
        return halves
    if dtype == "fp8e5":
        return _upper_half(halves, 2)
    return bytes(map(_as_e4, values))


def _upper_half(content: bytes, size: int) -> bytes:
    """Return the upper half of each element, which rounds it towards zero."""
    half = size // 2
    result = bytearray(len(content) // 2)
    for place in range(half):
        result[place::half] = content[half + place :: size]
    return bytes(result)


def decode(form: tuple[int, int], content: bytes) -> list[str]:
    """Return elements as text that keeps them whole: floats in hexadecimal form, integers.

    `form` is a value of `FORMS`.
    """
    size, kind = form
    if not kind:
        return [str(value) for value in array.array(_UNSIGNED[size], content)]
    return [value.hex() for value in floats(form, content)]


def floats(form: tuple[int, int], content: bytes) -> Sequence[float]:
    """Return elements as numbers."""
    size, kind = form
    if not kind:
        return array.array(_UNSIGNED[size], content)
    if size == 8 or form == FORMS["fp32"]:
        return array.array("d" if size == 8 else "f", content)
    if form == FORMS["bf16"]:
        return array.array("f", _as_upper_half(content, 4))
    if form == FORMS["fp8e5"]:
        content = _as_upper_half(content, 2)
    if form == FORMS["fp8e4nv"]:
        return [_E4[byte] for byte in content]
    return struct.unpack(f"<{len(content) // 2}e", content)


def _as_upper_half(content: bytes, size: int) -> bytes:
    half = size // 2
    result = bytearray(2 * len(content))
    for place in range(half):
        result[half + place :: size] = content[place::half]
    return bytes(result)


def _from_e4(byte: int) -> float:
    exponent, mantissa = byte >> 3 & 15, byte & 7
    value = mantissa * _SMALLEST_E4 if not exponent else (8 + mantissa) * 2.0 ** (exponent - 10)
    if exponent == 15 and mantissa == 7:
        value = float("nan")
    return -value if byte & 0x80 else value


_E4 = [_from_e4(byte) for byte in range(256)]


def _as_e4(value: float) -> int:
    """Return a number as fp8e4nv, rounded towards zero; it must be at most 448."""
    sign = 0x80 if value < 0 else 0
    magnitude = abs(value)
    if magnitude < 2.0**-6:
        return sign | int(magnitude / _SMALLEST_E4)
    half = int.from_bytes(struct.pack("<e", magnitude), "little")
    return sign | ((half >> 7) - (8 << 3))


def encode_integers(dtype: str, values: Sequence[int]) -> Iterator[bytes]:
    """Yield each integer as the bytes of an element."""
    size, _ = FORMS[dtype]
    limit = 1 << 8 * size
    for value in values:
        yield (value % limit).to_bytes(size, "little")


def positions(shape: Sequence[int], strides: Sequence[int], offset: int) -> Iterator[int]:
    """Yield the place of each element of a tensor in its storage, in the order of its indices."""
    for index in itertools.product(*map(range, shape)):
        yield offset + sum(place * stride for place, stride in zip(index, strides))
