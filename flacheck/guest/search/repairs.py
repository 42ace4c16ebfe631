"""Plans that may succeed after a call failed: changes of the arguments that its error mentions."""

import re
from collections.abc import Iterable
from inspect import Parameter

from ..inference.arguments import NOTHING, SEQUENCES, choices, is_length, is_tensor
from ..inference.operators import Operator
from ..inference.plans import CallPlan, Plans
from ..inference.shapes import Shapes
from .attempts import CaughtError

# Errors of operators that do not support training.
_GRADIENT_ERROR = re.compile(
    r"requires? grad|inference[- ]only|for inference\b|\.requires_grad\b|(?i:no_grad\b)"
    r"|(?i:not support (?:gradients?|autograd|backward|training))"
    r"|(?i:\b(?:backward|bwd)\b.*not (?:implemented|supported))"
)
# The last source lines of an error, which are searched for names of arguments.
_ERROR_LINES = 3


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
        plan = plan.with_changes(is_repaired=True)
        plans: list[CallPlan] = []
        if self._operator.is_built:
            # A layer stores its constructor's arguments, so `self.mode` counts as well.
            for parameter in _mentioned(self._operator.parameters, text):
                for value in choices(parameter):
                    plans.append(plan.with_changes(build={parameter.name: value}))
        if stage == "build":
            return plans
        mentioned = _mentioned(self._operator.takes, text, ".")
        if mentioned and re.search(r"float32|fp32", error.text):
            dtypes = {parameter.name: "fp32" for parameter in mentioned}
            plans.append(plan.with_changes(dtypes=dtypes))
        for parameter in mentioned:
            plans += self._change_argument(plan, parameter)
        plans += self._change_shapes(plan, [*mentioned, *self._operator.takes])
        return plans

    def _is_tensor(self, parameter: Parameter) -> bool:
        return is_tensor(parameter, self._shapes.is_documented(self._operator, parameter.name))

    def _change_argument(self, plan: CallPlan, parameter: Parameter) -> list[CallPlan]:
        """Return plans with an argument added, omitted, or with other values."""
        name = parameter.name
        is_optional = parameter.default is not NOTHING
        if is_optional and (name in plan.include or plan.values.get(name) is not None):
            return [plan.omitting(name)]
        if is_length(parameter):
            return [pack_sequences(plan, parameter)]
        if self._is_tensor(parameter):
            return [plan.including(name)] if is_optional else []
        values = choices(parameter)
        if not values and parameter.default is None:
            return [plan.including(name)]
        return [plan.with_changes(values={name: value}) for value in values]

    def _change_shapes(self, plan: CallPlan, parameters: Iterable[Parameter]) -> Plans:
        """Yield plans with the next likely shapes of each tensor."""
        for parameter in parameters:
            name = parameter.name
            is_passed = parameter.default is NOTHING or name in plan.include
            if is_passed and self._is_tensor(parameter):
                for dimensions in self._shapes.candidates(self._operator, plan, name)[1:4]:
                    yield plan.with_changes(shapes={name: dimensions})


def pack_sequences(plan: CallPlan, *parameters: Parameter) -> CallPlan:
    """Return the plan with sequences of different lengths packed into one."""
    names = [parameter.name for parameter in parameters]
    return plan.with_changes(sizes={"B": 1, "N": SEQUENCES}).including(*names)


def _mentioned(parameters: Iterable[Parameter], text: str, no_prefix: str = "") -> list[Parameter]:
    """Return the parameters whose names a text contains, except behind `no_prefix`."""
    mentions = []
    for parameter in parameters:
        if re.search(rf"(?<![\w{no_prefix}]){re.escape(parameter.name)}(?!\w)", text):
            mentions.append(parameter)
    return mentions
