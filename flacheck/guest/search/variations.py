"""Variants of a plan that are worth a call, to reach other kernels of an operator."""

import itertools
from dataclasses import replace
from inspect import Parameter
from typing import Any

from ..inference.arguments import (
    NOTHING,
    choices,
    is_axis,
    is_length,
    is_optional_integer,
    is_tensor,
    other_numbers,
)
from ..inference.branches import compared_tensors
from ..inference.objects import annotated_class
from ..inference.operators import LAYER, Operator
from ..inference.plans import CallPlan, Plans
from ..inference.shapes import Dimensions, Shapes
from .repairs import DTYPE_NAMES, omit_objects, pack_sequences

# Sizes that are changed together, the most informative first: head sizes that need other tiles,
# sequences shorter than a chunk, widths that need many warps or are not powers of two.
_SIZES = """
K=128, V=128; K=512, V=512; T=32, TQ=32; BT=16; BT=32; K=32, V=32; K=256, V=256; K=16, V=16;
T=1, TQ=1; K=64, V=128; HV=8; D=2048, C=2048; D=40960; HQ=64; T=16, TQ=16; T=2048, TQ=2048;
K=100, V=100; K=8192, V=8192; B=1, T=1, H=1
"""
# An integer where None is passed by default.
_INTEGER = 64
# Odd extents everywhere: many functions have another kernel for what does not fill whole blocks.
_ODD = {**dict.fromkeys(("B", "N", "H"), 1), **dict.fromkeys("T TQ L D C K V".split(), 37)}
# Layers use another kernel for sequences as short as this.
_SHORT = {"T": 32, "TQ": 32, "L": 32}
# Ranks, and dtypes, of one tensor.
_MAX_BRANCHES = 3
# Variants in which two arguments change.
_MAX_PAIRS = 12
# Dimensions that are put before those of a tensor to increase its rank.
_LEADING_DIMENSIONS = ("B", "T", "H", "K")


class Variations:
    """Variants of plans for one operator."""

    def __init__(self, operator: Operator, shapes: Shapes) -> None:
        self._operator = operator
        self._shapes = shapes

    def usual(self, base: CallPlan) -> Plans:
        """Yield variants with packed sequences, states in and out, and a layer's inference."""
        lengths = self._packed_lengths()
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
        if lengths:
            yield pack_sequences(base, *lengths).with_changes("packed")
            if has_states:
                yield pack_sequences(stateful, *lengths).with_changes("packed, states")
        if self._operator.kind == LAYER:
            yield base.with_changes("short, inference", sizes=_SHORT, training=False)

    def unusual(self, base: CallPlan) -> Plans:
        """Yield variants in which one argument or size is changed."""
        yield from self._without_batch(base)
        yield from self.other_arguments(base)
        yield from self._without_objects(base)
        yield from self._compared_tensors(base)
        if self._operator.is_built:
            yield from self._other_build_arguments(base)
        yield base.with_changes("inference", training=False)
        yield base.with_changes("inference, one step", training=False, sizes={"T": 1, "TQ": 1})
        for label in _SIZES.split(";"):
            label = label.strip()
            sizes = {}
            for assignment in label.split(", "):
                name, _, size = assignment.partition("=")
                sizes[name] = int(size)
            yield base.with_changes(label, sizes=sizes)
        yield from self._other_numbers(base)
        yield from itertools.islice(self._along_axes(base), _MAX_PAIRS)
        optional_tensors = []
        for parameter in self._operator.takes:
            if self._is_optional_tensor(parameter):
                optional_tensors.append(parameter.name)
        yield base.including(*optional_tensors).with_changes("all optional")

    def rare(self, base: CallPlan) -> Plans:
        """Yield variants for kernels that no other variant launches."""
        yield base.with_changes("odd sizes", sizes=_ODD)
        for parameter in self._operator.takes:
            name = parameter.name
            if is_optional_integer(parameter):
                yield base.with_changes(f"{name}={_INTEGER}", values={name: _INTEGER})
            elif type(parameter.default) is int and parameter.default == 0:
                # A number that turns off what it counts.
                yield base.with_changes(f"{name}=1", values={name: 1})

    def _packed_lengths(self) -> list[Parameter]:
        """Return the parameters for offsets of packed sequences on the GPU."""
        lengths = []
        for parameter in self._operator.takes:
            if is_length(parameter) and not parameter.name.endswith("cpu"):
                lengths.append(parameter)
        return lengths

    def _without_batch(self, base: CallPlan) -> Plans:
        """Yield packed sequences in tensors without a batch dimension of 1."""
        lengths = self._packed_lengths()
        shapes: dict[str, Any] = {}
        for parameter in self._operator.takes:
            if is_length(parameter) or not self._is_tensor(parameter):
                continue
            name = parameter.name
            plan = replace(base, shapes={})
            dimensions = self._candidates(plan, name)[0]
            if not self._shapes.is_documented(self._operator, name):
                # A shape that the errors of other calls have led to is better than a guess.
                dimensions = base.shapes.get(name) or dimensions
            if dimensions[0] == "B" and len(dimensions) > 2:
                shapes[name] = dimensions[1:]
        if lengths and shapes:
            yield pack_sequences(base, *lengths).with_changes("packed, flat", shapes=shapes)

    def other_arguments(self, base: CallPlan) -> Plans:
        """Yield plans with an optional tensor or object, or another value of an argument."""
        for parameter in self._operator.takes:
            name = parameter.name
            if self._is_optional_tensor(parameter) or self._is_optional_object(parameter):
                yield base.including(name).with_changes(f"with {name}")
            elif not is_length(parameter) and not self._is_tensor(parameter):
                for value in self._choices(parameter):
                    yield base.with_changes(f"{name}={value}", values={name: value})

    def _without_objects(self, base: CallPlan) -> Plans:
        """Yield plans without each object that may be None, and without all of them."""
        plans = list(omit_objects(self._operator, base))
        for plan in plans:
            yield plan.with_changes("without an object")
        if len(plans) > 1:
            values: dict[str, Any] = {}
            for plan in plans:
                for name, value in plan.values.items():
                    if value is None:
                        values[name] = None
            yield base.with_changes("without any object", values=values)

    def _other_build_arguments(self, base: CallPlan) -> Plans:
        """Yield plans with another value of a constructor's argument."""
        for parameter in self._operator.parameters:
            for value in self._choices(parameter):
                label = f"{parameter.name}={value}"
                build = {parameter.name: value}
                yield base.with_changes(label, build=build)
                yield base.with_changes(f"{label}, short", build=build, sizes=_SHORT)

    def _other_numbers(self, base: CallPlan) -> Plans:
        """Yield plans with numbers that are off by default, and numbers in place of tensors."""
        for parameter in self._operator.takes:
            name = parameter.name
            for value in other_numbers(parameter):
                yield base.with_changes(f"{name}={value}", values={name: value})

    def _along_axes(self, base: CallPlan) -> Plans:
        """Yield other values of arguments together with a dimension to work along.

        Along all dimensions an operator often uses another kernel.
        """
        for axis in self._operator.takes:
            if not is_axis(self._operator, axis):
                continue
            for index in self._choices(axis):
                for other in self._operator.takes:
                    if other is axis or self._is_tensor(other):
                        continue
                    for value in self._choices(other):
                        label = f"{axis.name}={index}, {other.name}={value}"
                        values = {axis.name: index, other.name: value}
                        yield base.with_changes(label, values=values)

    def _compared_tensors(self, base: CallPlan) -> Plans:
        """Yield tensors of the ranks and dtypes that the operator's module compares them with."""
        comparisons = compared_tensors(self._operator.module)
        for parameter in self._operator.takes:
            name = parameter.name
            if not self._is_tensor(parameter):
                continue
            dimensions = self._candidates(base, name)[0]
            for rank in comparisons.ranks.get(name, [])[:_MAX_BRANCHES]:
                if rank != len(dimensions):
                    missing = max(rank - len(dimensions), 0)
                    padded = (*_LEADING_DIMENSIONS[:missing], *dimensions)
                    shapes = {name: padded[-rank:]}
                    yield base.with_changes(f"{name} of rank {rank}", shapes=shapes)
            for dtype in comparisons.dtypes.get(name, [])[:_MAX_BRANCHES]:
                if dtype in DTYPE_NAMES:
                    dtype_name = DTYPE_NAMES[dtype]
                    yield base.with_changes(f"{name} in {dtype_name}", dtypes={name: dtype_name})

    def _is_optional_tensor(self, parameter: Parameter) -> bool:
        if parameter.default is not None or is_length(parameter):
            return False
        has_annotation = parameter.annotation is not NOTHING
        return (has_annotation or self._is_documented(parameter)) and self._is_tensor(parameter)

    def _is_optional_object(self, parameter: Parameter) -> bool:
        if parameter.default is not None:
            return False
        return annotated_class(self._operator, parameter) is not None

    def _candidates(self, plan: CallPlan, name: str) -> list[Dimensions]:
        """Return the shapes that an argument may have."""
        return self._shapes.candidates(self._operator, plan, name)

    def _choices(self, parameter: Parameter) -> list[Any]:
        """Return the values that are worth trying for a parameter."""
        return choices(self._operator, parameter)

    def _is_tensor(self, parameter: Parameter) -> bool:
        return is_tensor(parameter, self._is_documented(parameter))

    def _is_documented(self, parameter: Parameter) -> bool:
        return self._shapes.is_documented(self._operator, parameter.name)
