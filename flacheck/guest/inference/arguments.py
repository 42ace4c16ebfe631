"""Arguments of a call: tensors of likely shapes and dtypes, objects, and plain values.

Plain values follow from names, annotations and the constants that a module compares them with.
"""

import enum
import inspect
import re
from collections.abc import Iterable
from typing import Any

import torch

from ..workers.values import TORCH_NAMES
from . import usage
from .operators import LAYER, Operator, annotated_class, constructor_of
from .plans import CallPlan, Recipe
from .shapes import SIZES, USUAL_NAMES, Shapes, Sizes, extents_of, size_of

DTYPES = {name: getattr(torch, torch_name) for name, torch_name in TORCH_NAMES.items()}
# The dtype in which every operator is called first.
FIRST_DTYPE = torch.bfloat16
NOTHING = inspect.Parameter.empty
# Offsets of packed sequences.
LENGTHS = re.compile(r"cu_?seq|seq_?offsets|cu_?len")
_INTEGER_TENSOR = re.compile(
    r"(^|_)(ids?|idx|index|indices|labels?|targets?|(?:seq_?)?lens?|lengths|positions?|offsets|counts?|indptr)(_|$)"
    r"|(block|page)_?tables?|slot_mapping|seq_?used|LongTensor|IntTensor|IndexTensor"
    r"|\b(?:U?Int\d*|Integer)\["
)
_BOOLEAN_TENSOR = re.compile(r"mask|BoolTensor|\bBool\[")
# Names of parameters without an annotation that are not tensors.
_PLAIN_NAME = re.compile(
    r"^(eps|epsilon|scale|\w*_scale|dtype|\w*_dtype|device|reduction|activation|\w*_mode|mode|dim"
    r"|axis|\w*size|num_\w+|n_\w+|\w*alpha|\w*_?coef\w*|lr|p|inplace|in_place|offset|temperature"
    r"|softcap\w*|ignore_index|is_causal|causal|B[A-Z]|T|layout|training)$"
    r"|^(is_|use_|return_|output_)"
)
_SIZE_NAME = re.compile(
    r"head|dim|hidden|seq|len|tokens$|vocab|batch|speculative|^d_model$|^[A-Z]+$"
)
# A name that consists of such words is that of a dimension which all tensors of a call share.
# Another word makes it the size of something else (`state_len`, `rotary_dim`), or not a size
# (`head_stride`).
_DIMENSION_NAME = re.compile(
    r"(?!ndim$)(?:(?:max|num|n|d|q|k|v|qk|kv|hv|query|key|value|attention|in|out|input|output|embed|emb"
    r"|embedding|features?|model|batch|size|heads?|dim|hidden|seqs?|seqlens?|sequences?|len|length"
    r"|vocab)(?:_|$|(?=head|dim|size|len)))+",
    re.IGNORECASE,
)
_FLAG_ANNOTATIONS = ("bool", "<class 'bool'>", "Optional[bool]", "bool | None")
_INTEGER_ANNOTATIONS = ("int", "<class 'int'>")
_DTYPE_ANNOTATIONS = (usage.DTYPE, "Optional[torch.dtype]", "torch.dtype | None")
# The scale is 1/sqrt(64), for a usual head size.
_USUAL_FLOATS = {"eps": 1e-5, "epsilon": 1e-5, "scale": 0.125, "temperature": 1.0}
# Offsets of packed sequences as fractions of the time. They are not multiples of chunk sizes.
_SEQUENCE_STARTS = (0.2, 0.6)
SEQUENCES = len(_SEQUENCE_STARTS) + 1
_MIDDLE_SIZE = 64
# Levels of objects that are arguments of other objects' constructors.
_MAX_OBJECT_DEPTH = 4
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
                arguments[name] = self._from_value(plan.values[name], plan.dtypes.get(name))
            elif parameter.default is NOTHING or name in plan.include:
                arguments[name] = self._infer(operator, plan, parameter, sizes)
        return arguments

    def _from_value(self, value: Any, dtype_name: str | None) -> Any:
        """Return a plan's value as an argument: a tensor for its dtype (`of`) and its `shape`.

        A tensor that was described in the first dtype is built in the dtype of this call.
        """
        if not isinstance(value, dict) or "of" not in value:
            return value
        dtype = self._dtype_of_call(dtype_name or value["of"])
        return make_tensor(tuple(value["shape"]), dtype, self._training)

    def build_object(self, object_class: type) -> Any:
        """Build an object of a class."""
        if issubclass(object_class, enum.Enum):
            return next(iter(object_class))
        constructor = constructor_of(object_class)
        self._object_depth += 1
        try:
            if self._object_depth > _MAX_OBJECT_DEPTH:
                raise TypeError(f"{object_class.__name__} is made of itself")
            return constructor.call(**self.build(constructor, CallPlan(), constructor.parameters))
        finally:
            self._object_depth -= 1

    def _infer(
        self, operator: Operator, plan: CallPlan, parameter: inspect.Parameter, sizes: Sizes
    ) -> Any:
        """Infer an argument that the plan does not contain."""
        name = parameter.name
        object_class = annotated_class(operator, parameter)
        has_shape = name in plan.shapes
        if object_class is not None and not has_shape:
            return self.build_object(object_class)
        if is_length(parameter):
            return _sequence_offsets(sizes, parameter)
        is_documented = self._shapes.is_documented(operator, name)
        if not has_shape and not is_tensor(parameter, is_documented):
            value, is_implied = plain_value(parameter, sizes)
            if not is_implied:
                self.has_guesses = self.has_guessed_constants = True
            return value
        if not has_shape and not self._has_evidence(operator, plan, parameter):
            self.has_guesses = True
        return self._infer_tensor(operator, plan, parameter, sizes)

    def _infer_tensor(
        self, operator: Operator, plan: CallPlan, parameter: inspect.Parameter, sizes: Sizes
    ) -> torch.Tensor:
        """Return a tensor of the likeliest shape and dtype."""
        likeliest: tuple[int, ...] = ()
        for dimensions in self._shapes.candidates(operator, plan, parameter.name):
            extents = extents_of(dimensions, sizes)
            if extents is not None:
                likeliest = extents
                break
        return make_tensor(likeliest, self.infer_dtype(plan, parameter), self._training)

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
        if not has_dtype and name not in USUAL_NAMES:
            return False
        if operator.kind == LAYER and name in USUAL_NAMES:
            return True
        return self._shapes.is_documented(operator, name)

    def _dtype_of_call(self, name: str) -> torch.dtype:
        """Return a plan's dtype; the first dtype, in which plans are made, is that of the call."""
        dtype = _dtype_named(name)
        if dtype == FIRST_DTYPE:
            return self.dtype
        return dtype

    def infer_dtype(self, plan: CallPlan, parameter: inspect.Parameter) -> torch.dtype:
        """Return the likeliest dtype of a tensor."""
        name = parameter.name
        annotation = str(parameter.annotation)
        if name in plan.dtypes:
            return self._dtype_of_call(plan.dtypes[name])
        if self._common.dtypes.get(name):
            return _dtype_named(self._common.dtypes[name])
        if _BOOLEAN_TENSOR.search(name) or _BOOLEAN_TENSOR.search(annotation):
            return torch.bool
        if _INTEGER_TENSOR.search(name) or _INTEGER_TENSOR.search(annotation):
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
        return "Tensor" in str(parameter.annotation)
    if parameter.default is not NOTHING and parameter.default is not None:
        return False
    return is_documented or not _PLAIN_NAME.match(parameter.name)


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


def plain_value(parameter: inspect.Parameter, sizes: Sizes) -> tuple[Any, bool]:
    """Return the likeliest value of an argument that is neither a tensor nor an object.

    Its second part is True if the value follows from the name or the type, as for sizes, flags,
    small numbers, dtypes and devices.
    """
    name = parameter.name
    annotation = str(parameter.annotation)
    default = parameter.default
    certain = _certain_value(parameter)
    if certain is not NOTHING:
        return certain, True
    if name in _USUAL_FLOATS or "float" in annotation:
        return _USUAL_FLOATS.get(name, 1.0), name in _USUAL_FLOATS
    for value in choices(parameter):
        return value, False
    if default not in (NOTHING, None):
        return default, False
    if "str" in annotation:
        return "none", False
    is_number = parameter.annotation is NOTHING or "int" in annotation
    if _SIZE_NAME.search(name):
        is_dimension = name in SIZES or bool(_DIMENSION_NAME.fullmatch(name))
        return size_of(name, sizes), is_number and is_dimension
    return _MIDDLE_SIZE, False


def _certain_value(parameter: inspect.Parameter) -> Any:
    """Return the value of a dtype, a device or a flag; NOTHING for other arguments."""
    name, annotation, default = parameter.name, str(parameter.annotation), parameter.default
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
    return NOTHING


def choices(parameter: inspect.Parameter) -> list[Any]:
    """Return the values that are worth trying: of literals and flags."""
    default = parameter.default
    if isinstance(default, bool):
        return [not default]
    literal = re.search(r"Literal\[(.*?)\]", str(parameter.annotation))
    if literal is None:
        return []
    texts = re.findall(r"['\"](\w+)['\"]", literal[1])
    return [text for text in texts if text != default][:_MAX_CHOICES]
