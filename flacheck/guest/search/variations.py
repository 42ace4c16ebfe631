"""Changes of a plan: repairs after an error, and variants.

A repair changes the arguments that the error mentions. Variants have packed sequences, states, real
sizes, or other dtypes for lone kernels.
"""

import re
from collections.abc import Iterable, Iterator
from inspect import Parameter

from ..inference.arguments import NOTHING, SEQUENCES, choices, is_length, is_tensor
from ..inference.operators import Operator
from ..inference.plans import CallPlan, Plans
from ..inference.shapes import Dimensions, Shapes, symbol_of
from .attempts import CaughtError
from .real_sizes import RealSizes

# Dtypes of a lone kernel's pointers: indices, lengths, addresses, masks, and sums.
_OTHER_DTYPES = ("i32", "i64", "i8", "i1", "fp32")
# Inference decodes one token at a time, and operators with a state have kernels for it.
_ONE_TOKEN = {"T": 1, "TQ": 1, "L": 1}
# Dimensions that count heads: the last dimension of their tensors is a head size.
_HEAD_COUNTS = frozenset(("H", "HQ", "HK", "HV", "G", "NH"))
_HEAD_SIZES = frozenset(("K", "V", "D"))
# Errors of operators that do not support training.
_GRADIENT_ERROR = re.compile(
    r"requires? grad|inference[- ]only|for inference\b|\.requires_grad\b|(?i:no_grad\b)"
    r"|(?i:not support (?:gradients?|autograd|backward|training))"
    r"|(?i:\b(?:backward|bwd)\b.*not (?:implemented|supported))"
)
# The last source lines of an error, which are searched for names of arguments.
_ERROR_LINES = 3


class Variations:
    """Changes of plans for one operator."""

    def __init__(
        self, operator: Operator, shapes: Shapes, real_sizes: RealSizes | None = None
    ) -> None:
        self._operator = operator
        self._shapes = shapes
        self._real_sizes = real_sizes or RealSizes()

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

    def usual(self, base: CallPlan) -> Plans:
        """Yield variants with packed sequences, states in and out, and inference."""
        states = []
        final_states = {}
        for parameter in self._operator.takes:
            name = parameter.name
            if "initial_state" in name or name == "h0":
                states.append(name)
            is_flag = parameter.default is None or isinstance(parameter.default, bool)
            if is_flag and "final_state" in name:
                final_states[name] = True
        has_states = bool(states or final_states)
        stateful = base.with_changes("states", values=final_states).including(*states)
        if has_states:
            yield stateful
            yield base.with_changes("one token", sizes=_ONE_TOKEN, training=False)
        yield from self.packed(base.with_changes("packed"))
        if has_states:
            yield from self.packed(stateful.with_changes("packed, states"))

    def packed(self, base: CallPlan) -> Plans:
        """Yield the plan with packed sequences, if the operator takes offsets."""
        lengths = []
        for parameter in self._operator.takes:
            if is_length(parameter) and not parameter.name.endswith("cpu"):
                lengths.append(parameter)
        if lengths:
            yield pack_sequences(base, *lengths)

    def sizes(self, base: CallPlan) -> Plans:
        """Yield the plan at the other real sizes of the dimensions that the operator has."""
        dimensions = frozenset().union(*self._tensor_dimensions(base))
        heads = self._head_sizes(base)
        named_sizes = self._real_sizes.widths
        if heads:
            named_sizes = self._real_sizes.heads
            # A width of the model, not a head size, has the same symbol.
            dimensions -= _HEAD_SIZES - heads
        for each in named_sizes:
            sizes = {name: size for name, size in each.sizes.items() if name in dimensions}
            # Sizes that the recipe or an error required stay.
            sizes = {**sizes, **base.sizes}
            if sizes != base.sizes:
                yield base.with_changes(each.label, sizes=sizes, sizes_from=each.source)

    def options(self, base: CallPlan) -> Plans:
        """Yield the plan with each other value of an optional flag or literal.

        An option may lead to code of a kernel that no other call compiles.
        """
        for parameter in self._operator.takes:
            if parameter.default is not Parameter.empty and parameter.name not in base.values:
                for value in choices(parameter):
                    label = f"{parameter.name}={value}"
                    yield base.with_changes(label, values={parameter.name: value})

    def other_kinds(self, base: CallPlan) -> Plans:
        """Yield plans in which one tensor or all have another dtype."""
        tensors = [each.name for each in self._operator.takes if self._is_tensor(each)]
        for dtype in _OTHER_DTYPES:
            for name in tensors:
                if base.dtypes.get(name) != dtype:
                    yield base.with_changes(f"{name} in {dtype}", dtypes={name: dtype})
            yield base.with_changes(f"all in {dtype}", dtypes=dict.fromkeys(tensors, dtype))

    def _head_sizes(self, base: CallPlan) -> frozenset[str]:
        """Return the symbols of head sizes: last dimensions behind the number of heads."""
        symbols: frozenset[str] = frozenset()
        for dimensions in self._tensor_dimensions(base):
            if _HEAD_COUNTS.intersection(dimensions[:-1]):
                symbols |= _HEAD_SIZES.intersection(dimensions[-1:])
        return symbols

    def _tensor_dimensions(self, base: CallPlan) -> Iterator[Dimensions]:
        """Yield the likeliest dimensions of each tensor argument, by their usual symbols."""
        for parameter in self._operator.takes:
            if self._is_tensor(parameter):
                likeliest = self._shapes.candidates(self._operator, base, parameter.name)[0]
                yield tuple(map(symbol_of, likeliest))

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
