"""What an operator that refused its arguments wants of them, by its own code."""

# The driver imports torch.
# ruff: noqa: E402

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.solver.argument_dataflow import (
    ATTRIBUTES,
    BUILD,
    DTYPE,
    FIELD,
    GIVE,
    OBJECT,
    OMIT,
    SHAPE,
    TABLE,
    VALUE,
    Constraint,
)
from flacheck.guest.solver.constraints import refusal_constraints

Wanted = list[tuple[int, str, Any]]


def wanted(function: Callable[..., Any], **given: Any) -> Wanted:
    """What the function wants when it is called so; it must refuse."""
    try:
        function(**given)
    except Exception as error:
        return [(each.kind, each.name, each.value) for each in refusal_constraints(error, given)]
    raise AssertionError("the call was not refused")


def zeros(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.zeros(shape, dtype=dtype)


def same_shapes(q: Any, k: Any) -> None:
    assert q.shape == k.shape, "q and k go together"


def test_two_shapes_that_must_be_equal() -> None:
    """Either takes the other's."""
    assert wanted(same_shapes, q=zeros(2, 4), k=zeros(3, 4)) == [
        (SHAPE, "q", (3, 4)),
        (SHAPE, "k", (2, 4)),
    ]


def checks(a: Any, b: Any) -> None:
    first, second = torch.relu(a) + 0, torch.relu(b) + 0
    if [*first.shape] != [*second.shape]:
        raise ValueError(f"shapes must match, got {tuple(first.shape)} and {tuple(second.shape)}")


def test_two_shapes_that_a_message_prints() -> None:
    """The tensors of the check are computed from the arguments, and have their shapes."""
    assert wanted(checks, a=zeros(2, 4), b=zeros(3, 4)) == [
        (SHAPE, "b", (2, 4)),
        (SHAPE, "a", (3, 4)),
    ]


def expands(x: Any, gamma: Any) -> Any:
    return gamma[None, :].expand(x.shape[0], -1)


def test_an_expanded_tensor_has_too_many_dimensions() -> None:
    """They are joined or dropped; an index by None adds one to the tensor's own."""
    first, second, *_ = wanted(expands, x=zeros(5), gamma=zeros(2, 4))
    assert (first, second) == ((SHAPE, "gamma", (8,)), (SHAPE, "gamma", (4,)))


def with_lengths(x: Any, lengths: Any, counts: Any) -> None:
    lengths = lengths.contiguous()
    if x.is_floating_point() and bool((lengths < 1).any()):
        raise ValueError("an empty document")
    assert (counts > 2).all()


def filled(shape: tuple[int, ...], element: int) -> Any:
    return {"shape": shape, "of": "int64", "fill": element}


def test_elements_of_an_integer_tensor_that_are_compared() -> None:
    """The tensor is filled with the nearest number that satisfies the comparison."""
    empty = zeros(3, dtype=torch.int64)
    one = torch.ones(3, dtype=torch.int64)
    assert wanted(with_lengths, x=zeros(2), lengths=empty, counts=empty) == [
        (VALUE, "lengths", filled((3,), 1))
    ]
    assert wanted(with_lengths, x=zeros(2), lengths=one, counts=empty) == [
        (VALUE, "counts", filled((3,), 3))
    ]


def with_longest(x: Any, lengths: Any, rows: Any) -> None:
    longest = int(lengths[rows.long()].max().item()) if rows.numel() else 0
    if longest == 0:
        raise ValueError("nothing to score")


def test_elements_of_an_integer_tensor_that_are_read() -> None:
    """A size that is the largest element becomes the nearest other one."""
    empty = zeros(3, dtype=torch.int64)
    assert wanted(with_longest, x=zeros(2), lengths=empty, rows=zeros(2, dtype=torch.int64)) == [
        (VALUE, "lengths", filled((3,), 1))
    ]


def with_config(x: Any, config: Any) -> Any:
    if config.hidden_act != "silu":
        raise ValueError("another activation")
    return config.hidden_size * config.num_heads + config.count()


def test_an_object_of_no_class_has_the_attributes_that_are_read() -> None:
    """One that lacks an attribute gets this one; its methods are unknown."""
    names = ("hidden_act", "hidden_size", "num_heads")
    assert wanted(with_config, x=zeros(2), config=3) == [
        (OBJECT, "config", "hidden_act"),
        (ATTRIBUTES, "config", names),
    ]
    config = SimpleNamespace(hidden_act="silu", hidden_size=64)
    assert wanted(with_config, x=zeros(2), config=config) == [(ATTRIBUTES, "config", names)]
    config.num_heads = 4
    assert wanted(with_config, x=zeros(2), config=config) == []


def raising(x: Any, chunk_size: int) -> None:
    batch, _length = x.shape
    if batch != 1 or chunk_size not in (16, 32):
        raise ValueError("not so")


def test_what_an_if_refuses_is_avoided() -> None:
    """Only the part that holds is asked; a variable leads to the dimension that it comes from."""
    assert wanted(raising, x=zeros(2, 8), chunk_size=16) == [(SHAPE, "x", (1, 8))]
    assert wanted(raising, x=zeros(1, 8), chunk_size=64) == [
        (VALUE, "chunk_size", 16),
        (VALUE, "chunk_size", 32),
    ]


def head_size(k: Any) -> None:
    size = k.size(-1)
    assert size in {64} and size % 16 == 0


def ranks(positions: Any) -> None:
    assert positions.dim() == 1


def unpacking(x: Any) -> None:
    _rows, _columns = x.shape


def multiple(x: Any) -> None:
    assert x.shape[0] % 16 == 0


def numbers(first: Any, second: Any) -> None:
    assert all(each.dtype == torch.int8 for each in (first, second))


@pytest.mark.parametrize(
    ("function", "given", "first"),
    [
        (head_size, {"k": (2, 48)}, (SHAPE, "k", (2, 64))),
        (ranks, {"positions": (2, 8)}, (SHAPE, "positions", (16,))),
        (unpacking, {"x": (2, 3, 4)}, (SHAPE, "x", (6, 4))),
        (unpacking, {"x": (4,)}, (SHAPE, "x", (2, 4))),
        (multiple, {"x": (20, 3)}, (SHAPE, "x", (32, 3))),
        (numbers, {"first": (2,), "second": (2,)}, (DTYPE, "first", torch.int8)),
    ],
)
def test_dimensions_ranks_and_dtypes(
    function: Callable[..., Any], given: dict[str, tuple[int, ...]], first: tuple[int, str, Any]
) -> None:
    """The likeliest change comes first."""
    assert wanted(function, **{n: zeros(*shape) for n, shape in given.items()})[0] == first


def inner(a: Any, width: int) -> None:
    if a.shape[1] != width:
        raise ValueError("the width")


def outer(x: Any, width: int = 8) -> None:
    inner(x, width=width)


def test_a_callee_is_followed_to_its_callers_arguments() -> None:
    """`a` is what the caller calls `x`."""
    assert wanted(outer, x=zeros(2, 4), width=8) == [(SHAPE, "x", (2, 8)), (VALUE, "width", 4)]


def gate(x: Any, g: Any = None, state: Any = None) -> None:
    assert g is not None and state is None


def test_an_argument_that_must_be_there_or_not() -> None:
    """By `is None` and `is not None`."""
    assert wanted(gate, x=zeros(2), g=None, state=zeros(2)) == [
        (GIVE, "g", None),
        (OMIT, "state", None),
    ]


def kinds(config: Any, table: Any, causal: Any) -> int:
    tile = table["BLOCK"] + table["WARPS"] if table is not None else 0
    if causal:
        tile += 1
    return tile + config.chunk


def test_numbers_that_should_be_objects_tables_or_truths() -> None:
    """An attribute, keys, a condition tell."""
    plain = SimpleNamespace(chunk=1)
    assert wanted(kinds, config=64, table=None, causal=False) == [
        (OBJECT, "config", "chunk"),
        (ATTRIBUTES, "config", ("chunk",)),
    ]
    assert wanted(kinds, config=plain, table=64, causal=False) == [
        (TABLE, "table", ("BLOCK", "WARPS"))
    ]
    assert (VALUE, "causal", False) in wanted(kinds, config=plain, table=None, causal=zeros(2, 2))


def contiguous(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        contiguous_args = (each.t() if isinstance(each, torch.Tensor) else each for each in args)
        return function(*contiguous_args, **kwargs)

    return wrapper


class Projection(torch.autograd.Function):
    @staticmethod
    @contiguous
    def forward(ctx: Any, x: Any, linear_weight: Any) -> Any:
        linear_weight = linear_weight.to(x.dtype)
        return x @ linear_weight


def projected(x: Any, weight: Any = None) -> Any:
    return Projection.apply(x, weight)


def test_a_tensor_that_is_missing_behind_a_wrapper() -> None:
    """The wrapper passes all arguments on in order; a tensor has the attribute, so it may be one."""
    assert wanted(projected, x=zeros(2), weight=None)[0] == (GIVE, "weight", None)


def added(x: Any, weight: Any, bias: Any) -> Any:
    return torch.addmm(bias, x, weight)


def test_a_bias_that_does_not_fit_the_result() -> None:
    """On the fake device torch names both shapes."""
    x, weight, bias = (zeros(*shape).to("meta") for shape in ((2, 4), (4, 8), (3,)))
    assert wanted(added, x=x, weight=weight, bias=bias)[0] == (SHAPE, "bias", (8,))


def looked_up(x: Any, dtype: Any) -> str:
    return {torch.int8: "i8", torch.bfloat16: "bf16"}[dtype]


def test_a_table_tells_its_keys() -> None:
    """What is looked up must be one of them."""
    assert wanted(looked_up, x=zeros(2), dtype=torch.float32) == [
        (VALUE, "dtype", torch.int8),
        (VALUE, "dtype", torch.bfloat16),
    ]


class Layer:
    def __init__(self, heads: int) -> None:
        self.heads = heads

    def forward(self, x: Any) -> None:
        assert self.heads == 4


def test_a_layers_attribute_is_its_constructors() -> None:
    """`self.heads` is what `heads` was."""
    assert wanted(Layer(2).forward, x=zeros(2)) == [(BUILD, "heads", 4)]


def endless(x: Any) -> None:
    x = x
    a = b = x.shape[0]
    a = b
    b = a
    assert a == 7


class Everything:
    def __getattr__(self, name: str) -> Everything:
        return Everything()

    def __bool__(self) -> bool:
        raise RuntimeError("never")


def odd(thing: Any) -> None:
    if not thing.is_fine:
        raise ValueError


def test_code_that_leads_nowhere_ends() -> None:
    """Circles, and objects that answer everything and raise whatever they like."""
    assert wanted(endless, x=zeros(2)) is not None
    assert wanted(odd, thing=Everything()) == []
    assert Constraint(VALUE, "x", 1).identity != Constraint(VALUE, "x", 2).identity


def dividing(q: Any, k: Any) -> int:
    ratio = q.shape[1] // k.shape[1]
    return 16 // ratio


def test_what_was_divided_by_is_not_zero() -> None:
    """Either side of the quotient that came to nothing changes."""
    assert wanted(dividing, q=zeros(2, 4), k=zeros(2, 8))[0] == (SHAPE, "q", (2, 8))


def indexing(x: Any, sizes: Any) -> Any:
    return x.shape[2], sizes[0] + sizes[1]


def test_what_is_indexed_has_so_many_entries() -> None:
    """A tensor gets further dimensions, a number becomes several."""
    assert wanted(indexing, x=zeros(4, 8), sizes=3)[0] == (SHAPE, "x", (2, 4, 8))
    assert wanted(indexing, x=zeros(2, 4, 8), sizes=3) == [(VALUE, "sizes", (3, 3))]


def checked_length(x: Any) -> None:
    _, _, length = x.shape[:3]
    assert length % 128 == 0


def checked_width(x: Any) -> None:
    *_batch, width = x.size()
    assert width % 128 == 0


def checked_value_width(q: Any, v: Any) -> None:
    _batch, _length, width = *q.shape, v.shape[-1]
    assert width in (16, 32)  # type: ignore[has-type]


def test_an_extent_is_unpacked_from_a_part_of_a_shape() -> None:
    """A slice of it, the rest after a starred name, or what follows the starred shape."""
    assert wanted(checked_value_width, q=zeros(2, 16), v=zeros(2, 5))[0] == (SHAPE, "v", (2, 16))
    assert wanted(checked_length, x=zeros(2, 5, 4, 8)) == [(SHAPE, "x", (2, 5, 128, 8))]
    assert wanted(checked_width, x=zeros(2, 5, 8)) == [(SHAPE, "x", (2, 5, 128))]


def unpacking_sizes(size: Any) -> int:
    height, width = size
    return int(height * width)


def test_what_is_unpacked_is_several() -> None:
    """As many as there are names."""
    assert wanted(unpacking_sizes, size=7) == [(VALUE, "size", (7, 7))]


def converting(threshold: Any) -> float:
    return float(threshold)


def test_what_is_made_a_number_is_a_number() -> None:
    """A tensor with several elements is none."""
    assert wanted(converting, threshold=zeros(4)) == [(VALUE, "threshold", 1.0)]


def shifted(x: Any) -> None:
    levels, width = x.shape
    if 1 << levels != width:
        raise ValueError("one level for each bit")


def test_a_shift_leads_to_the_number_of_bits() -> None:
    """`1 << levels` is 16 for four of them."""
    assert wanted(shifted, x=zeros(8, 16))[0] == (SHAPE, "x", (4, 16))


def joined(first: Any, rest: Any) -> Any:
    return torch.cat([first.unsqueeze(0), rest[:-1]], dim=0)


def test_joined_tensors_have_the_dimensions_of_the_first() -> None:
    """They may differ in the joined one."""
    assert wanted(joined, first=zeros(2, 4), rest=zeros(3, 8))[0] == (SHAPE, "rest", (1, 2, 4))
    assert wanted(joined, first=zeros(2, 4), rest=zeros(3, 8, 8))[0] == (SHAPE, "rest", (2, 2, 4))


def viewed(x: Any, batch: int, levels: int) -> Any:
    return x.view(batch, levels, 4)


def test_a_view_has_as_many_elements_as_its_tensor() -> None:
    """One extent follows from the others, or the tensor has those of the view."""
    constraints = wanted(viewed, x=zeros(2, 8, 4), batch=2, levels=3)
    assert constraints == [(VALUE, "levels", 8), (SHAPE, "x", (2, 3, 4))]


def of_each(queries: Any) -> None:
    for query in queries:
        if query.ndim != 1:
            raise ValueError("each has one dimension")


def test_each_tensor_of_a_list() -> None:
    """What one of them should be is what all should be."""
    assert wanted(of_each, queries=[zeros(2, 4), zeros(2, 4)])[0] == (SHAPE, "queries", (8,))


def indexed(sizes: Any) -> Any:
    return sizes[0] + sizes[3]


def test_a_list_is_as_long_as_the_code_reads() -> None:
    assert wanted(indexed, sizes=[64, 64]) == [(VALUE, "sizes", (64,) * 4)]


def listed(role: Any, left: Any) -> None:
    expected = {"role": (64, 512), "left": (64, 16)}
    actual = {"role": tuple(role.shape), "left": tuple(left.shape)}
    wrong = {name: (actual[name], shape) for name, shape in expected.items()}
    raise RuntimeError(f"Invalid shapes: {wrong}.")


def test_a_message_that_lists_shapes_by_name() -> None:
    """Of two after a name, one is the tensor's own; the other is wanted."""
    assert wanted(listed, role=zeros(2, 4, 8), left=zeros(64, 16)) == [(SHAPE, "role", (64, 512))]


def of_degree(q: Any, degree: Any) -> Any:
    return math.comb(q.shape[0], degree)


def test_a_tensor_that_is_an_extent_is_an_integer() -> None:
    """Not the one whose attributes are read."""
    assert wanted(of_degree, q=zeros(2, 3), degree=zeros(4, 5))[0] == (VALUE, "degree", 2)


class Weights:
    def __init__(self, weight: Any) -> None:
        self.weight = weight

    def apply(self, x: Any) -> Any:
        weight = self.weight
        if weight.shape[-1] != x.shape[-1]:
            raise ValueError("as wide as the weight")
        return x @ weight


def test_a_tensor_of_the_object_is_built_in_another_shape() -> None:
    """It is an argument of the constructor."""
    weights = Weights(zeros(2, 8))
    assert wanted(weights.apply, x=zeros(3, 4)) == [
        (BUILD, "weight", {"shape": (2, 4), "of": "float32"}),
        (SHAPE, "x", (3, 8)),
    ]


class Plan:
    def __init__(self, chunk: int) -> None:
        self.chunk = chunk

    def check(self, chunk: int) -> None:
        if self.chunk != chunk:
            raise ValueError(f"made for {self.chunk}")


def planned(x: Any, plan: Plan) -> None:
    plan.check(64)


def test_a_field_of_an_object_that_was_passed() -> None:
    """The object is to be built with it."""
    assert wanted(planned, x=zeros(2), plan=Plan(1)) == [(FIELD, "plan", (Plan, "chunk", 64))]


def walking(source: Any, gradient: Any) -> None:
    rows = source.stride(0)
    if gradient.stride(0) != rows:
        raise ValueError("strides must match")


def test_equal_strides_are_equal_shapes() -> None:
    """Either tensor takes the other's shape."""
    assert wanted(walking, source=zeros(2, 4), gradient=zeros(2, 8)) == [
        (SHAPE, "gradient", (2, 4)),
        (SHAPE, "source", (2, 8)),
    ]


def remaining(q: Any, k: Any) -> None:
    if q.shape[1] % k.shape[1]:
        raise ValueError("heads come in groups")


def test_what_leaves_a_rest_is_made_a_multiple() -> None:
    """Upwards; else the divisor becomes the whole."""
    assert wanted(remaining, q=zeros(2, 6), k=zeros(2, 4)) == [
        (SHAPE, "q", (2, 8)),
        (SHAPE, "k", (2, 6)),
    ]


def counting(dim: Any) -> int:
    return len(dim)


def padding(pads: Any) -> Any:
    left, right, top = pads
    return left + right + top


def test_a_number_that_should_be_a_sequence_becomes_one() -> None:
    """A sequence of the wrong length gets the right one."""
    assert wanted(counting, dim=-1) == [(VALUE, "dim", (-1,))]
    assert wanted(padding, pads=(1, 1)) == [(VALUE, "pads", (1, 1, 1))]


def making(size: Any) -> Any:
    return torch.zeros(size)


def test_extents_are_numbers() -> None:
    """A tensor in their place becomes one or two of them."""
    first, second = wanted(making, size=zeros(2, 3))
    assert first == (VALUE, "size", 16)
    assert second == (VALUE, "size", (16, 16))


def lacking(x: Any, config: Any) -> None:
    def launched(a: int, b: int, BLOCK: int = 0, GROUP: int = 0) -> None:
        raise TypeError("dynamic_func() missing 2 required positional arguments: 'c', 'GROUP'")

    launched(*x.stride()[2:], *x.shape[:1], **config)


def test_a_launch_that_lacks_arguments() -> None:
    """Options that a made-up table has not, and strides of a tensor of too few dimensions."""
    demanded = wanted(lacking, x=zeros(3, 4, 5), config={"BLOCK": 64})
    assert demanded == [
        (TABLE, "config", ("BLOCK", "c", "GROUP")),
        (SHAPE, "x", (2, 2, 3, 4, 5)),
    ]


def normed(x: Any, weight: Any) -> None:
    assert x.shape[-1] == weight.numel()


def test_a_weight_has_as_many_elements_as_a_tensor_is_wide() -> None:
    """What is huge comes last: the tensor is not meant to be as wide as the weight is large."""
    assert wanted(normed, x=zeros(2, 64), weight=zeros(512, 256)) == [
        (SHAPE, "weight", (64,)),
        (SHAPE, "weight", (1, 64)),
        (SHAPE, "x", (2, 512 * 256)),
    ]


def of_several(parts: Any) -> None:
    _batch, _heads, _width = parts[0].shape


def test_one_of_several_tensors() -> None:
    """What is asked of the first holds of all."""
    parts = [zeros(2, 3, 4, 5), zeros(2, 3, 4, 5)]
    assert wanted(of_several, parts=parts)[0] == (SHAPE, "parts", (6, 4, 5))


def of_bytes(scale: Any) -> None:
    assert scale.element_size() == 1


def test_elements_of_so_many_bytes() -> None:
    """A dtype that has them."""
    assert wanted(of_bytes, scale=zeros(4)) == [
        (DTYPE, "scale", torch.uint8),
        (DTYPE, "scale", torch.float8_e4m3fn),
    ]


def walked(w: Any) -> None:
    _rows, _columns = w.stride()


def renamed(image: Any, text: Any) -> None:
    x, y = image, text
    x, y = x.abs().contiguous(), y.contiguous()
    _same(x, y)
    _batch, _width = x.shape


def _same(a: Any, b: Any) -> None:
    if a.shape != b.shape:
        raise ValueError("not alike")


def test_strides_are_as_many_as_dimensions() -> None:
    """The tensor gets as many as are unpacked."""
    assert wanted(walked, w=zeros(2, 3, 4))[0] == (SHAPE, "w", (6, 4))


def test_an_argument_under_another_name_is_followed() -> None:
    """Also where that name was given what was made of it since."""
    assert wanted(renamed, image=zeros(2, 3, 4), text=zeros(2, 3, 4))[0] == (
        SHAPE,
        "image",
        (6, 4),
    )
    assert wanted(renamed, image=zeros(6, 4), text=zeros(2, 3, 4)) == [
        (SHAPE, "image", (2, 3, 4)),
        (SHAPE, "text", (6, 4)),
    ]


def for_inference(x: Any) -> None:
    if x.requires_grad:
        raise ValueError("detach it first")


def test_a_tensor_is_no_object_with_fields() -> None:
    """What its attributes are follows from the call."""
    assert wanted(for_inference, x=torch.zeros(2, requires_grad=True)) == []


def with_momentum(momentum: float) -> None:
    if momentum == 0:
        raise NotImplementedError("not without momentum")


def test_two_numbers_that_must_differ() -> None:
    """One is made more."""
    assert wanted(with_momentum, momentum=0.0) == [(VALUE, "momentum", 1.0)]


def strided(x: Any, w: Any) -> None:
    _launch(x.contiguous(), w)


def _launch(y: Any, w: Any) -> Any:
    return y.stride(0), y.stride(2), w.stride(-1)


def test_a_stride_that_is_not_there_wants_more_dimensions() -> None:
    """As many as the highest that is asked for."""
    assert wanted(strided, x=zeros(4, 5), w=zeros(3))[0] == (SHAPE, "x", (2, 4, 5))
