"""Variants of a plan: packed sequences, states, real sizes, and other dtypes of lone kernels."""

from collections.abc import Iterator
from inspect import Parameter

from ..inference.arguments import is_length, is_tensor
from ..inference.operators import Operator
from ..inference.plans import CallPlan, Plans
from ..inference.shapes import Dimensions, Shapes
from .real_sizes import RealSizes
from .repairs import pack_sequences

# Dtypes of a lone kernel's pointers: indices, lengths, addresses, masks, and sums.
_OTHER_DTYPES = ("i32", "i64", "i8", "i1", "fp32")
# Inference decodes one token at a time, and operators with a state have kernels for it.
_ONE_TOKEN = {"T": 1, "TQ": 1, "L": 1}
# Dimensions that count heads: the last dimension of their tensors is a head size.
_HEAD_COUNTS = frozenset(("H", "HQ", "HK", "HV", "G", "NH"))
_HEAD_SIZES = frozenset(("K", "V", "D"))


class Variations:
    """Variants of plans for one operator."""

    def __init__(self, operator: Operator, shapes: Shapes, real_sizes: RealSizes) -> None:
        self._operator = operator
        self._shapes = shapes
        self._real_sizes = real_sizes

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
        """Yield the likeliest dimensions of each tensor argument."""
        for parameter in self._operator.takes:
            if self._is_tensor(parameter):
                yield self._shapes.candidates(self._operator, base, parameter.name)[0]

    def _is_tensor(self, parameter: Parameter) -> bool:
        return is_tensor(parameter, self._shapes.is_documented(self._operator, parameter.name))
