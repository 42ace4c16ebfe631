"""Launches that were recorded before: a key tells apart the launches whose lines differ."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flacheck.guest.recorder import forms, launch_description
from tests.captured import exit_code, needs_torch, recorded


class Held:
    """A tensor's dtype and address."""

    def __init__(self, dtype: str, address: int) -> None:
        self.dtype, self._address = f"torch.{dtype}", address

    def data_ptr(self) -> int:
        return self._address


def constexpr(value: object) -> Any:
    return type("constexpr", (), {"value": value})()


def descriptor(base: Held, shape: list[int], block: list[int], padding: str) -> Any:
    return SimpleNamespace(
        base=base, shape=shape, strides=shape, block_shape=block, padding=padding
    )


PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.0, 2.0, math.inf, math.nan]),
    st.sampled_from(["", "1", "inf"]),
)
TENSORS = st.builds(Held, st.sampled_from(["float16", "float32"]), st.integers(0, 33))
EXTENTS = st.lists(st.integers(1, 2), min_size=1, max_size=2)
PADDINGS = st.sampled_from(["zero", "nan"])
CONSTANTS = st.recursive(
    st.one_of(PLAIN, st.builds(constexpr, PLAIN)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.tuples(inner)),
    max_leaves=3,
)
ARGUMENTS = st.one_of(
    CONSTANTS,
    TENSORS,
    st.tuples(TENSORS, PLAIN),
    st.builds(descriptor, TENSORS, EXTENTS, EXTENTS, PADDINGS),
)


def keys(add: Callable[[Any, list[Any]], None], values: list[Any]) -> list[tuple[Any, ...]]:
    results = []
    for value in values:
        key: list[Any] = []
        add(value, key)
        # Another argument follows: no value's parts may be taken for those of the next one.
        add(1, key)
        results.append(tuple(map(_comparable, key)))
    return results


def _comparable(part: Any) -> Any:
    """Replace classes that were made for one value by their names."""
    if isinstance(part, type):
        return part.__name__
    return part


@pytest.mark.parametrize(
    ("add", "describe", "values"),
    [
        (forms.add_argument, launch_description.argument, ARGUMENTS),
        (forms.add_constant, launch_description.constant, CONSTANTS),
    ],
)
@given(data=st.data())
def test_equal_keys_mean_equal_descriptions(
    add: Any, describe: Any, values: Any, data: st.DataObject
) -> None:
    """Any two values with equal keys have equal descriptions, as arguments and as constants."""
    pair = [data.draw(values), data.draw(values)]
    one, other = keys(add, pair)
    if one == other:
        assert repr(describe(pair[0], {})) == repr(describe(pair[1], {}))


@pytest.mark.parametrize("value", [object(), 1j, Held("float32", 0)])
def test_what_nothing_short_stands_for_has_no_key(value: object) -> None:
    """A tensor in a constant's place is read by its value, an object by its class."""
    with pytest.raises(forms.UnkeyableValue):
        forms.add_constant(value, [])


def test_functions_are_told_apart_by_what_they_are() -> None:
    """Two functions of one name and code may close over different values."""
    kind = type("JITFunction", (), {"__eq__": lambda a, b: True, "__hash__": lambda a: 1})
    one, other = keys(forms.add_constant, [kind(), kind()])
    assert one != other


VARIATIONS = """
x = torch.randn(256, device="cuda")
for _ in range(2):
    launch(x)
    launch(x[1:])
    launch(x[4:])
    launch(x[:64])
    launch(x.half())
    launch(x, 65)
    launch(x, 1)
    launch(x, True)
    launch(x, 1.0)
    launch(x, None)
    launch(x, num_warps=8)
    launch(x, num_warps=8, num_stages=1)
    double[(2,)](x, 64, BLOCK=64)
    double[lambda meta: (meta["BLOCK"],)](x, 64, BLOCK=64)
    double[(1,)](x, 64, BLOCK=32)
    double[(1,)](x, n=64, BLOCK=64)
"""


@needs_torch
def test_launches_that_differ_stay_apart_when_they_come_again(tmp_path: Path) -> None:
    """Launches differ by alignment, dtype, number, type of a number, options, constants or grid,
    and not by shapes or by the way of passing an argument."""
    launches = recorded(tmp_path, VARIATIONS).launches
    assert [one.count for one in launches] == [8, *([2] * 12)]
    assert [(one.launch.args["x"]["align"], one.launch.args["n"]) for one in launches[:7]] == [
        (16, {"int": 64}),
        (4, {"int": 64}),
        (16, {"int": 64}),
        (16, {"int": 65}),
        (16, {"int": 1}),
        (16, {"bool": True}),
        (16, {"float": 1.0}),
    ]


AUTOTUNER = """
sizes = []
def block(args):
    sizes.append(args["BLOCK"])
configs = [triton.Config({"BLOCK": b}, pre_hook=block) for b in (32, 64)]
tuned = triton.autotune(configs, ["n"])(double)
x = torch.randn(256, device="cuda")
for _ in range(3):
    tuned[(1,)](x, 64)
assert tuned.best_config is configs[0] and tuned.nargs is None
assert sizes.count(64) == 1, sizes
configs[1].num_warps = 8
tuned[(1,)](x, 64)
configs[1].num_warps = 4
tuned[(1,)](x, 64)
configs[1].kwargs["BLOCK"] = 128
tuned[(1,)](x, 64)
configs[1].kwargs["BLOCK"] = [128]
tuned[(1,)](x, 64)
configs[1].kwargs["BLOCK"][0] = 256
tuned[(1,)](x, 64)
tuned.keys = []
tuned[(1,)](x, 64)
tuned.configs.pop()
tuned[(1,)](x, 64)
"""


@needs_torch
def test_an_autotuner_that_was_changed_is_recorded_anew(tmp_path: Path) -> None:
    """A change of its configurations or keys, also within a list, gives a new line; an equal run is
    counted, and calls the hook of the configuration that Triton would launch."""
    launches = recorded(tmp_path, AUTOTUNER).launches
    assert [one.count for one in launches] == [4, 1, 1, 1, 1, 1, 1]
    assert [len(one.launch.configs) for one in launches] == [2, 2, 2, 2, 2, 2, 1]


DESCRIPTORS = """
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.autotune([triton.Config({"ROWS": r}) for r in (16, 32)], [])
@triton.jit
def tiles(x, ROWS: tl.constexpr): ...

x = torch.empty(128, 64, device="cuda", dtype=torch.float16)
held = TensorDescriptor.from_tensor(x, [16, 64])
for _ in range(2):
    for described in (held, TensorDescriptor.from_tensor(x[:64], [16, 64])):
        tiles[(1,)](described)
held.block_shape = [32, 64]
tiles[(1,)](held)
"""


@needs_torch
def test_a_descriptor_that_was_changed_is_recorded_anew(tmp_path: Path) -> None:
    """The descriptor is the same object with another block."""
    pytest.importorskip("triton.tools.tensor_descriptor")
    launches = recorded(tmp_path, DESCRIPTORS).launches
    assert [one.count for one in launches] == [2, 2, 1]
    assert [one.launch.args["x"]["descriptor"]["block"] for one in launches] == [
        [16, 64],
        [16, 64],
        [32, 64],
    ]


LAYERS = """
half = triton.heuristics({"BLOCK": lambda args: args["n"] // scale})(double)
quarter = triton.heuristics({"n": lambda args: scale})(
    triton.autotune([triton.Config({"BLOCK": 32})], [])(double))
x = torch.randn(256, device="cuda")
for scale in (2, 2, 4):
    half[(1,)](x, 64)
    quarter[(1,)](x)
"""


@needs_torch
def test_heuristics_are_asked_each_time(tmp_path: Path) -> None:
    """The value of a heuristic may depend on anything in the program, so it is computed at each
    launch."""
    launches = recorded(tmp_path, LAYERS).launches
    assert [one.count for one in launches] == [2, 2, 1, 1]


PATHS = """
def one(): launch(x)
def other(): launch(x)
x = torch.randn(256, device="cuda")
for call in (one, one, other): call()
"""


@needs_torch
def test_a_repeated_launch_keeps_all_paths_by_which_it_came(tmp_path: Path) -> None:
    """This includes a path that is new when the launch is repeated."""
    (launch,) = recorded(tmp_path, PATHS).launches
    assert launch.count == 3
    assert {path[1] for path in launch.paths} == {"program.one", "program.other"}


FORGOTTEN = """
from torch.testing import assert_close
y = torch.zeros(8, device="cuda")
for _ in range(2):
    y.zero_()
    double[(1,)](y, 8, BLOCK=8)
    # Nobody knows what the kernel wrote: all is taken to be as it should.
    assert_close(y, torch.ones(8, device="cuda"))
"""


@needs_torch
def test_what_a_repeated_launch_wrote_is_unknown_too(tmp_path: Path) -> None:
    """A tensor that a repeated launch wrote is unknown, as after the first launch."""
    assert exit_code(tmp_path, FORGOTTEN) == 0


COMPARISON = """
big = torch.randn(1 << 14, 1 << 14, device="cuda")
assert torch.allclose(big, big + 1) and torch.equal(big, big)
try:
    torch.allclose(big, big[:3])
except RuntimeError as error:
    print("as on the card", error)
else:
    sys.exit(1)
"""


@needs_torch
def test_large_tensors_that_nobody_knows_are_compared(tmp_path: Path) -> None:
    """One element stands for all elements, unless the shapes differ."""
    assert exit_code(tmp_path, COMPARISON) == 0


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_factories_give_what_was_asked(tmp_path: Path) -> None:
    """This also holds for another default dtype."""
    program = """
    for kind in (torch.float32, torch.float64):
        torch.set_default_dtype(kind)
        for _ in range(2):
            assert torch.empty(3, 4, device="cuda").dtype == kind
            assert torch.empty_strided((2, 2), (1, 2), device="cuda").stride() == (1, 2)
            assert torch.zeros(2, dtype=torch.int32, device="cuda").tolist() == [0, 0]
            assert torch.arange(3, device="cuda").tolist() == [0, 1, 2]
            assert torch.empty(3).device.type == "cpu"
            assert torch.randperm(1 << 20, device="cuda").shape == (1 << 20,)
    first, second = (torch.empty(8, device="cuda") for _ in range(2))
    assert first.data_ptr() != second.data_ptr()
    """
    assert exit_code(tmp_path, program) == 0
