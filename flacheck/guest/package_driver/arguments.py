"""Makes up arguments: tensors of the right shape and dtype, and plain values by name and
annotation.
"""

from __future__ import annotations

import importlib
import inspect
import re

import torch

from .choices import choices
from .sizes import SIZES, shape, size

DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "i64": torch.int64,
    "i32": torch.int32,
    "i1": torch.bool,
    "u8": torch.uint8,
}
NOTHING = inspect.Parameter.empty
_LENGTHS = re.compile(r"cu_?seq|seq_?offsets|cu_?len")
_INTEGERS = re.compile(
    r"(^|_)(ids?|idx|index|indices|labels?|targets?|lens|lengths|positions?|offsets|counts?)(_|$)|LongTensor|IntTensor"
)
_TRUTHS = re.compile(r"mask|BoolTensor")
_PLAIN = re.compile(
    r"^(eps|epsilon|scale|\w*_scale|dtype|\w*_dtype|device|reduction|activation|\w*_mode|mode|dim|axis|\w*size|num_\w+|n_\w+|"
    r"\w*alpha|\w*_?coef\w*|lr|p|inplace|in_place|offset|temperature|softcap\w*|ignore_index|B[A-Z]|T|layout|training)$"
)
_FLOATS = {"eps": 1e-5, "epsilon": 1e-5, "scale": 0.125, "temperature": 1.0}
_CUTS = (0.2, 0.6)
_MIDDLING = 64


class Arguments:
    """Builds what a plan asks for, in one dtype."""

    def __init__(self, shapes, recipe, dtype: str) -> None:
        self._shapes, self._recipe, self._dtype = shapes, recipe, DTYPES[dtype]

    def build(self, operator, plan, parameters) -> dict:
        """The arguments by name; what is optional and not given is left out."""
        sizes = {**SIZES, **self._recipe.common.sizes, **plan.sizes}
        made = {}
        for parameter in parameters:
            name = parameter.name
            if name in plan.values:
                made[name] = self._value(plan.values[name], made)
            elif parameter.default is NOTHING or name in plan.given:
                made[name] = self._made_up(operator, plan, parameter, sizes)
        return made

    def _value(self, value, made: dict):
        """A recipe's value: itself, `{call: module:name, with: {…}}`, `{dtype: fp32}` or `{like:
        argument}`.
        """
        if not isinstance(value, dict):
            return value
        if "dtype" in value:
            return DTYPES[value["dtype"]]
        if "like" in value:
            return torch.randn_like(made[value["like"]])
        module, _, name = value["call"].partition(":")
        arguments = {
            key: made.get(item[1:])
            if isinstance(item, str) and item[:1] == "$"
            else self._value(item, made)
            for key, item in (value.get("with") or {}).items()
        }
        return getattr(importlib.import_module(module), name)(**arguments)

    def _made_up(self, operator, plan, parameter, sizes: dict):
        name, annotation = parameter.name, str(parameter.annotation)
        if _LENGTHS.search(name):
            return _sequences(sizes, annotation, name)
        if name not in plan.shapes and not is_tensor(parameter, self._shapes.known(operator, name)):
            return _plain(operator, parameter, sizes)
        candidates = self._shapes.candidates(operator, plan, name)
        extents = next(
            (found for found in (shape(each, sizes) for each in candidates) if found is not None),
            (),
        )
        return self._tensor(extents, self._dtype_of(plan, name, annotation), operator)

    def _dtype_of(self, plan, name: str, annotation: str):
        said = plan.dtypes.get(name) or self._recipe.common.dtypes.get(name)
        if said:
            return DTYPES[said]
        if _TRUTHS.search(name) or _TRUTHS.search(annotation):
            return torch.bool
        if _INTEGERS.search(name) or _INTEGERS.search(annotation):
            return torch.int64
        return self._dtype

    def _tensor(self, extents, dtype, operator):
        if dtype == torch.bool:
            return torch.ones(extents, dtype=dtype, device="cuda")
        if not dtype.is_floating_point:
            return torch.zeros(extents, dtype=dtype, device="cuda")
        return torch.randn(extents, dtype=dtype, device="cuda", requires_grad=True)


def is_length(parameter) -> bool:
    """Whether a parameter says where packed sequences begin and end."""
    return bool(_LENGTHS.search(parameter.name))


def is_tensor(parameter, known: bool) -> bool:
    """By annotation; without one by documentation, and by what its name does not say."""
    annotation = str(parameter.annotation)
    if parameter.annotation is not NOTHING:
        return "Tensor" in annotation
    if parameter.default is not NOTHING and parameter.default is not None:
        return False
    return known or not (
        _PLAIN.match(parameter.name)
        or parameter.name.startswith(("is_", "use_", "return_", "output_"))
    )


def _sequences(sizes: dict, annotation: str, name: str):
    """Where the packed sequences begin: real numbers, at odd places."""
    total = sizes["T"]
    cuts = [0, *(int(total * cut) for cut in _CUTS), total]
    dtype = torch.int64 if "LongTensor" in annotation else torch.int32
    return torch.tensor(cuts, dtype=dtype, device="cpu" if name.endswith("cpu") else "cuda")


def sequences() -> int:
    """How many sequences are packed into one."""
    return len(_CUTS) + 1


def _plain(operator, parameter, sizes: dict):
    name, annotation = parameter.name, str(parameter.annotation)
    if "dtype" in name:
        return torch.float32
    if "device" in name:
        return torch.device("cuda")
    if isinstance(parameter.default, bool) or annotation in (
        "bool",
        "<class 'bool'>",
        "Optional[bool]",
        "bool | None",
    ):
        return (
            True
            if parameter.default is False
            else bool(parameter.default) and parameter.default is not NOTHING
        )
    if name in _FLOATS or "float" in annotation:
        return _FLOATS.get(name, 1.0)
    offered = choices(operator, parameter)
    if offered:
        return offered[0]
    if "str" in annotation:
        return "none"
    if isinstance(parameter.default, (int, float)):
        return parameter.default
    return (
        size(name, sizes)
        if re.search(r"head|dim|hidden|seq|len|vocab|batch|^[A-Z]+$", name)
        else _MIDDLING
    )
