"""Plans that may succeed after a call failed: changes of the arguments that its error mentions."""

import math
import re
from collections.abc import Iterable, Sequence
from inspect import Parameter
from typing import Any

import torch

from ..inference import optimizers
from ..inference.arguments import (
    DTYPES,
    NOTHING,
    SEQUENCES,
    choices,
    is_length,
    is_tensor,
    other_numbers,
)
from ..inference.objects import (
    accepts_none,
)
from ..inference.operators import Operator
from ..inference.plans import CallPlan, Plans
from ..inference.shapes import SIZES, Dimensions, Shapes, dimensions_in, extents_of
from .attempts import CaughtError

DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
# Triton lacks complex numbers, but some kernels read complex tensors as pairs of floats.
DTYPE_NAMES |= {torch.complex64: "complex64", torch.complex128: "complex128"}
# Errors of operators that do not support training.
_GRADIENT_ERROR = re.compile(
    r"requires? grad|inference[- ]only|for inference\b|\.requires_grad\b|(?i:no_grad\b)"
    r"|(?i:not support (?:gradients?|autograd|backward|training))"
)
# torch's error for floats that are passed as the indices of an embedding's rows.
_INDEX_ERROR = re.compile(r"'indices' to have one of the following scalar types: Long, Int")
# torch's error for a view with another number of elements than the tensor.
_VIEW_ERROR = re.compile(r"shape '\[([\d, ]+)\]' is invalid for input of size (\d+)")
_TOKENS = ("B", "T")
# The last source lines of an error, which are searched for names of arguments.
_ERROR_LINES = 3
# Values of one parameter.
_MAX_BUILD_VALUES = 4
_MAX_VALUES = 5
_MAX_TEXT_VALUES = 4


class Repairs:
    """Changes of plans for one operator."""

    def __init__(self, operator: Operator, shapes: Shapes) -> None:
        self._operator = operator
        self._shapes = shapes

    def after_error(self, plan: CallPlan, stage: str, error: CaughtError) -> list[CallPlan]:
        """Return plans that may avoid the error of a call at a stage, the likeliest first.

        Arguments that the error mentions are added, omitted or changed.
        """
        text = " ".join((error.text, *error.lines[-_ERROR_LINES:]))
        if _GRADIENT_ERROR.search(text) and plan.training:
            return [plan.with_changes(training=False)]
        if optimizers.is_optimizer_step(self._operator) and not plan.build:
            build = optimizers.matrix_arguments(self._operator)
            return [plan.with_changes("matrices only", build=build)]
        if stage == "build":
            return self._repair_constructor(plan, text)
        return [
            *self._resize_viewed(plan, error.text),
            *self._apply_shape(plan, error.text),
            *self._change_mentioned(plan, error.text, text),
        ]

    def _resize_viewed(self, plan: CallPlan, message: str) -> list[CallPlan]:
        """Return the plan with one-dimensional tensors of the length that a view requires.

        All tensors of the present length change, as they mostly are viewed alike.
        """
        match = _VIEW_ERROR.search(message)
        if match is None:
            return []
        count = _element_count(match[1])
        sizes = {**SIZES, **plan.sizes}
        shapes: dict[str, Any] = {}
        for parameter in self._operator.takes:
            name = parameter.name
            is_passed = parameter.default is NOTHING or name in plan.include
            if not is_passed or name in plan.values or not self._is_tensor(parameter):
                continue
            extents = extents_of(self._candidates(plan, name)[0], sizes)
            if extents is None:
                continue
            if [extent for extent in extents if extent != 1] == [int(match[2])]:
                shapes[name] = (count,)
        if not shapes:
            return []
        return [plan.with_changes(shapes=shapes)]

    def _apply_shape(self, plan: CallPlan, message: str) -> list[CallPlan]:
        """Return plans with the shape that an error requires of a tensor: `x must be (N, 3)`.

        Without a name, all required tensors have the shape.
        """
        dimensions = dimensions_in(message)
        mentioned = _mentioned(self._operator.takes, message, preceded_by=r"[\w.]")
        plans = []
        if dimensions and not mentioned and "with shape" in message:
            shapes: dict[str, Any] = {}
            for parameter in self._operator.takes:
                is_required = parameter.default is NOTHING and parameter.name not in plan.values
                if is_required and self._is_tensor(parameter):
                    shapes[parameter.name] = dimensions
            plans.append(plan.with_changes(shapes=shapes))
        for parameter in mentioned:
            name = parameter.name
            if dimensions and plan.shapes.get(name) != dimensions and self._is_tensor(parameter):
                changed_plan = plan.with_changes(shapes={name: dimensions})
                plans.append(changed_plan.without_value(name))
        return plans

    def _repair_constructor(self, plan: CallPlan, text: str) -> list[CallPlan]:
        plans: list[CallPlan] = []
        for parameter in _mentioned(self._operator.parameters, text, preceded_by=r"[\w.]"):
            plans += self._change_build_argument(plan, parameter, text)
        return plans

    def _change_mentioned(self, plan: CallPlan, message: str, text: str) -> list[CallPlan]:
        """Return plans in which single arguments that an error mentions are changed."""
        # A name after a dot is an attribute of something else.
        mentioned = _mentioned(self._operator.takes, text, preceded_by=r"[\w.]")
        plans = list(omit_objects(self._operator, plan))
        plans += _apply_dtype(plan, mentioned, message)
        if _INDEX_ERROR.search(message):
            plans += self._pass_tokens(plan)
        plans += _shrink_batch(plan, message)
        for parameter in mentioned:
            plans += self._change_argument(plan, parameter, text)
        if self._operator.is_built:
            # A layer stores its constructor's arguments, so `self.mode` counts as well.
            for parameter in _mentioned(self._operator.parameters, text, preceded_by=r"\w"):
                plans += self._change_build_argument(plan, parameter, text)
        plans += self._change_shapes(plan, [*mentioned, *self._operator.takes])
        return plans

    def _candidates(self, plan: CallPlan, name: str) -> list[Dimensions]:
        """Return the shapes that an argument may have."""
        return self._shapes.candidates(self._operator, plan, name)

    def _choices(self, parameter: Parameter) -> list[Any]:
        """Return the values that are worth trying for a parameter."""
        return choices(self._operator, parameter)

    def _is_tensor(self, parameter: Parameter) -> bool:
        return is_tensor(parameter, self._shapes.is_documented(self._operator, parameter.name))

    def _change_build_argument(
        self, plan: CallPlan, parameter: Parameter, text: str
    ) -> list[CallPlan]:
        """Return plans with other values of a constructor's argument."""
        values = self._choices(parameter) + _values_in_text(text, parameter)
        plans = []
        for value in values[:_MAX_BUILD_VALUES]:
            plans.append(plan.with_changes(build={parameter.name: value}))
        return plans

    def _change_argument(self, plan: CallPlan, parameter: Parameter, text: str) -> list[CallPlan]:
        """Return plans with an argument added, omitted, or with other values."""
        name = parameter.name
        is_optional = parameter.default is not NOTHING
        if is_optional and (name in plan.include or plan.values.get(name) is not None):
            return [plan.omitting(name)]
        if is_length(parameter):
            return [pack_sequences(plan, parameter)]
        if self._is_tensor(parameter):
            if is_optional:
                return [plan.including(name)]
            return [plan.with_changes(values={name: value}) for value in other_numbers(parameter)]
        values = dict.fromkeys(self._choices(parameter) + _values_in_text(text, parameter))
        if not values and parameter.default is None:
            return [plan.including(name)]
        return [plan.with_changes(values={name: value}) for value in list(values)[:_MAX_VALUES]]

    def _pass_tokens(self, plan: CallPlan) -> Plans:
        """Yield plans in which one required tensor contains the numbers of tokens."""
        for parameter in self._operator.takes:
            if parameter.default is NOTHING and self._is_tensor(parameter):
                name = parameter.name
                yield plan.with_changes(shapes={name: _TOKENS}, dtypes={name: "i64"})

    def _change_shapes(self, plan: CallPlan, parameters: Iterable[Parameter]) -> Plans:
        """Yield plans with the next likely shapes of each tensor."""
        for parameter in parameters:
            name = parameter.name
            is_passed = parameter.default is NOTHING or name in plan.include
            if is_passed and self._is_tensor(parameter):
                for dimensions in self._candidates(plan, name)[1:4]:
                    yield plan.with_changes(shapes={name: dimensions})


def omit_objects(operator: Operator, plan: CallPlan) -> Plans:
    """Yield plans with None for one object or tensor that may be None."""
    for parameter in operator.takes:
        name = parameter.name
        is_inferred = parameter.default is NOTHING and plan.values.get(name, name) is not None
        if is_inferred and accepts_none(operator, parameter):
            yield plan.with_changes(values={name: None})


def pack_sequences(plan: CallPlan, *parameters: Parameter) -> CallPlan:
    """Return the plan with sequences of different lengths packed into one."""
    names = [parameter.name for parameter in parameters]
    return plan.with_changes(sizes={"B": 1, "N": SEQUENCES}).including(*names)


def _apply_dtype(plan: CallPlan, parameters: Sequence[Parameter], message: str) -> list[CallPlan]:
    """Return the plan with the dtype that an error message contains."""
    if not parameters or not re.search(r"float32|fp32", message):
        return []
    dtypes = {parameter.name: "fp32" for parameter in parameters}
    return [plan.with_changes(dtypes=dtypes)]


def _shrink_batch(plan: CallPlan, message: str) -> list[CallPlan]:
    """Return the plan with a batch of 1, for an operator that computes the first one only."""
    match = _VIEW_ERROR.search(message)
    if match is None:
        return []
    count = _element_count(match[1])
    batch = {**SIZES, **plan.sizes}["B"]
    if count != batch * int(match[2]):
        return []
    return [plan.with_changes(sizes={"B": 1})]


def _element_count(extents: str) -> int:
    """Return the number of elements of a tensor with extents such as `64, 2`."""
    return math.prod(int(extent) for extent in extents.split(","))


def _mentioned(parameters: Iterable[Parameter], text: str, preceded_by: str) -> list[Parameter]:
    """Return the parameters whose names a text contains, not preceded by such a character."""
    mentions = []
    for parameter in parameters:
        name = re.escape(parameter.name)
        if re.search(rf"(?<!{preceded_by}){name}(?!\w)", text):
            mentions.append(parameter)
    return mentions


def _values_in_text(text: str, parameter: Parameter) -> list[Any]:
    """Return the strings or numbers in an error that may be values of a parameter."""
    default = parameter.default
    if isinstance(default, bool):
        return []
    if isinstance(default, int):
        numbers = re.findall(r"(?<![\w.])(\d{1,4})(?![\w.])", text)
        return [int(number) for number in numbers[:_MAX_TEXT_VALUES]]
    if isinstance(default, str) or "str" in str(parameter.annotation):
        strings = re.findall(r"['\"`](\w+)['\"`]", text)
        return strings[:_MAX_TEXT_VALUES]
    return []
