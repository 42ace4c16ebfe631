"""Calls of an operator worth trying: variants of one that works, repairs of one that failed."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from inspect import Parameter
from typing import Any

import torch

from . import optimizers
from .arguments import (
    DTYPES,
    NOTHING,
    SEQUENCES,
    choices,
    is_axis,
    is_length,
    is_tensor,
    other_numbers,
)
from .branches import branches
from .calls import CaughtError
from .following import BUILD, DTYPE, FIELD, GIVE, OBJECT, OMIT, SHAPE, TABLE, VALUE, Demand
from .objects import OptionTable, annotated, classes, named, takes_none
from .operators import LAYER, Operator
from .plans import CallPlan
from .shapes import SIZES, Shapes, dimensions_in, letter, shape

# One thing changed at a time, the most telling first: head sizes that need other tiles, sequences
# shorter than a chunk, widths that need many warps or are no power of two.
_SIZES = """
K=128, V=128; K=512, V=512; T=32, TQ=32; BT=16; BT=32; K=32, V=32; K=256, V=256; K=16, V=16;
T=1, TQ=1; K=64, V=128; HV=8; D=2048, C=2048; D=40960; HQ=64; T=16, TQ=16; T=2048, TQ=2048;
K=100, V=100; K=8192, V=8192; B=1, T=1, H=1
"""
# Layers take another kernel for as few steps as this.
_SHORT = {"T": 32, "TQ": 32, "L": 32}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
# Triton has no complex numbers, but kernels take such tensors as pairs.
DTYPE_NAMES |= {torch.complex64: "complex64", torch.complex128: "complex128"}
# Of the ranks and dtypes of one tensor that decide something.
_MOST_BRANCHES = 3
# Of two arguments that are varied at once.
_MOST_PAIRS = 12
# Operators that are not for training.
_NO_GRADIENTS = re.compile(
    r"leaf Variable that requires grad|inference[- ]only|\.requires_grad\b|(?i:no_grad\(\))"
)
# What is put before the dimensions of a tensor that is to have more.
_LEADING = ("B", "T", "H", "K")
# The last lines of source that an error went through: those that say what it was about.
_LINES = 3


class Variations:
    """Plans for one operator, made out of a plan."""

    def __init__(self, operator: Operator, shapes: Shapes) -> None:
        self._operator, self._shapes = operator, shapes

    def usual(self, base: CallPlan) -> Iterator[CallPlan]:
        """Packed sequences, states in and out, and a layer's short inference."""
        takes = self._operator.takes
        lengths = [p for p in takes if is_length(p) and not p.name.endswith("cpu")]
        states = [p.name for p in takes if "initial_state" in p.name or p.name == "h0"]
        flags = [p.name for p in takes if p.default is None or isinstance(p.default, bool)]
        finals = {name: True for name in flags if "final_state" in name}
        stateful = base.but("states", values=finals).giving(*states)
        if states or finals:
            yield stateful
        if lengths:
            yield _packed(base, *lengths).but("packed")
            if states or finals:
                yield _packed(stateful, *lengths).but("packed, states")
        if self._operator.kind == LAYER:
            yield base.but("short, inference", sizes=_SHORT, training=False)

    def unusual(self, base: CallPlan) -> Iterator[CallPlan]:
        """One thing changed at a time, while kernels are missing."""
        yield from self._flat(base)
        for parameter in self._operator.takes:
            name = parameter.name
            if self._is_optional_tensor(parameter) or self._is_optional_object(parameter):
                yield base.giving(name).but(f"with {name}")
            elif not is_length(parameter) and not is_tensor(parameter, self._is_known(parameter)):
                for value in choices(self._operator, parameter):
                    yield base.but(f"{name}={value}", values={name: value})
        lacking = [*self._without(base)]
        for plan in lacking:
            yield plan.but("without an object")
        if len(lacking) > 1:
            values = {
                name: None for plan in lacking for name in plan.values if plan.values[name] is None
            }
            yield base.but("without any object", values=values)
        yield from self._branching(base)
        if self._operator.is_built:
            for parameter in self._operator.parameters:
                for value in choices(self._operator, parameter):
                    label, build = f"{parameter.name}={value}", {parameter.name: value}
                    yield base.but(label, build=build)
                    yield base.but(f"{label}, short", build=build, sizes=_SHORT)
        yield base.but("inference", training=False)
        yield base.but("inference, one step", training=False, sizes={"T": 1, "TQ": 1})
        for label in map(str.strip, _SIZES.split(";")):
            pairs = [size.split("=") for size in label.split(", ")]
            yield base.but(label, sizes={name: int(number) for name, number in pairs})
        yield from self._numbered(base)
        yield from itertools.islice(self._along_axes(base), _MOST_PAIRS)
        everything = [p.name for p in self._operator.takes if self._is_optional_tensor(p)]
        yield base.giving(*everything).but("all optional")

    def _flat(self, base: CallPlan) -> Iterator[CallPlan]:
        """Packed sequences without a batch of one around them."""
        takes = self._operator.takes
        lengths = [p for p in takes if is_length(p) and not p.name.endswith("cpu")]
        shapes: dict[str, Any] = {}
        for parameter in takes:
            if is_length(parameter) or not is_tensor(parameter, self._is_known(parameter)):
                continue
            name = parameter.name
            dimensions = self._shapes.candidates(self._operator, replace(base, shapes={}), name)[0]
            if dimensions[0] == "B" and len(dimensions) > 2:
                shapes[name] = dimensions[1:]
        if lengths and shapes:
            yield _packed(base, *lengths).but("packed, flat", shapes=shapes)

    def _numbered(self, base: CallPlan) -> Iterator[CallPlan]:
        """Numbers that are off unless they are given, and numbers in place of tensors."""
        for parameter in self._operator.takes:
            for value in other_numbers(parameter):
                label = f"{parameter.name}={value}"
                yield base.but(label, values={parameter.name: value})

    def _along_axes(self, base: CallPlan) -> Iterator[CallPlan]:
        """What else an operator does, along one dimension: the same along the whole is another
        kernel's."""
        takes = self._operator.takes
        for axis in takes:
            for place in choices(self._operator, axis) if is_axis(self._operator, axis) else ():
                for other in takes:
                    if other is axis or is_tensor(other, self._is_known(other)):
                        continue
                    for value in choices(self._operator, other):
                        label = f"{axis.name}={place}, {other.name}={value}"
                        yield base.but(label, values={axis.name: place, other.name: value})

    def _branching(self, base: CallPlan) -> Iterator[CallPlan]:
        """Tensors of the ranks and dtypes that decide in the operator's module what is launched."""
        told = branches(self._operator.module)
        for parameter in self._operator.takes:
            name = parameter.name
            if not is_tensor(parameter, self._is_known(parameter)):
                continue
            dimensions = self._shapes.candidates(self._operator, base, name)[0]
            for rank in told.ranks.get(name, [])[:_MOST_BRANCHES]:
                if rank != len(dimensions):
                    missing = max(rank - len(dimensions), 0)
                    ranked = (*_LEADING[:missing], *dimensions)[-rank:]
                    yield base.but(f"{name} of rank {rank}", shapes={name: ranked})
            for dtype in told.dtypes.get(name, [])[:_MOST_BRANCHES]:
                if dtype in DTYPE_NAMES:
                    label = f"{name} in {DTYPE_NAMES[dtype]}"
                    yield base.but(label, dtypes={name: DTYPE_NAMES[dtype]})

    def turned(self, plan: CallPlan, wanted: Iterable[Demand]) -> Iterator[CallPlan]:
        """The plan in which single demands of branches are met."""
        for demand in wanted:
            yield from self._met(plan, demand)

    def repairs(self, plan: CallPlan, stage: str, error: CaughtError) -> list[CallPlan]:
        """Plans after one that failed at a stage, by what the error says: arguments it names are
        given, left out, or changed. The likeliest first; none of them is known to work."""
        text = " ".join((error.text, *error.lines[-_LINES:]))
        built = self._operator.parameters
        if _NO_GRADIENTS.search(text) and plan.training:
            return [plan.but(training=False)]
        if optimizers.is_optimizers(self._operator) and not plan.build:
            return [plan.but("matrices only", build=optimizers.matrices(self._operator))]
        if stage == "build":
            mentioned = _mentioned(built, text, before=r"[\w.]")
            of_words = [repair for p in mentioned for repair in self._built(plan, p, text)]
            return [*self._rebuilt(plan, error.wants), *of_words]
        demanded = [met for demand in error.wants for met in self._met(plan, demand)]
        if demanded or error.kind == "KernelRefused":
            return demanded
        # Not after a dot: an attribute of that name is something else.
        mentioned = _mentioned(self._operator.takes, text, before=r"[\w.]")
        plans = [*self._without(plan), *_spelled_out(plan, mentioned, error.text)]
        for parameter in mentioned:
            plans += self._changed(plan, parameter, text)
        if self._operator.is_built:
            # A layer keeps its constructor's arguments: `self.mode` counts as well.
            for parameter in _mentioned(built, text, before=r"\w"):
                plans += self._built(plan, parameter, text)
        plans += self._reshaped(plan, [*mentioned, *self._operator.takes])
        return plans

    def _rebuilt(self, plan: CallPlan, wants: Iterable[Demand]) -> list[CallPlan]:
        """The plan in which demands on a constructor's arguments are met."""
        inner = replace(plan, values=plan.build)
        met = [each for demand in wants for each in self._met(inner, demand)]
        return [replace(each, build=each.values | each.build, values=plan.values) for each in met]

    def _without(self, plan: CallPlan) -> Iterator[CallPlan]:
        """The plan with nothing in the place of each object that may be missing."""
        for parameter in self._operator.takes:
            name = parameter.name
            made_up = parameter.default is NOTHING and plan.values.get(name, name) is not None
            if made_up and takes_none(self._operator, parameter):
                yield plan.but(values={name: None})

    def _met(self, plan: CallPlan, demand: Demand) -> Iterator[CallPlan]:
        """The plan in which a demand is met; none where no argument can meet it."""
        name, value = demand.name, demand.value
        if demand.kind == SHAPE:
            sizes = self._sized(plan, name, value)
            if sizes:
                # All tensors with these dimensions go along.
                yield plan.but(sizes=sizes)
            yield plan.but(shapes={name: self._symbolic(plan, name, value)}).without_value(name)
        elif demand.kind == DTYPE and value in DTYPE_NAMES:
            yield plan.but(dtypes={name: DTYPE_NAMES[value]})
        elif demand.kind == VALUE:
            yield plan.but(values={name: value})
        elif demand.kind == GIVE:
            yield plan.without_value(name).giving(name)
        elif demand.kind == OMIT:
            optional = any(p.name == name and p.default is None for p in self._operator.takes)
            if optional:
                yield plan.omitting(name)
            else:
                yield plan.but(values={name: None})
        elif demand.kind == OBJECT:
            for found in classes(self._operator, value):
                yield plan.but(values={name: {"object": found}})
        elif demand.kind == TABLE:
            yield plan.but(values={name: OptionTable(value)})
        elif demand.kind == FIELD:
            kind, field, wanted = value
            before = plan.values.get(name)
            fields = {}
            if isinstance(before, dict):
                fields = before.get("with", {})
            made = {"object": named(kind), "with": {**fields, field: wanted}}
            yield plan.but(values={name: made})
        elif demand.kind == BUILD and any(p.name == name for p in self._operator.parameters):
            yield plan.but(build={name: value})

    def _sized(self, plan: CallPlan, name: str, extents: tuple[int, ...]) -> dict[str, int]:
        """The size of one dimension that gives a tensor its extents; empty where it has others."""
        if name in plan.shapes:
            return {}
        dimensions = self._shapes.candidates(self._operator, plan, name)[0]
        before = shape(dimensions, {**SIZES, **plan.sizes})
        if before is None or len(before) != len(extents):
            return {}
        changed = [place for place, extent in enumerate(extents) if extent != before[place]]
        # Where more than one differs, the tensor is to be shaped as another one is.
        if len(changed) != 1:
            return {}
        dimension, extent = dimensions[changed[0]], extents[changed[0]]
        if not isinstance(dimension, str) or not dimension.isidentifier():
            return {}
        return {symbol: extent for symbol in (dimension, letter(dimension)) if symbol}

    def _symbolic(self, plan: CallPlan, name: str, extents: tuple[int, ...]) -> tuple[Any, ...]:
        """A shape as another argument has it, in the names of its dimensions, so that it goes along
        with variations of their sizes; else in numbers."""
        sizes = {**SIZES, **plan.sizes}
        for parameter in self._operator.takes:
            if parameter.name != name and is_tensor(parameter, self._is_known(parameter)):
                for dimensions in self._shapes.candidates(self._operator, plan, parameter.name)[:1]:
                    if shape(dimensions, sizes) == extents:
                        return dimensions
        return extents

    def _is_optional_tensor(self, parameter: Parameter) -> bool:
        if parameter.default is not None or is_length(parameter):
            return False
        said = parameter.annotation is not NOTHING or self._is_known(parameter)
        return said and is_tensor(parameter, self._is_known(parameter))

    def _is_optional_object(self, parameter: Parameter) -> bool:
        return parameter.default is None and annotated(self._operator, parameter) is not None

    def _is_known(self, parameter: Parameter) -> bool:
        return self._shapes.known(self._operator, parameter.name)

    def _built(self, plan: CallPlan, parameter: Parameter, text: str) -> list[CallPlan]:
        values = choices(self._operator, parameter) + _said(text, parameter)
        return [plan.but(build={parameter.name: value}) for value in values[:4]]

    def _changed(self, plan: CallPlan, parameter: Parameter, text: str) -> list[CallPlan]:
        """The plan with this argument given, left out, or worth something else."""
        name, optional = parameter.name, parameter.default is not NOTHING
        if optional and (name in plan.given or plan.values.get(name) is not None):
            return [plan.omitting(name)]
        if is_length(parameter):
            return [_packed(plan, parameter)]
        if is_tensor(parameter, self._is_known(parameter)):
            if optional:
                return [plan.giving(name)]
            return [plan.but(values={name: value}) for value in other_numbers(parameter)]
        values = dict.fromkeys(choices(self._operator, parameter) + _said(text, parameter))
        if not values and parameter.default is None:
            return [plan.giving(name)]
        return [plan.but(values={name: value}) for value in list(values)[:5]]

    def _reshaped(self, plan: CallPlan, parameters: Iterable[Parameter]) -> Iterator[CallPlan]:
        """The plan with the next likely shapes of a tensor."""
        for parameter in parameters:
            name = parameter.name
            given = parameter.default is NOTHING or name in plan.given
            if given and is_tensor(parameter, self._is_known(parameter)):
                for shape in self._shapes.candidates(self._operator, plan, name)[1:4]:
                    yield plan.but(shapes={name: shape})


def _packed(plan: CallPlan, *parameters: Parameter) -> CallPlan:
    """The plan with sequences of different lengths packed into one."""
    return plan.but(sizes={"B": 1, "N": SEQUENCES}).giving(*(p.name for p in parameters))


def _spelled_out(plan: CallPlan, named: Sequence[Parameter], text: str) -> list[CallPlan]:
    """What an error says outright: the shape of an argument, or that it must be in fp32."""
    plans = []
    said = dimensions_in(text)
    if said:
        plans += [plan.but(shapes={parameter.name: said}) for parameter in named]
    if re.search(r"float32|fp32", text):
        plans.append(plan.but(dtypes={parameter.name: "fp32" for parameter in named}))
    return plans


def _mentioned(parameters: Iterable[Parameter], text: str, before: str) -> list[Parameter]:
    """The parameters whose names stand in a text, not right behind such a character."""
    return [p for p in parameters if re.search(rf"(?<!{before}){re.escape(p.name)}(?!\w)", text)]


def _said(text: str, parameter: Parameter) -> list[Any]:
    """The strings or numbers that an error lists."""
    default = parameter.default
    if isinstance(default, bool):
        return []
    if isinstance(default, int):
        return [int(number) for number in re.findall(r"(?<![\w.])(\d{1,4})(?![\w.])", text)][:4]
    if isinstance(default, str) or "str" in str(parameter.annotation):
        return re.findall(r"['\"`](\w+)['\"`]", text)[:4]
    return []
