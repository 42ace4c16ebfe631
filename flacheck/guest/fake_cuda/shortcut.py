"""A cache of the fake mode's results by operation and argument forms.

References that loop over time steps run tens of thousands of small operations of few kinds. torch's
own cache of them costs more than everything else together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

_aten = torch.ops.aten
_PLAIN = (
    *(type(None), bool, int, float, str),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
_DEPENDENT = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
# The position of the gradient in the whole does not affect the form of the result: (gradient,
# sizes, dim, position…).
_SCATTERING = (_aten.select_backward.default, _aten.slice_backward.default)


_Parts = tuple[Any, ...]


class _UnkeyableValue(Exception):
    """An argument that does not fit a key, or whose form alone does not decide the result."""


class Shortcut:
    """A callable that runs an operation, from the cache if possible."""

    def __init__(self, mode: Any) -> None:
        self._mode = mode
        self._kinds: dict[Any, str] = {}
        self._forms: dict[_Parts, _Parts] = {}

    def __call__(self, operator: Any, args: Any, kwargs: Any) -> Any:
        kind = self._kinds.get(operator)
        if kind is None:
            kind = self._kinds[operator] = _kind(operator)
        if kind == "other":
            return operator(*args, **kwargs)
        formative = args
        if operator in _SCATTERING:
            formative = args[:3]
        try:
            arguments_key = _key(formative) + _key(kwargs.items())
        except _UnkeyableValue:
            return operator(*args, **kwargs)
        if kind != "view":
            key = (operator, torch.get_default_dtype(), *arguments_key)
            return self._fresh(key, operator, args, kwargs)
        # A view is cheap to make but not to look up: its key would contain its offset.
        with in_kernel_invocation_manager(self._mode):
            view = operator(*args, **kwargs)
        device = args[0].fake_device
        if isinstance(view, torch.Tensor):
            return FakeTensor(self._mode, view, device)
        parts = [FakeTensor(self._mode, part, device) for part in view]
        return type(view)(parts)

    def _fresh(self, key: _Parts, operator: Any, args: Any, kwargs: Any) -> Any:
        """Return a new tensor in the cached form; an empty form marks an uncacheable result."""
        form = self._forms.get(key)
        if not form:
            result = operator(*args, **kwargs)
            if form is None:
                self._forms[key] = _form(result, args)
            return result
        shape, stride, dtype, device = form
        with in_kernel_invocation_manager(self._mode):
            empty = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        return FakeTensor(self._mode, empty, device)


def _kind(operator: Any) -> str:
    """Return the kind of an operation: `view`, `fresh` or `other`.

    A `fresh` operation returns one new tensor whose form follows from those of the arguments, even
    without a tensor among them.
    """
    schema = operator._schema
    if operator.namespace != "aten" or schema.is_mutable:
        return "other"
    if any(tag in operator.tags for tag in _DEPENDENT):
        return "other"
    # In inference mode such operators arrive undecomposed, and do not always match their schema.
    if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd"):
        return "other"
    if operator.is_view:
        return "view"
    if [str(value.type) for value in schema.returns] == ["Tensor"]:
        return "fresh"
    return "other"


def _key(values: Iterable[Any]) -> list[Any]:
    """Return the key parts of values; numbers with their types, because 2 equals 2.0."""
    key: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is FakeTensor:
            if value.constant is not None or value.dtype.is_complex:
                raise _UnkeyableValue
            if value.layout is not torch.strided:
                raise _UnkeyableValue
            form = value.shape, value.stride(), value.dtype
            key.append((*form, value.fake_device))
        elif kind is list or kind is tuple:
            key.append(tuple(_key(value)))
        elif isinstance(value, _PLAIN):
            key.append((kind, value))
        else:
            raise _UnkeyableValue
    return key


def _form(result: Any, args: Any) -> _Parts:
    """Return the form of a result.

    It is empty if the result may be an argument in another form, or is not an ordinary tensor.
    """
    if type(result) is not FakeTensor or result.constant is not None:
        return ()
    if result.storage_offset() or result.dtype.is_complex:
        return ()
    if result.layout is not torch.strided:
        return ()
    storage = result.untyped_storage()._cdata
    for argument in args:
        is_tensor = isinstance(argument, torch.Tensor)
        if is_tensor and argument.untyped_storage()._cdata == storage:
            return ()
    return result.shape, result.stride(), result.dtype, result.fake_device
