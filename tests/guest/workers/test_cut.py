"""Kernels cut out of their modules: the text, or the reason for a missing text."""

from __future__ import annotations

import enum
import importlib.util
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

if importlib.util.find_spec("triton") is None:
    pytest.skip("needs triton", allow_module_level=True)

from flacheck.guest.workers.cut import (
    Cutter,
    UnwritableValue,
    literal,
    passed_functions,
    path_of,
)
from flacheck.subjects.inputs.launches.admission import check_source

SOURCE = """\
import math
import types

import triton
import triton.language as tl

SIZE: tl.constexpr = 16
SCALE = tl.constexpr(0.5)
UNKNOWN = object()
names = types.SimpleNamespace(rate=3)


class Config:
    block = 32


@triton.jit
def helper(x, n=SIZE):
    return x * n


@triton.jit(do_not_specialize=["n"])
def kernel(x, n: "i32", m: float, B: tl.constexpr = SIZE, other: Config = None):
    size = helper(n) * SCALE + m + names.rate + Config.block
    tl.store(x + tl.arange(0, B), size)


class Info:
    def __init__(self, bits):
        self.max = 2**bits - 1


@triton.jit
def calling(x, n):
    start = tl.full([16], Info(names.rate).max, tl.int32) + math.floor(2.5)
    tl.store(x + start, tl.constexpr(4) + n.bit_length(1))


@triton.jit
def stranger(x):
    tl.store(x, UNKNOWN)
"""
TEXT = """\
import triton
import triton.language as tl


@triton.jit
def helper(x, n=16):
    return x * n


SCALE = tl.constexpr(0.5)


@triton.jit(do_not_specialize=['n'])
def kernel(x, n: 'i32', m: float, B: tl.constexpr=16, other=None):
    size = helper(n) * SCALE + m + 3 + 32
    tl.store(x + tl.arange(0, B), size)
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[ModuleType]:
    """Return the module, imported from a file because Triton reads sources from files."""
    path = tmp_path / "cut_sample.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("cut_sample", path)
    assert spec and spec.loader
    sample = sys.modules["cut_sample"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sample)
    yield sample
    del sys.modules["cut_sample"]


def test_a_kernel_takes_all_that_it_uses_along(module: ModuleType) -> None:
    """Helpers are copied by source, constants by value, attributes of namespaces by their value."""
    assert Cutter().cut(module.kernel, {}).text == TEXT
    check_source(TEXT)


def test_a_call_with_fixed_arguments_is_written_as_its_result(module: ModuleType) -> None:
    """Triton makes it while it compiles: a class or a built-in function of the program, as `torch.iinfo(torch.long).max`."""
    text = Cutter().cut(module.calling, {}).text
    assert text is not None
    assert "tl.full([16], 7, tl.int32) + 2" in text
    assert "tl.constexpr(4) + n.bit_length(1)" in text


LIBRARY = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.libdevice import exp as power


@triton.jit
def kernel(x):
    tl.store(x, libdevice.tanh(tl.load(x)) + power(tl.load(x)) + tl.exp(tl.load(x)))
"""


def test_a_library_of_the_gpu_keeps_a_name_of_its_own(tmp_path: Path) -> None:
    """The compiler looks such a function up by its bare name."""
    path = tmp_path / "cut_library.py"
    path.write_text(LIBRARY)
    spec = importlib.util.spec_from_file_location("cut_library", path)
    assert spec
    assert spec.loader
    sample = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sample)
    text = Cutter().cut(sample.kernel, {}).text
    assert text is not None
    assert "import triton.language.extra.libdevice as libdevice\n" in text
    assert "libdevice.tanh(tl.load(x)) + libdevice.exp(tl.load(x)) + tl.exp(tl.load(x))" in text
    assert "tl.extra" not in text
    check_source(text)


def test_a_text_is_named_by_what_it_says(module: ModuleType) -> None:
    """Equal kernels have equal digests, different kernels different ones; each is cut once."""
    cutter = Cutter()
    cut = cutter.cut(module.kernel, {})
    assert cutter.cut(module.kernel, {}) is cut
    assert cut.digest == Cutter().cut(module.kernel, {}).digest
    assert cut.digest != cutter.cut(module.helper, {}).digest


def test_an_object_of_the_program_cannot_be_cut_out(module: ModuleType) -> None:
    """The reason names its class."""
    cut = Cutter().cut(module.stranger, {})
    assert cut.text is None
    assert cut.digest is None
    assert cut.reason is not None
    assert "object of None is not part of triton" in cut.reason


def test_functions_that_a_launch_hands_over_get_names_of_their_own(module: ModuleType) -> None:
    """The kernel keeps its name; another function of that name gets a number."""
    import triton

    @triton.jit
    def kernel(x):  # type: ignore[no-untyped-def]
        return x

    bound = {"f": kernel, "g": (module.helper, module.kernel), "n": 3}
    assert passed_functions(module.kernel, bound) == {kernel: "kernel_2", module.helper: "helper"}


class Mode(enum.IntEnum):
    FAST = 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (3, "3"),
        (Mode.FAST, "2"),
        ("it's", '"it\'s"'),
        (0.1, "0.1"),
        (-math.inf, 'float("-inf")'),
        ((), "()"),
        ((1,), "(1,)"),
        ([1, (2, "a")], "[1, (2, 'a')]"),
    ],
)
def test_a_value_is_written_as_a_literal(value: Any, text: str) -> None:
    """Enumerations are written as numbers, one-element tuples with their comma."""
    assert literal(value) == text


def test_what_belongs_to_triton_is_written_as_its_shortest_path() -> None:
    """The module to import is named where the language does not contain it."""
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice

    assert literal(tl.bfloat16) == "tl.bfloat16"
    assert literal(tl.constexpr(4)) == "tl.constexpr(4)"
    assert path_of(tl.exp) == ("tl.exp", None)
    assert path_of(triton.cdiv) == ("triton.cdiv", None)
    assert path_of(libdevice) == ("tl.extra.libdevice", "triton.language.extra.libdevice")


def test_another_value_has_no_text() -> None:
    """The reason names its class."""
    with pytest.raises(UnwritableValue, match=r"a value of builtins\.set cannot be written down"):
        literal({1})
