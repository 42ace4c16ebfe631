"""Arguments of a call: tensors of likely shapes and dtypes, objects, and plain values.

Plain values follow from names, annotations and the constants that a module compares them with.
"""

import ast
import collections
import enum
import functools
import importlib
import inspect
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ..pysource.functions import module_tree, walk
from ..workers.values import TORCH_NAMES
from . import objects, optimizers, signatures, usage
from .operators import FUNCTION, LAYER, Operator
from .plans import CallPlan, Recipe
from .shapes import SIZES, Shapes, Sizes, extents_of, has_usual_name, size_of

DTYPES = {name: getattr(torch, torch_name) for name, torch_name in TORCH_NAMES.items()}
# The dtype in which every operator is called first.
FIRST_DTYPE = torch.bfloat16
NOTHING = inspect.Parameter.empty
# Offsets of packed sequences.
LENGTHS = re.compile(r"cu_?seq|seq_?offsets|cu_?len")
_INTEGER_TENSOR = re.compile(
    r"(^|_)(ids?|idx|index|indices|labels?|targets?|lens|lengths|positions?|offsets|counts?|indptr)(_|$)"
    r"|(block|page)_?tables?|slot_mapping|seq_?used|LongTensor|IntTensor|IndexTensor"
    r"|\b(?:U?Int\d*|Integer)\["
)
# Annotations that name the width of integers: `torch.IntTensor`, `UInt8[Tensor, "b n"]`.
_TENSOR_OF_WIDTH = re.compile(r"\b(Int|Short|Char|Byte)Tensor\b|\b(U?Int(?:8|16|32))\[")
_WIDTHS = {
    "Int": torch.int32,
    "Short": torch.int16,
    "Char": torch.int8,
    "Byte": torch.uint8,
    "UInt8": torch.uint8,
    "Int8": torch.int8,
    "Int16": torch.int16,
    "Int32": torch.int32,
}
# Several small integers in one: the names of quantized weights since GPTQ.
_PACKED_TENSOR = re.compile(r"^q_?(weights?|zeros)$|(^|_)packed(_|$)")
_BOOLEAN_TENSOR = re.compile(r"mask|BoolTensor|\bBool\[")
# Names of parameters without an annotation that are not tensors.
_PLAIN_NAME = re.compile(
    r"^(eps|epsilon|scale|\w*_scale|dtype|\w*_dtype|device|reduction|activation|\w*_mode|mode|dim"
    r"|axis|\w*size|num_\w+|n_\w+|\w*alpha|\w*_?coef\w*|lr|p|inplace|in_place|offset|temperature"
    r"|softcap\w*|ignore_index|is_causal|causal|B[A-Z]|T|layout|training)$"
    r"|^(is_|use_|return_|output_)"
)
_SIZE_NAME = re.compile(r"head|dim|hidden|seq|len|tokens$|vocab|batch|^d_model$|^[A-Z]+$")
# A name that consists of such words is that of a dimension which all tensors of a call share.
# Another word makes it the size of something else (`state_len`, `rotary_dim`), or not a size
# (`head_stride`).
_DIMENSION_NAME = re.compile(
    r"(?!ndim$)(?:(?:max|num|n|d|q|k|v|qk|kv|hv|query|key|value|attention|in|out|input|output|embed|emb"
    r"|embedding|features?|model|batch|size|heads?|dim|hidden|seqs?|seqlens?|sequences?|len|length"
    r"|vocab)(?:_|$|(?=head|dim|size|len)))+",
    re.IGNORECASE,
)
# Functions' names for the dimension that they work along. A layer's `dim` is its width instead.
_AXIS_NAME = re.compile(r"^(dim|axis|dims|axes)\d?$")
_LAST_AXIS = -1
# Parameters of a launch: powers of two, which every GPU and Triton's assertions accept.
_LAUNCH_NUMBERS = (
    (re.compile(r"(^|_)(num_?|n_?)?warps$", re.IGNORECASE), (4, 8, 2)),
    (re.compile(r"(^|_)(num_?|n_?)?stages$", re.IGNORECASE), (2, 1, 4)),
)
_FLAG_ANNOTATIONS = ("bool", "<class 'bool'>", "Optional[bool]", "bool | None")
_INTEGER_ANNOTATIONS = ("int", "<class 'int'>")
_DTYPE_ANNOTATIONS = (usage.DTYPE, "Optional[torch.dtype]", "torch.dtype | None")
# The number of bits of an element.
_BITS_NAME = re.compile(r"bits?$|bit_?width")
_BITS = 8
# The scale is 1/sqrt(64), for a usual head size.
_USUAL_FLOATS = {"eps": 1e-5, "epsilon": 1e-5, "scale": 0.125, "temperature": 1.0}
# Fractions of a whole: packages refuse more than 1, and 1 itself leaves nothing.
_PORTION_NAME = re.compile(r"dropout|drop_?(rate|prob|path)")
_PORTION = 0.1
# Another value of a float that has a default: neither 0 nor 1.
_OTHER_FLOAT = 0.5
# Offsets of packed sequences as fractions of the time. They are not multiples of chunk sizes.
_SEQUENCE_STARTS = (0.2, 0.6)
SEQUENCES = len(_SEQUENCE_STARTS) + 1
_MIDDLE_SIZE = 64
_OTHER_EXTENTS = (8, 160)
# Annotations such as `list[torch.Tensor]`, and the length of such a list.
_TENSOR_LIST = re.compile(r"(?i)\b(list|sequence|iterable|collection)\[[\w.]*Tensor")
_LIST_LENGTH = 2
# Annotations such as `tuple[int, int]`.
_PLAIN_SEQUENCE = re.compile(
    r"(?:typing\.|Optional\[|typing\.Optional\[)*(?i:(tuple|list|sequence))\["
    r"((?:int|float|bool|str|\.\.\.|, )+)\]"
)
_SHAPE_NAME = re.compile(r"(^|_)shape$")
# The widths of several parts of a model, which increase up to the model's own.
_WIDTHS_NAME = re.compile(r"(^|_)(dims|widths|sizes|channels)$")
# Levels of objects that are arguments of other objects' constructors.
_MAX_OBJECT_DEPTH = 4
_ORDER_OPERATORS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
# Values of one parameter: each costs a call.
_MAX_CHOICES = 4


class Arguments:
    """Builds the arguments of plans in one dtype.

    Attributes:
        has_guesses: True if neither a recipe nor the package's code implies some argument.
        has_guessed_constants: True if such an argument is not a tensor.
    """

    def __init__(self, shapes: Shapes, recipe: Recipe, dtype: str) -> None:
        self._shapes = shapes
        self._common = recipe.common
        self.dtype = DTYPES[dtype]
        self.has_guesses = False
        self.has_guessed_constants = False
        self._object_depth = 0
        # True if tensors require gradients: operators for inference only check them.
        self._training = True

    def build(
        self, operator: Operator, plan: CallPlan, parameters: Iterable[inspect.Parameter]
    ) -> dict[str, Any]:
        """Return the arguments by name, without optional ones that the plan does not include."""
        sizes = {**SIZES, **self._common.sizes, **plan.sizes}
        arguments: dict[str, Any] = {}
        self._training = plan.training
        for parameter in parameters:
            name = parameter.name
            if name in plan.values:
                dtype = plan.dtypes.get(name)
                arguments[name] = self.from_value(plan.values[name], arguments, dtype)
            elif parameter.default is NOTHING or name in plan.include:
                arguments[name] = self._infer(operator, plan, parameter, sizes)
        return arguments

    def from_value(
        self, value: Any, arguments: Mapping[str, Any], dtype_name: str | None = None
    ) -> Any:
        """Return a plan's value as an argument.

        A tensor that was described in the first dtype is built in the dtype of this call.
        """
        if isinstance(value, list):
            return [self.from_value(element, arguments, dtype_name) for element in value]
        if isinstance(value, dict) and "object" in value:
            return self.build_object(value["object"], value.get("with"))
        if not isinstance(value, dict) or "of" not in value:
            return _from_recipe(value, arguments)
        dtype = self._dtype_of_call(dtype_name or value["of"])
        return _described_tensor(value, dtype, self._training)

    def build_object(self, name: str, fields: Mapping[str, Any] | None = None) -> Any:
        """Build an object of the class `module:name`.

        `fields` are values of some of the constructor's arguments.
        """
        object_class = objects.concrete_class(objects.find_class(name))
        if issubclass(object_class, enum.Enum):
            return next(iter(object_class))
        if object_class is objects.MODEL:
            return self._build_model()
        constructor = objects.constructor(object_class)
        self._object_depth += 1
        try:
            if self._object_depth > _MAX_OBJECT_DEPTH:
                raise TypeError(f"{name} is made of itself")
            plan = CallPlan(values=dict(fields or {}))
            return constructor.call(**self.build(constructor, plan, constructor.parameters))
        finally:
            self._object_depth -= 1

    def _build_model(self) -> torch.nn.Module:
        """Build the smallest model, with the input of other layers."""
        width = SIZES["D"]
        return objects.MODEL(width, width, bias=False).to(device="cuda", dtype=self.dtype)

    def _infer(
        self, operator: Operator, plan: CallPlan, parameter: inspect.Parameter, sizes: Sizes
    ) -> Any:
        """Infer an argument that the plan does not contain."""
        name = parameter.name
        if optimizers.takes_weights(operator, parameter):
            return optimizers.weights(self.dtype)
        object_class = objects.annotated_class(operator, parameter)
        has_shape = name in plan.shapes
        if object_class is not None and not has_shape:
            return self.build_object(object_class)
        if not has_shape and objects.is_model(operator, parameter):
            self.has_guesses = self.has_guessed_constants = True
            return self._build_model()
        if is_length(parameter):
            return _sequence_offsets(sizes, parameter)
        is_documented = self._shapes.is_documented(operator, name)
        if not has_shape and not is_tensor(parameter, is_documented):
            if not _is_implied(parameter):
                self.has_guesses = self.has_guessed_constants = True
            return plain_value(operator, parameter, sizes)
        if not has_shape and not self._has_evidence(operator, plan, parameter):
            self.has_guesses = True
        return self._infer_tensor(operator, plan, parameter, sizes)

    def _infer_tensor(
        self, operator: Operator, plan: CallPlan, parameter: inspect.Parameter, sizes: Sizes
    ) -> torch.Tensor | list[torch.Tensor]:
        """Return a tensor, or a list of tensors, of the likeliest shape and dtype."""
        likeliest: tuple[int, ...] = ()
        for dimensions in self._shapes.candidates(operator, plan, parameter.name):
            extents = extents_of(dimensions, sizes)
            if extents is not None:
                likeliest = extents
                break
        dtype = self.infer_dtype(operator, plan, parameter)
        if _TENSOR_LIST.search(str(parameter.annotation)):
            return [make_tensor(likeliest, dtype, self._training) for _ in range(_LIST_LENGTH)]
        return make_tensor(likeliest, dtype, self._training)

    def _has_evidence(
        self, operator: Operator, plan: CallPlan, parameter: inspect.Parameter
    ) -> bool:
        """Return True if neither shape nor dtype of a tensor is a guess.

        A layer's tensors have the usual names. A tensor with a usual name has the call's dtype.
        """
        name = parameter.name
        has_dtype = name in plan.dtypes or name in self._common.dtypes
        for text in (name, str(parameter.annotation)):
            if _INTEGER_TENSOR.search(text) or _BOOLEAN_TENSOR.search(text):
                has_dtype = True
        if not has_dtype and not has_usual_name(name):
            return False
        if operator.kind == LAYER and has_usual_name(name):
            return True
        return self._shapes.has_evidence(operator, name)

    def _dtype_of_call(self, name: str) -> torch.dtype:
        """Return a plan's dtype; the first dtype, in which plans are made, is that of the call."""
        dtype = _dtype_named(name)
        if dtype == FIRST_DTYPE:
            return self.dtype
        return dtype

    def infer_dtype(
        self, operator: Operator, plan: CallPlan, parameter: inspect.Parameter
    ) -> torch.dtype:
        """Return the likeliest dtype of a tensor."""
        name = parameter.name
        annotation = str(parameter.annotation)
        if name in plan.dtypes:
            return self._dtype_of_call(plan.dtypes[name])
        if self._common.dtypes.get(name):
            return _dtype_named(self._common.dtypes[name])
        if _BOOLEAN_TENSOR.search(name) or _BOOLEAN_TENSOR.search(annotation):
            return torch.bool
        width = _TENSOR_OF_WIDTH.search(annotation)
        if width is not None:
            return _WIDTHS.get(width[1] or width[2], torch.int64)
        if _INTEGER_TENSOR.search(name) or _INTEGER_TENSOR.search(annotation):
            return torch.int64
        if _PACKED_TENSOR.search(name):
            return torch.int32
        if operator.kind == FUNCTION:
            kind = usage.parameter_kinds(operator.source).get(name)
            if kind == usage.INDICES:
                return torch.int64
        return self.dtype


def is_length(parameter: inspect.Parameter) -> bool:
    """Return True for the offsets of packed sequences."""
    return bool(LENGTHS.search(parameter.name))


def is_tensor(parameter: inspect.Parameter, is_documented: bool) -> bool:
    """Return True for a tensor, by annotation, else by documentation and name.

    `is_documented` is True if the documentation contains the argument's shape.
    """
    if parameter.annotation is not NOTHING:
        annotation = str(parameter.annotation)
        return "Tensor" in annotation or bool(signatures.array_dimensions(annotation))
    if parameter.default is not NOTHING and parameter.default is not None:
        return False
    return is_documented or not _PLAIN_NAME.match(parameter.name)


def as_number(
    operator: Operator, parameter: inspect.Parameter, is_documented: bool
) -> inspect.Parameter:
    """Annotate a layer constructor's unknown parameter as a number.

    Layers build their tensors themselves.
    """
    has_hint = parameter.annotation is not NOTHING or parameter.default is not NOTHING
    if operator.kind != LAYER or has_hint or is_documented:
        return parameter
    if _PLAIN_NAME.match(parameter.name):
        return parameter
    return parameter.replace(annotation=_INTEGER_ANNOTATIONS[0])


def _from_recipe(value: Any, arguments: Mapping[str, Any]) -> Any:
    """Return the argument that a recipe's value describes.

    `{call: module:name, with: {…}}`, `{dtype: fp32}`, `{device: …}` and `{like: argument}` are
    evaluated; `$name` among a call's arguments is an argument that was built before.
    """
    if not isinstance(value, dict):
        return value
    if "dtype" in value:
        return _dtype_named(value["dtype"])
    if "device" in value:
        return torch.device("cuda")
    if "like" in value:
        return torch.randn_like(arguments[value["like"]])
    module, _, name = value["call"].partition(":")
    call_arguments = {}
    for key, item in (value.get("with") or {}).items():
        if isinstance(item, str) and item.startswith("$"):
            call_arguments[key] = arguments.get(item[1:])
        else:
            call_arguments[key] = _from_recipe(item, arguments)
    function = getattr(importlib.import_module(module), name)
    return function(**call_arguments)


def make_tensor(extents: tuple[int, ...], dtype: torch.dtype, training: bool) -> torch.Tensor:
    """Build a tensor of ones, zeros or random numbers, depending on its dtype."""
    if dtype == torch.bool:
        return torch.ones(extents, dtype=dtype, device="cuda")
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.zeros(extents, dtype=dtype, device="cuda")
    return torch.randn(extents, dtype=dtype, device="cuda", requires_grad=training)


def _dtype_named(name: str) -> torch.dtype:
    """Return a dtype by Triton's name, or by torch's for dtypes that Triton lacks."""
    dtype: torch.dtype = DTYPES.get(name) or getattr(torch, name)
    return dtype


def _described_tensor(
    description: Mapping[str, Any], dtype: torch.dtype, training: bool
) -> torch.Tensor:
    """Build a tensor of a `shape`, perhaps with a `stride`, perhaps as a conjugate view.

    All its elements may be one number (`fill`).
    """
    extents = tuple(description["shape"])
    if "fill" in description:
        return torch.full(extents, description["fill"], dtype=dtype, device="cuda")
    tensor = make_tensor(extents, dtype, training)
    if "stride" in description:
        strides = tuple(description["stride"])
        last_offset = sum((n - 1) * stride for n, stride in zip(extents, strides))
        storage = make_tensor((max(last_offset + 1, 1),), dtype, training)
        # The view is a leaf of the graph, because an operator may write to it.
        tensor = storage.detach().as_strided(extents, strides)
        tensor.requires_grad_(storage.requires_grad)
    if description.get("conj"):
        tensor = tensor.detach().conj()
    return tensor


def _sequence_offsets(sizes: Sizes, parameter: inspect.Parameter) -> torch.Tensor:
    """Return the offsets of packed sequences, with the end of the last one."""
    total = sizes["T"]
    starts = [int(total * fraction) for fraction in _SEQUENCE_STARTS]
    dtype = torch.int32
    if "LongTensor" in str(parameter.annotation):
        dtype = torch.int64
    device = "cuda"
    if parameter.name.endswith("cpu"):
        device = "cpu"
    return torch.tensor([0, *starts, total], dtype=dtype, device=device)


def _is_implied(parameter: inspect.Parameter) -> bool:
    """Return True if a plain value follows from the parameter's name or type.

    This is so for a size, a flag, some small numbers, a dtype and a device.
    """
    name = parameter.name
    annotation = str(parameter.annotation)
    if "dtype" in name or annotation in _DTYPE_ANNOTATIONS:
        return True
    if "device" in name or name in _USUAL_FLOATS:
        return True
    if isinstance(parameter.default, bool) or annotation in _FLAG_ANNOTATIONS:
        return True
    if parameter.annotation is not NOTHING and "int" not in annotation:
        return False
    if name in SIZES:
        return True
    return bool(_SIZE_NAME.search(name) and _DIMENSION_NAME.fullmatch(name))


def plain_value(operator: Operator, parameter: inspect.Parameter, sizes: Sizes) -> Any:
    """Return the likeliest value of an argument that is neither a tensor nor an object."""
    name = parameter.name
    annotation = str(parameter.annotation)
    default = parameter.default
    if objects.is_library_object(operator, parameter):
        # Such as a group of processes: a single one has none.
        return None
    if "dtype" in name and annotation in _INTEGER_ANNOTATIONS:
        # The index of a dtype in a table of the package.
        return 0
    if "dtype" in name or annotation in _DTYPE_ANNOTATIONS:
        return torch.float32
    if "device" in name:
        return torch.device("cuda")
    if isinstance(default, bool) or annotation in _FLAG_ANNOTATIONS:
        # A flag with a default is turned on, a flag without one stays off.
        return default is not NOTHING and (default is False or bool(default))
    sequence = _PLAIN_SEQUENCE.match(annotation)
    if _SHAPE_NAME.search(name):
        # For `int | Sequence[int]` a number would be a shape of one dimension.
        sequence = _PLAIN_SEQUENCE.search(annotation)
    if sequence:
        is_widths = operator.kind != FUNCTION and _WIDTHS_NAME.search(name)
        if is_widths and sequence[2] == "int":
            return [_MIDDLE_SIZE, sizes["D"]]
        return _plain_sequence(sequence[1], sequence[2], name)
    launch_numbers = _launch_numbers(name)
    if launch_numbers:
        return launch_numbers[0]
    if _PORTION_NAME.search(name):
        return _PORTION
    if name in _USUAL_FLOATS or "float" in annotation:
        value = _float_value(name)
        if value == 0 and _must_be_positive(operator, name):
            return _OTHER_FLOAT
        return value
    if is_axis(operator, parameter):
        return _LAST_AXIS
    for value in choices(operator, parameter):
        # A function often returns at once for a required number that is 0.
        if default is not NOTHING or type(value) is not int or value != 0:
            return value
    return _value_by_name(parameter, sizes)


def _launch_numbers(name: str) -> tuple[int, ...]:
    """Return the likeliest numbers of warps or stages; none for other names."""
    for pattern, numbers in _LAUNCH_NUMBERS:
        if pattern.search(name):
            return numbers
    return ()


def _must_be_positive(operator: Operator, name: str) -> bool:
    """Return True if the operator's module compares a parameter with 0 by order."""
    return (0, True) in _compared_constants(operator.module).get(name, [])


def _value_by_name(parameter: inspect.Parameter, sizes: Sizes) -> Any:
    """Return the value of an argument without other evidence than its name."""
    if "str" in str(parameter.annotation):
        return "none"
    if isinstance(parameter.default, (int, float)):
        return parameter.default
    if _BITS_NAME.search(parameter.name):
        return _BITS
    if _SIZE_NAME.search(parameter.name):
        return size_of(parameter.name, sizes)
    return _MIDDLE_SIZE


def other_numbers(parameter: inspect.Parameter) -> list[Any]:
    """Return values for a number whose default turns it off, or for a tensor or number."""
    annotation = str(parameter.annotation)
    default = parameter.default
    is_float = isinstance(default, float) or (default is None and "float" in annotation)
    if is_float and default != _OTHER_FLOAT:
        return [_OTHER_FLOAT]
    if "Tensor" in annotation and "float" in annotation:
        return [_OTHER_FLOAT]
    if "Tensor" in annotation and re.search(r"\bint\b", annotation):
        return [_MIDDLE_SIZE]
    return []


def is_axis(operator: Operator, parameter: inspect.Parameter) -> bool:
    """Return True for the dimension that a function works along."""
    return operator.kind == FUNCTION and bool(_AXIS_NAME.match(parameter.name))


def _plain_sequence(kind: str, element_types: str, name: str) -> Any:
    """Return a tuple or list of plain values for `tuple[int, int]` or `List[float]`."""
    types = [element_type.strip() for element_type in element_types.split(",")]
    is_tuple = kind.lower() == "tuple"
    if not is_tuple or types[-1] == "...":
        types = types[:1] * _LIST_LENGTH
    values_by_type = {
        "int": _MIDDLE_SIZE,
        "float": _float_value(name),
        "bool": False,
        "str": "none",
    }
    values = [values_by_type.get(element_type) for element_type in types]
    if is_tuple:
        return tuple(values)
    return values


def _float_value(name: str) -> float:
    """Return the value of a float by its name; a range between bounds is not empty."""
    if name.startswith("max"):
        return float(_MIDDLE_SIZE)
    if name.startswith("min"):
        return 0.0
    return _USUAL_FLOATS.get(name, 1.0)


@functools.cache
def _compared_constants(module: str) -> dict[str, list[tuple[str | int | float, bool]]]:
    """Return the constants that variables and attributes of a module are compared with, by name.

    Each constant comes with True if the comparison is by order (`size > 0`).
    """
    constants: dict[str, list[tuple[str | int | float, bool]]] = collections.defaultdict(list)
    tree = module_tree(module)
    if tree is None:
        return constants
    for node in walk(tree):
        if not isinstance(node, ast.Compare) or len(node.comparators) != 1:
            continue
        # A variable has an id, an attribute an attr.
        name = getattr(node.left, "id", None) or getattr(node.left, "attr", None)
        if not name:
            continue
        is_order = isinstance(node.ops[0], _ORDER_OPERATORS)
        for element in getattr(node.comparators[0], "elts", node.comparators):
            value = _constant(element)
            if type(value) in (str, int, float):
                constants[name].append((value, is_order))
    return constants


def _constant(node: ast.expr) -> Any:
    """Return a constant, also for `-1` and `-float("inf")`; None for other expressions."""
    match node:
        case ast.UnaryOp(op=ast.USub()):
            value = _constant(node.operand)
            if isinstance(value, (int, float)):
                return -value
            return None
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value="inf"), *_]):
            return math.inf
        case ast.Constant():
            return node.value
        case _:
            return None


def choices(operator: Operator, parameter: inspect.Parameter) -> list[Any]:
    """Return the values that are worth trying: of literals, comparisons, enums and flags."""
    default = parameter.default
    annotation = str(parameter.annotation)
    if isinstance(default, bool):
        return [not default]
    if isinstance(default, enum.Enum):
        members = [member for member in type(default) if member is not default]
        return members[:_MAX_CHOICES]
    launch_numbers = _launch_numbers(parameter.name)
    if launch_numbers:
        return [number for number in launch_numbers if number != default]
    if is_axis(operator, parameter):
        return [axis for axis in (_LAST_AXIS, 0) if axis != default]
    sequence = _PLAIN_SEQUENCE.match(annotation)
    if sequence:
        if _WIDTHS_NAME.search(parameter.name) and operator.kind != FUNCTION:
            return []
        if set(re.findall(r"\w+", sequence[2])) == {"int"}:
            # Smaller and larger extents.
            default_sequence = _plain_sequence(sequence[1], sequence[2], parameter.name)
            sequence_class = type(default_sequence)
            length = len(default_sequence)
            return [sequence_class((extent,) * length) for extent in _OTHER_EXTENTS]
    return _constant_choices(operator, parameter)


def _constant_choices(operator: Operator, parameter: inspect.Parameter) -> list[Any]:
    """Return the constants that a parameter is compared with, and another number."""
    default = parameter.default
    types: tuple[type, ...] = (str, int)
    if isinstance(default, str):
        types = (str,)
    elif isinstance(default, (int, float)):
        types = (int, float)
    values: list[str | int | float] = []
    literal = re.search(r"Literal\[(.*?)\]", str(parameter.annotation))
    if literal:
        values += re.findall(r"['\"](\w+)['\"]", literal[1])
    for value, is_order in _compared_constants(operator.module).get(parameter.name, []):
        # A required number that must be greater than 0 is not 0.
        if not (is_order and value == 0 and default is NOTHING):
            values.append(value)
    distinct: dict[Any, None] = {}
    for value in values:
        if isinstance(value, types) and value != default and value != "":
            distinct[value] = None
    result = list(distinct)[:_MAX_CHOICES]
    integers = [value for value in (*values, default) if type(value) is int]
    if len(integers) > 1 and int in types and str not in types:
        # A number other than all compared constants takes another path, too.
        result.append(max(integers) + 1)
    return result
