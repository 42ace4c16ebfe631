"""Arguments that are made up: what is a tensor, what a length, and which words are worth trying."""

# The driver imports torch.
# ruff: noqa: E402

from __future__ import annotations

import abc
import contextlib
import dataclasses
import enum
import inspect
from typing import Any, Literal, Optional

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.inference import usage
from flacheck.guest.inference.arguments import (
    DTYPES,
    Arguments,
    as_number,
    choices,
    is_length,
    is_tensor,
    other_numbers,
    plain_value,
)
from flacheck.guest.inference.operators import FUNCTION, LAYER, Operator, parameters_of
from flacheck.guest.inference.plans import CallPlan, Recipe
from flacheck.guest.inference.shapes import SIZES, Shapes


def annotated(
    x: torch.Tensor,
    weight: Optional[torch.Tensor] = None,  # noqa: UP045
    size: int = 3,
    kind: Literal["fast", "slow", "none"] = "none",
) -> None: ...


def plain(x, eps, mask, head_dim, num_heads, is_causal, use_it=True, mode="chunk", n=None):  # type: ignore[no-untyped-def]
    if mode == "parallel" or mode == "":
        return n in (2, 3)
    return mode in ("chunk", "fused")


def parameter(function: Any, name: str) -> inspect.Parameter:
    return inspect.signature(function).parameters[name]


def operator(function: Any) -> Operator:
    name = f"{__name__}:{function.__name__}"
    return Operator(
        name, function, FUNCTION, True, frozenset({"m:k"}), parameters_of(function), function
    )


@pytest.mark.parametrize(
    ("function", "name", "known", "is_one"),
    [
        (annotated, "x", False, True),
        (annotated, "weight", False, True),
        (annotated, "size", True, False),
        (plain, "x", False, True),
        (plain, "mask", False, True),
        (plain, "eps", False, False),
        (plain, "eps", True, True),
        (plain, "num_heads", False, False),
        (plain, "is_causal", False, False),
        (plain, "use_it", True, False),
        (plain, "n", False, True),
    ],
)
def test_what_is_a_tensor(function: Any, name: str, known: bool, is_one: bool) -> None:
    """By annotation; else by documentation, and by what its name does not say."""
    assert is_tensor(parameter(function, name), known) is is_one


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("cu_seqlens", True),
        ("cuseqlens_q", True),
        ("seq_offsets", True),
        ("cu_len", True),
        ("seqlen", False),
        ("offsets", False),
    ],
)
def test_what_says_where_packed_sequences_begin(name: str, is_one: bool) -> None:
    """As the field names it."""
    assert is_length(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)) is is_one


def launching(x, num_warps: int, num_stages: int = 3, min_cap: float = 0.5) -> None:  # type: ignore[no-untyped-def]
    if min_cap <= 0:
        raise ValueError("min_cap must be positive")


def test_numbers_of_warps_and_stages_are_small_powers_of_two() -> None:
    """Triton asserts powers of two, and 64 of either fit no GPU."""
    warps, stages = (parameter(launching, name) for name in ("num_warps", "num_stages"))
    assert plain_value(operator(launching), warps, SIZES) == 4
    assert plain_value(operator(launching), stages, SIZES) == 2
    assert choices(operator(launching), warps) == [4, 8, 2]


def test_a_float_that_a_check_wants_positive_is() -> None:
    """The lower end of a range is 0 only where nothing compares it with 0."""
    low = parameter(launching, "min_cap")
    assert plain_value(operator(launching), low, SIZES) > 0
    other = inspect.Parameter("min_other", low.kind, annotation="float")
    assert plain_value(operator(launching), other, SIZES) == 0


def test_an_annotation_of_an_array_is_a_tensor_with_its_dimensions() -> None:
    """jaxtyping's annotations, also without the word Tensor; a head's width is that of a key."""

    def attend(
        q: Float["b qh n d"],  # type: ignore[name-defined]  # noqa: F821, F722
        picked: Int["b qh n sel"] | None,  # type: ignore[name-defined]  # noqa: F821, F722
        where: Bool["b qh n sel"],  # type: ignore[name-defined]  # noqa: F821, F722
    ) -> None: ...

    operators = operator(attend)
    shapes = Shapes([operators], Recipe({}))
    arguments = Arguments(shapes, Recipe({}), "fp16")
    dtypes = {}
    for each in operators.takes:
        assert is_tensor(each, False)
        dtypes[each.name] = arguments.infer_dtype(operators, CallPlan(), each)
    assert dtypes == {"q": torch.float16, "picked": torch.int64, "where": torch.bool}
    assert shapes.candidates(operators, CallPlan(), "q")[0] == ("B", "H", "T", "K")


def test_an_annotation_says_how_wide_integers_are() -> None:
    """Quantized weights are seldom int64, in which a kernel computes otherwise."""

    def multiply(
        weight: torch.IntTensor,
        codes: torch.ByteTensor,
        small: Int8["b n"],  # type: ignore[name-defined]  # noqa: F821, F722
        rows: torch.LongTensor,
    ) -> None: ...

    of = operator(multiply)
    arguments = Arguments(Shapes([of], Recipe({})), Recipe({}), "fp16")
    dtypes = [arguments.infer_dtype(of, CallPlan(), each) for each in of.takes]
    assert dtypes == [torch.int32, torch.uint8, torch.int8, torch.int64]


def test_words_worth_trying_are_those_that_the_code_knows() -> None:
    """Of `Literal[…]` and of comparisons; never the default, nor the empty word."""
    assert choices(operator(annotated), parameter(annotated, "kind")) == ["fast", "slow"]
    assert choices(operator(plain), parameter(plain, "mode")) == ["fused", "parallel"]
    assert choices(operator(plain), parameter(plain, "n")) == [2, 3]
    assert choices(operator(plain), parameter(plain, "use_it")) == [False]
    assert choices(operator(plain), parameter(plain, "x")) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("eps", 1e-5),
        ("head_dim", SIZES["K"]),
        ("num_heads", SIZES["H"]),
        ("mode", "fused"),
        ("use_it", True),
    ],
)
def test_a_plain_value_follows_its_name(name: str, expected: Any) -> None:
    """Where nothing else says more."""
    assert plain_value(operator(plain), parameter(plain, name), SIZES) == expected


def grouped(
    x: torch.Tensor,
    group: Optional[torch.Stream],  # noqa: UP045
    stream: torch.Stream,
    shape: torch.Size,
    either: torch.Stream | int,
) -> None: ...


def test_an_object_that_only_torch_makes_is_none() -> None:
    """Such as a stream or a group of processes, whether or not its annotation includes None."""
    values = {}
    for name in ("group", "stream", "shape", "either"):
        values[name] = plain_value(operator(grouped), parameter(grouped, name), SIZES)
    assert (values["group"], values["stream"]) == (None, None)
    # A shape and an integer can be made up.
    assert None not in (values["shape"], values["either"])


def test_what_a_plan_says_comes_before_what_is_guessed() -> None:
    """Optional arguments stay out unless they are given; a recipe's value may call a function."""
    of = operator(annotated)
    arguments = Arguments(Shapes([of], Recipe({})), Recipe({}), "bf16")
    values = {"x": {"call": "builtins:dict", "with": {"a": 1}}, "weight": {"dtype": "fp32"}}
    built = arguments.build(of, CallPlan(values=values), of.takes)
    assert built == {"x": {"a": 1}, "weight": torch.float32}
    assert arguments.dtype is DTYPES["bf16"]


def told(q: torch.Tensor, cu_seqlens: torch.Tensor, num_heads: int, scale: float) -> None:
    """
    q: queries of shape `[B, T, H, K]`.
    """


def untold(q: torch.Tensor) -> None: ...


def of_no_known_kind(q: torch.Tensor, table: torch.Tensor) -> None:
    """
    q: queries of shape `[B, T, H, K]`.
    table: of shape `[B, T]`; integers, which its name does not say.
    """


def with_a_word(q: torch.Tensor, layout: str) -> None:
    """
    q: queries of shape `[B, T, H, K]`.
    """


def with_a_length_of_its_own(q: torch.Tensor, state_len: int) -> None:
    """
    q: queries of shape `[B, T, H, K]`.
    """


def with_a_dimension_of_all(q: torch.Tensor, max_seqlen: int, num_heads: int) -> None:
    """
    q: queries of shape `[B, T, H, K]`.
    """


@pytest.mark.parametrize(
    ("function", "is_guess"),
    [
        (told, False),
        (untold, True),
        (of_no_known_kind, True),
        (with_a_word, True),
        (with_a_length_of_its_own, True),
        (with_a_dimension_of_all, False),
    ],
)
def test_what_nobody_tells_is_a_guess(function: Any, is_guess: bool) -> None:
    """A tensor without a shape in words, or of a kind that its name does not say, a word, or a size
    that is none of the tensors'.
    """
    made, recipe = operator(function), Recipe({})
    arguments = Arguments(Shapes([made], recipe), recipe, "bf16")
    given = [each for each in made.takes if each.name != "cu_seqlens"]
    made_up: list[bool] = []
    for each in given:
        # There is no card here: a tensor is guessed before it is made.
        with contextlib.suppress(AssertionError, RuntimeError):
            arguments.build(made, CallPlan(), [each])
        made_up.append(arguments.has_guesses)
    assert made_up[-1] is is_guess


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("tuple[float, float]", (1.0, 1.0)),
        ("Tuple[int, ...]", (64, 64)),
        ("List[int]", [64, 64]),
        ("typing.Optional[typing.List[bool]]", [False, False]),
    ],
)
def test_several_plain_values(annotation: str, expected: Any) -> None:
    """As many as the annotation says; two where it does not."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    asked = inspect.Parameter("where", kind, annotation=annotation)
    assert plain_value(operator(plain), asked, SIZES) == expected


def test_between_two_bounds_lies_something() -> None:
    """A lower bound is less than an upper one."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    low = inspect.Parameter("min_range", kind, annotation="tuple[float, float]")
    high = inspect.Parameter("max_range", kind, annotation="tuple[float, float]")
    assert plain_value(operator(plain), low, SIZES) < plain_value(operator(plain), high, SIZES)


def reducing(x: torch.Tensor, ord: int = 2, dim=None, eps: float = 1.0):  # type: ignore[no-untyped-def]
    if ord == float("inf") or ord == -float("inf"):
        return x
    return ord == 0


def test_where_a_function_works_along() -> None:
    """The last dimension or the first; no width, as for layers."""
    assert choices(operator(reducing), parameter(reducing, "dim")) == [-1, 0]
    assert plain_value(operator(reducing), parameter(reducing, "dim"), SIZES) == -1


def test_numbers_that_decide_are_worth_trying() -> None:
    """Infinities too, and a number that is none of them."""
    offered = choices(operator(reducing), parameter(reducing, "ord"))
    assert set(offered) == {float("inf"), -float("inf"), 0, 3}


def indexing(x: torch.Tensor, where: torch.Tensor) -> None:
    """Stands for a launch of a kernel that uses what it loads from `where` as addresses."""


def test_a_tensor_of_addresses_holds_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its annotation and its name say."""
    told = {"where": usage.INDICES, "x": usage.TENSOR}
    monkeypatch.setattr(usage, "parameter_kinds", lambda function: told)
    offered = operator(indexing)
    arguments = Arguments(Shapes([offered], Recipe({})), Recipe({}), "bf16")
    where = parameter(indexing, "where")
    assert arguments.infer_dtype(offered, CallPlan(), where) == torch.int64
    assert arguments.infer_dtype(offered, CallPlan(), parameter(indexing, "x")) == torch.bfloat16


@pytest.mark.parametrize(
    ("name", "annotation", "expected"),
    [
        ("output_dtype", int, 0),
        ("output_dtype", torch.dtype, torch.float32),
        ("W_nbits", int, 8),
        ("packing_bitwidth", int, 8),
        ("orbits_seen", int, 64),
    ],
)
def test_numbers_of_dtypes_and_of_bits(name: str, annotation: Any, expected: Any) -> None:
    """A package may count its dtypes; elements have eight bits."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    asked = inspect.Parameter(name, kind, annotation=annotation)
    assert plain_value(operator(plain), asked, SIZES) == expected


class Schedule(enum.Enum):
    AUTO = "auto"
    STATIC = "static"
    PERSISTENT = "persistent"


def scheduled(x: torch.Tensor, rows: int, schedule: Schedule = Schedule.AUTO) -> None:
    if rows == 0:
        return
    print(x, schedule)


def test_members_of_an_enumeration_are_worth_trying() -> None:
    """All but the default."""
    offered = choices(operator(scheduled), parameter(scheduled, "schedule"))
    assert offered == [Schedule.STATIC, Schedule.PERSISTENT]


def test_a_number_that_the_code_asks_for_is_not_nothing() -> None:
    """A function that is called for no rows returns at once."""
    made = Arguments(Shapes([], Recipe({})), Recipe({}), "bf16").build(
        operator(scheduled), CallPlan(), [parameter(scheduled, "rows")]
    )
    assert made["rows"] > 0


def test_a_shape_has_several_dimensions() -> None:
    """Where one number would do as well."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    annotation = "int | Sequence[int]"
    shape = inspect.Parameter("out_shape", kind, annotation=annotation)
    assert plain_value(operator(plain), shape, SIZES) == [64, 64]
    count = inspect.Parameter("count", kind, annotation=annotation)
    assert plain_value(operator(plain), count, SIZES) == 64


def test_the_widths_of_a_layers_parts_rise() -> None:
    """Up to that of the model; a function's `dims` are something else."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    dims = inspect.Parameter("dims", kind, annotation="list[int]")
    layer = dataclasses.replace(operator(plain), kind=LAYER)
    assert plain_value(layer, dims, SIZES) == [64, 256]
    assert plain_value(operator(plain), dims, SIZES) == [64, 64]


def test_sizes_are_tried_smaller_and_larger() -> None:
    """As many as there are."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    size = inspect.Parameter("size", kind, annotation="tuple[int, int]")
    assert choices(operator(plain), size) == [(8, 8), (160, 160)]


@pytest.mark.parametrize(
    ("name", "annotation", "default", "expected"),
    [
        ("scale", "float", 1.0, [0.5]),
        ("grad_scale", "float | None", None, [0.5]),
        ("alpha", "float", 0.5, []),
        ("beta", "float | torch.Tensor", inspect.Parameter.empty, [0.5]),
        ("bounds", "int | Sequence[int] | torch.Tensor", inspect.Parameter.empty, [64]),
        ("count", "int", 3, []),
    ],
)
def test_numbers_that_are_off_are_given(
    name: str, annotation: str, default: Any, expected: list[Any]
) -> None:
    """A fraction of another worth, and a number where a tensor would do as well."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    asked = inspect.Parameter(name, kind, annotation=annotation, default=default)
    assert other_numbers(asked) == expected


def test_what_a_constructor_says_nothing_of_is_a_number() -> None:
    """A dropout is a portion; what is documented stays, and so does all of a function's."""
    layer = dataclasses.replace(operator(plain), kind=LAYER)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    width = inspect.Parameter("inner", kind)
    assert as_number(layer, width, False).annotation == "int"
    assert as_number(layer, width, True) is width
    assert as_number(operator(plain), width, False) is width
    dropout = as_number(layer, inspect.Parameter("attn_dropout", kind), False)
    assert plain_value(layer, dropout, SIZES) == 0.1


@dataclasses.dataclass
class Format:
    exponent_bits: int
    fraction_bits: int
    signed: bool = True

    def __post_init__(self) -> None:
        assert self.exponent_bits + self.fraction_bits < 16
        if self.exponent_bits not in (5,):
            raise ValueError("no such format")


@dataclasses.dataclass
class Never:
    bits: int

    def __post_init__(self) -> None:
        raise ValueError("never")


def test_what_an_objects_constructor_refuses_is_given_otherwise() -> None:
    """One number after the other; what does not say what it wants is raised."""
    given = Arguments(Shapes([], Recipe({})), Recipe({}), "fp16")
    assert given.build_object(f"{__name__}:Format") == Format(5, 8)
    with pytest.raises(ValueError, match="never"):
        given.build_object(f"{__name__}:Never")


class Layout(abc.ABC):
    @abc.abstractmethod
    def swizzle(self) -> None: ...


class Other(Layout, abc.ABC): ...


class Strided(Other):
    def __init__(self, width: int) -> None:
        self.width = width

    def swizzle(self) -> None: ...


def test_an_object_of_an_abstract_class_is_of_one_below_it() -> None:
    """The first that can be made."""
    given = Arguments(Shapes([], Recipe({})), Recipe({}), "fp16")
    made = given.build_object(f"{__name__}:Layout")
    assert (type(made), made.width) == (Strided, 64)


def test_packed_weights_are_integers() -> None:
    """By the usual names of quantized matrices."""

    def multiply(x, qweight, qzeros, scales, w_packed, packed_length: int): ...  # type: ignore[no-untyped-def]

    of = operator(multiply)
    arguments = Arguments(Shapes([of], Recipe({})), Recipe({}), "fp16")
    dtypes = [arguments.infer_dtype(of, CallPlan(), each) for each in of.takes[:5]]
    assert dtypes == [torch.float16, torch.int32, torch.int32, torch.float16, torch.int32]
