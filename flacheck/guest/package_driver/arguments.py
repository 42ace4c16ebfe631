"""Makes up arguments: tensors of the right shape and dtype, and plain values by name, annotation,
and what the code of a module compares them with."""

import ast
import collections
import enum
import functools
import importlib
import inspect
import math
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ..workers.values import TORCH_NAMES
from . import objects, optimizers, usage
from .demands import demands
from .following import BUILD, VALUE
from .operators import FUNCTION, LAYER, Operator
from .plans import CallPlan, Recipe
from .shapes import SIZES, Shapes, Sizes, is_named, shape, size

DTYPES = {name: getattr(torch, torch_name) for name, torch_name in TORCH_NAMES.items()}
# The dtype in which everything is called first.
FIRST = torch.bfloat16
NOTHING = inspect.Parameter.empty
LENGTHS = re.compile(r"cu_?seq|seq_?offsets|cu_?len")
_INTEGERS = re.compile(
    r"(^|_)(ids?|idx|index|indices|labels?|targets?|lens|lengths|positions?|offsets|counts?)(_|$)"
    r"|(block|page)_?tables?|slot_mapping|seq_?used|LongTensor|IntTensor"
)
_TRUTHS = re.compile(r"mask|BoolTensor")
# Names of what is no tensor, for parameters that have no annotation.
_PLAIN = re.compile(
    r"^(eps|epsilon|scale|\w*_scale|dtype|\w*_dtype|device|reduction|activation|\w*_mode|mode|dim"
    r"|axis|\w*size|num_\w+|n_\w+|\w*alpha|\w*_?coef\w*|lr|p|inplace|in_place|offset|temperature"
    r"|softcap\w*|ignore_index|is_causal|causal|B[A-Z]|T|layout|training)$"
    r"|^(is_|use_|return_|output_)"
)
_SIZED = re.compile(r"head|dim|hidden|seq|len|tokens$|vocab|batch|^d_model$|^[A-Z]+$")
# A name of nothing but such words is that of a dimension that all tensors of a call share. Another
# word makes it a size of something else (`state_len`, `rotary_dim`), or no size (`head_stride`).
_DIMENSION = re.compile(
    r"(?!ndim$)(?:(?:max|num|n|d|q|k|v|qk|kv|hv|query|key|value|attention|in|out|input|output|embed|emb"
    r"|embedding|features?|model|batch|size|heads?|dim|hidden|seqs?|seqlens?|sequences?|len|length"
    r"|vocab)(?:_|$|(?=head|dim|size|len)))+",
    re.IGNORECASE,
)
# Which dimension a function works along, as torch's functions call it; layers call their width so.
_AXES = re.compile(r"^(dim|axis|dims|axes)\d?$")
_LAST_AXIS = -1
_TRUTH_ANNOTATIONS = ("bool", "<class 'bool'>", "Optional[bool]", "bool | None")
_WHOLE_ANNOTATIONS = ("int", "<class 'int'>")
# How many bits an element has.
_BITS = re.compile(r"bits?$|bit_?width")
_A_BYTE = 8
# A scale of 1/sqrt(64), the head size of `SIZES`.
_FLOATS = {"eps": 1e-5, "epsilon": 1e-5, "scale": 0.125, "temperature": 1.0}
# Portions of what there is; more than all of it is refused, and all of it leaves nothing.
_PORTIONS = re.compile(r"dropout|drop_?(rate|prob|path)")
_PORTION = 0.1
# What a number that has a default may be besides: neither nothing nor one.
_OTHER_FRACTION = 0.5
# Where packed sequences begin, as parts of the whole: odd places, so that none fills its chunks.
_CUTS = (0.2, 0.6)
SEQUENCES = len(_CUTS) + 1
_MIDDLING = 64
_OTHER_EXTENTS = (8, 160)
# `list[torch.Tensor]` and the like, and how many are in one.
_SEVERAL = re.compile(r"(?i)\b(list|sequence|iterable|collection)\[[\w.]*Tensor")
_TENSORS = 2
# `tuple[int, int]` and the like.
_PLAIN_SEVERAL = re.compile(
    r"(?:typing\.|Optional\[|typing\.Optional\[)*(?i:(tuple|list|sequence))\["
    r"((?:int|float|bool|str|\.\.\.|, )+)\]"
)
_SHAPES = re.compile(r"(^|_)shape$")
# The widths of several parts of a model: they rise up to its own.
_WIDTHS = re.compile(r"(^|_)(dims|widths|sizes|channels)$")
# A class may ask for objects of others.
_DEEPEST = 4
# Of what it makes of one object.
_MOST_REFUSALS = 8
_ORDERS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
# Of the values that one parameter may have: each costs a call.
_MOST_CHOICES = 4


class Arguments:
    """Builds what a plan asks for, in one dtype."""

    def __init__(self, shapes: Shapes, recipe: Recipe, dtype: str) -> None:
        self._shapes, self._common, self.dtype = shapes, recipe.common, DTYPES[dtype]
        # Whether something was made up that neither a recipe nor the package's own words tell.
        self.guessed = False
        # Objects in objects, at the moment.
        self._deep = 0
        # Whether tensors are part of a graph: what is only for inference asks them.
        self._training = True

    def build(
        self, operator: Operator, plan: CallPlan, parameters: Iterable[inspect.Parameter]
    ) -> dict[str, Any]:
        """The arguments by name; what is optional and not given is left out."""
        sizes = {**SIZES, **self._common.sizes, **plan.sizes}
        made: dict[str, Any] = {}
        self._training = plan.training
        for parameter in parameters:
            name = parameter.name
            if name in plan.values:
                made[name] = self._valued(plan.values[name], made, plan.dtypes.get(name))
            elif parameter.default is NOTHING or name in plan.given:
                made[name] = self._made_up(operator, plan, parameter, sizes)
        return made

    def _valued(self, value: Any, made: Mapping[str, Any], dtype_said: str | None = None) -> Any:
        """A value of a recipe, or a tensor like one that the package passed: what was in the first
        dtype there is in the dtype of this call, unless the plan says another one."""
        if isinstance(value, list):
            return [self._valued(each, made, dtype_said) for each in value]
        if isinstance(value, objects.OptionTable):
            return dict(value)
        if isinstance(value, dict) and "object" in value:
            return self._object(value["object"], value.get("with"))
        if not isinstance(value, dict) or "of" not in value:
            return _value(value, made)
        dtype = _dtype(dtype_said or value["of"])
        if dtype == FIRST and not dtype_said:
            dtype = self.dtype
        return _laid_out(value, dtype, self._training)

    def _object(self, name: str, fields: Mapping[str, Any] | None = None) -> Any:
        """An object of the class `module:name`, as its constructor asks for it, with some of the
        constructor's arguments."""
        kind = objects.concrete(objects.find(name))
        if issubclass(kind, enum.Enum):
            return next(iter(kind))
        if kind is objects.MODEL:
            return self._model()
        constructor = objects.constructor(kind)
        self._deep += 1
        try:
            if self._deep > _DEEPEST:
                raise TypeError(f"{name} is made of itself")
            plan = CallPlan(values=dict(fields or {}))
            return self._constructed(constructor, plan)
        finally:
            self._deep -= 1

    def _constructed(self, constructor: Operator, plan: CallPlan) -> Any:
        """The object; what its constructor refuses of numbers it is given otherwise."""
        tried: set[str] = set()
        while True:
            given = self.build(constructor, plan, constructor.parameters)
            known = {p.name: given.get(p.name, p.default) for p in constructor.parameters}
            try:
                return constructor.call(**given)
            except Exception as error:
                wanted = [
                    each
                    for each in demands(error, known)
                    if each.kind in (VALUE, BUILD)
                    and each.name in known
                    and each.identity not in tried
                ]
                if not wanted or len(tried) >= _MOST_REFUSALS:
                    raise
                tried.add(wanted[0].identity)
                plan = plan.but(values={wanted[0].name: wanted[0].value})

    def _model(self) -> torch.nn.Module:
        """The smallest model: it takes what layers take."""
        width = SIZES["D"]
        return objects.MODEL(width, width, bias=False).to(device="cuda", dtype=self.dtype)

    def _made_up(
        self, operator: Operator, plan: CallPlan, parameter: inspect.Parameter, sizes: Sizes
    ) -> Any:
        name = parameter.name
        if optimizers.takes_weights(operator, parameter):
            return optimizers.weights(self.dtype)
        wanted = objects.annotated(operator, parameter)
        if wanted is not None and name not in plan.shapes:
            return self._object(wanted)
        if name not in plan.shapes and objects.is_model(operator, parameter):
            self.guessed = True
            return self._model()
        if is_length(parameter):
            return _sequences(sizes, parameter)
        if name not in plan.shapes and not is_tensor(parameter, self._shapes.known(operator, name)):
            self.guessed = self.guessed or not _is_usual(parameter)
            return _plain(operator, parameter, sizes)
        if name not in plan.shapes and not self._is_told(operator, plan, parameter):
            self.guessed = True
        candidates = self._shapes.candidates(operator, plan, name)
        extents = (shape(dimensions, sizes) for dimensions in candidates)
        likeliest = next((each for each in extents if each is not None), ())
        dtype = self._dtype_of(operator, plan, parameter)
        several = _SEVERAL.search(str(parameter.annotation))
        if several:
            return [_tensor(likeliest, dtype, self._training) for _ in range(_TENSORS)]
        return _tensor(likeliest, dtype, self._training)

    def _is_told(self, operator: Operator, plan: CallPlan, parameter: inspect.Parameter) -> bool:
        """Whether neither shape nor dtype is a guess: a layer's tensors are called what all layers
        call them, and what the field has a name for it has in the dtype of the call."""
        name, annotation = parameter.name, str(parameter.annotation)
        said = name in plan.dtypes or name in self._common.dtypes
        texts = (name, annotation)
        known = any(kind.search(text) for kind in (_INTEGERS, _TRUTHS) for text in texts)
        if not (said or known or is_named(name)):
            return False
        by_name = operator.kind == LAYER and is_named(name)
        return by_name or self._shapes.told(operator, name)

    def _dtype_of(
        self, operator: Operator, plan: CallPlan, parameter: inspect.Parameter
    ) -> torch.dtype:
        name, annotation = parameter.name, str(parameter.annotation)
        said = plan.dtypes.get(name) or self._common.dtypes.get(name)
        if said:
            return _dtype(said)
        if _TRUTHS.search(name) or _TRUTHS.search(annotation):
            return torch.bool
        if _INTEGERS.search(name) or _INTEGERS.search(annotation):
            return torch.int64
        if operator.kind == FUNCTION and usage.kinds(operator.source).get(name) == usage.INDICES:
            return torch.int64
        return self.dtype


def is_length(parameter: inspect.Parameter) -> bool:
    """Whether a parameter says where packed sequences begin and end."""
    return bool(LENGTHS.search(parameter.name))


def is_tensor(parameter: inspect.Parameter, known: bool) -> bool:
    """By annotation; without one by documentation, and by what its name does not say."""
    if parameter.annotation is not NOTHING:
        return "Tensor" in str(parameter.annotation)
    if parameter.default is not NOTHING and parameter.default is not None:
        return False
    return known or not _PLAIN.match(parameter.name)


def as_number(operator: Operator, parameter: inspect.Parameter, known: bool) -> inspect.Parameter:
    """A constructor's parameter; what a layer's says nothing of is a number: layers make their
    tensors themselves."""
    untold = parameter.annotation is NOTHING and parameter.default is NOTHING
    if operator.kind != LAYER or not untold or known or _PLAIN.match(parameter.name):
        return parameter
    return parameter.replace(annotation=_WHOLE_ANNOTATIONS[0])


def _value(value: Any, made: Mapping[str, Any]) -> Any:
    """A recipe's value: itself, `{call: module:name, with: {…}}`, `{dtype: fp32}` or `{like:
    argument}`; `$name` among a call's arguments is an argument made before."""
    if not isinstance(value, dict):
        return value
    if "dtype" in value:
        return _dtype(value["dtype"])
    if "device" in value:
        return torch.device("cuda")
    if "like" in value:
        return torch.randn_like(made[value["like"]])
    module, _, name = value["call"].partition(":")
    arguments = {}
    for key, item in (value.get("with") or {}).items():
        if isinstance(item, str) and item.startswith("$"):
            arguments[key] = made.get(item[1:])
        else:
            arguments[key] = _value(item, made)
    return getattr(importlib.import_module(module), name)(**arguments)


def _tensor(extents: tuple[int, ...], dtype: torch.dtype, training: bool) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.ones(extents, dtype=dtype, device="cuda")
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.zeros(extents, dtype=dtype, device="cuda")
    return torch.randn(extents, dtype=dtype, device="cuda", requires_grad=training)


def _dtype(name: str) -> torch.dtype:
    """By Triton's name; torch has some that Triton has not."""
    dtype: torch.dtype = DTYPES.get(name) or getattr(torch, name)
    return dtype


def _laid_out(told: Mapping[str, Any], dtype: torch.dtype, training: bool) -> torch.Tensor:
    """A tensor as it was told: `shape`, perhaps `stride`, and whether it is the view `conj`."""
    extents = tuple(told["shape"])
    tensor = _tensor(extents, dtype, training)
    if "stride" in told:
        reach = sum((n - 1) * step for n, step in zip(extents, told["stride"])) + 1
        whole = _tensor((max(reach, 1),), dtype, training)
        # No part of a graph: an operator may write into it.
        tensor = whole.detach().as_strided(extents, tuple(told["stride"]))
        tensor.requires_grad_(whole.requires_grad)
    if told.get("conj"):
        tensor = tensor.detach().conj()
    return tensor


def _sequences(sizes: Sizes, parameter: inspect.Parameter) -> torch.Tensor:
    """Where the packed sequences begin, and where the last one ends."""
    total = sizes["T"]
    cuts = [0, *(int(total * cut) for cut in _CUTS), total]
    dtype, device = torch.int32, "cuda"
    if "LongTensor" in str(parameter.annotation):
        dtype = torch.int64
    if parameter.name.endswith("cpu"):
        device = "cpu"
    return torch.tensor(cuts, dtype=dtype, device=device)


def _is_usual(parameter: inspect.Parameter) -> bool:
    """Whether the value of a parameter that is no tensor follows from what it is: a size, a flag, a
    small number by its name, a dtype or a device."""
    name, annotation = parameter.name, str(parameter.annotation)
    if "dtype" in name or "device" in name or name in _FLOATS:
        return True
    if isinstance(parameter.default, bool) or annotation in _TRUTH_ANNOTATIONS:
        return True
    is_number = parameter.annotation is NOTHING or "int" in annotation
    is_dimension = name in SIZES or (_SIZED.search(name) and _DIMENSION.fullmatch(name))
    return is_number and bool(is_dimension)


def _plain(operator: Operator, parameter: inspect.Parameter, sizes: Sizes) -> Any:
    name, annotation, default = parameter.name, str(parameter.annotation), parameter.default
    if "dtype" in name and annotation in _WHOLE_ANNOTATIONS:
        # The number of a dtype in a table of the package's own.
        return 0
    if "dtype" in name:
        return torch.float32
    if "device" in name:
        return torch.device("cuda")
    if isinstance(default, bool) or annotation in _TRUTH_ANNOTATIONS:
        # A flag that is off is turned on, one without a default stays off.
        return default is not NOTHING and (default is False or bool(default))
    several = _PLAIN_SEVERAL.match(annotation)
    if _SHAPES.search(name):
        # One number is one dimension: `int | Sequence[int]`.
        several = _PLAIN_SEVERAL.search(annotation)
    if several and operator.kind != FUNCTION and _WIDTHS.search(name) and several[2] == "int":
        return [_MIDDLING, sizes["D"]]
    if several:
        return _several(several[1], several[2], name)
    if _PORTIONS.search(name):
        return _PORTION
    if name in _FLOATS or "float" in annotation:
        return _fraction(name)
    if is_axis(operator, parameter):
        return _LAST_AXIS
    offered = choices(operator, parameter)
    if default is NOTHING:
        # What is asked for and is 0 mostly ends a function at once.
        offered = [value for value in offered if type(value) is not int or value != 0]
    if offered:
        return offered[0]
    if "str" in annotation:
        return "none"
    if isinstance(default, (int, float)):
        return default
    if _BITS.search(name):
        return _A_BYTE
    if _SIZED.search(name):
        return size(name, sizes)
    return _MIDDLING


def other_numbers(parameter: inspect.Parameter) -> list[Any]:
    """What a number may be that is off, or changes nothing, unless it is given."""
    annotation, default = str(parameter.annotation), parameter.default
    is_fraction = isinstance(default, float) or (default is None and "float" in annotation)
    if is_fraction and default != _OTHER_FRACTION:
        return [_OTHER_FRACTION]
    if "Tensor" in annotation and "float" in annotation:
        return [_OTHER_FRACTION]
    if "Tensor" in annotation and re.search(r"\bint\b", annotation):
        return [_MIDDLING]
    return []


def is_axis(operator: Operator, parameter: inspect.Parameter) -> bool:
    """Whether a parameter says along which dimension a function works."""
    return operator.kind == FUNCTION and bool(_AXES.match(parameter.name))


def _several(kind: str, inside: str, name: str) -> Any:
    """A tuple or list of plain values, as its annotation says: `tuple[int, int]`, `List[float]`."""
    elements = [element.strip() for element in inside.split(",")]
    if kind.lower() != "tuple" or elements[-1] == "...":
        elements = elements[:1] * _TENSORS
    likely = {"int": _MIDDLING, "float": _fraction(name), "bool": False, "str": "none"}
    values = [likely.get(element) for element in elements]
    if kind.lower() == "tuple":
        return tuple(values)
    return values


def _fraction(name: str) -> float:
    """A number that is no count, by its name: what lies between two bounds is more than nothing."""
    if name.startswith("max"):
        return float(_MIDDLING)
    if name.startswith("min"):
        return 0.0
    return _FLOATS.get(name, 1.0)


@functools.cache
def _compared(module: str) -> dict[str, list[tuple[str | int | float, bool]]]:
    """Name → the constants that a variable or attribute of that name is compared with, and whether
    by order (`size > 0`)."""
    constants: dict[str, list[tuple[str | int | float, bool]]] = collections.defaultdict(list)
    try:
        nodes = ast.walk(ast.parse(inspect.getsource(sys.modules[module])))
    except (OSError, TypeError, SyntaxError, KeyError):
        return constants
    for node in nodes:
        if isinstance(node, ast.Compare) and len(node.comparators) == 1:
            # A variable has an id, an attribute an attr.
            name = getattr(node.left, "id", None) or getattr(node.left, "attr", None)
            parts = getattr(node.comparators[0], "elts", node.comparators)
            values = [_constant(part) for part in parts]
            by_order = isinstance(node.ops[0], _ORDERS)
            if name:
                kept = [value for value in values if type(value) in (str, int, float)]
                constants[name] += [(value, by_order) for value in kept]
    return constants


def _constant(node: ast.expr) -> Any:
    """Also of `-1`, `float("inf")` and `-float("inf")`; None for what is no constant."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _constant(node.operand)
        if isinstance(value, (int, float)):
            return -value
        return None
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "float" and node.args:
        said = getattr(node.args[0], "value", None)
        if said == "inf":
            return math.inf
        return None
    return getattr(node, "value", None)


def choices(operator: Operator, parameter: inspect.Parameter) -> list[Any]:
    """The values worth trying: of `Literal[…]`, of comparisons, and the other truth of a flag."""
    default = parameter.default
    if isinstance(default, bool):
        return [not default]
    if isinstance(default, enum.Enum):
        return [each for each in type(default) if each is not default][:_MOST_CHOICES]
    if is_axis(operator, parameter):
        return [axis for axis in (_LAST_AXIS, 0) if axis != default]
    several = _PLAIN_SEVERAL.match(str(parameter.annotation))
    if several and _WIDTHS.search(parameter.name) and operator.kind != FUNCTION:
        return []
    if several and set(re.findall(r"\w+", several[2])) == {"int"}:
        # What a size is made of may be less than before, or more.
        made = _several(several[1], several[2], parameter.name)
        return [type(made)(number for _ in made) for number in _OTHER_EXTENTS]
    kinds: tuple[type, ...] = (str, int)
    if isinstance(default, str):
        kinds = (str,)
    elif isinstance(default, (int, float)):
        kinds = (int, float)
    listed = re.search(r"Literal\[(.*?)\]", str(parameter.annotation))
    values: list[str | int | float] = []
    if listed:
        values += re.findall(r"['\"](\w+)['\"]", listed[1])
    for value, by_order in _compared(operator.module).get(parameter.name, []):
        # What is asked for and must be more than 0 is not 0.
        if not (by_order and value == 0 and default is NOTHING):
            values.append(value)
    telling = [v for v in values if isinstance(v, kinds) and v != default and v != ""]
    offered = list(dict.fromkeys(telling))[:_MOST_CHOICES]
    whole = [v for v in (*values, default) if type(v) is int]
    if len(whole) > 1 and int in kinds and str not in kinds:
        # What is none of those that the code asks for goes another way, too.
        offered.append(max(whole) + 1)
    return offered
