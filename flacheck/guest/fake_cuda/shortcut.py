"""What the fake mode made of an operation once, made again without asking it. References that loop
over time steps run tens of thousands of small operations, of few kinds. torch's own cache of them
costs more than the rest together."""

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
# Where in the whole a gradient goes makes no difference to the whole's form: (gradient, sizes, dim,
# where…).
_SCATTERING = (_aten.select_backward.default, _aten.slice_backward.default)


class _Unsuited(Exception):
    """An argument that a key cannot hold, or on which more than its form has an influence."""


class Shortcut:
    """Called with an operation in place of calling it."""

    def __init__(self, mode: Any) -> None:
        self._mode = mode
        self._kinds: dict[Any, str] = {}
        self._forms: dict[tuple[Any, ...], tuple[Any, ...]] = {}

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
            given = (*_key(formative), *_key(kwargs.items()))
        except _Unsuited:
            return operator(*args, **kwargs)
        if kind != "view":
            key = (operator, torch.get_default_dtype(), *given)
            return self._fresh(key, operator, args, kwargs)
        # A view is cheap to make, only not to look up: its key would hold where it begins.
        with in_kernel_invocation_manager(self._mode):
            view = operator(*args, **kwargs)
        device = args[0].fake_device
        if isinstance(view, torch.Tensor):
            return FakeTensor(self._mode, view, device)
        return type(view)(FakeTensor(self._mode, part, device) for part in view)

    def _fresh(self, key: tuple[Any, ...], operator: Any, args: Any, kwargs: Any) -> Any:
        """A new tensor in the form that came out before; an empty form says that none will do."""
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
    """`view`; `fresh`: one new tensor whose form follows from the arguments', which it also does
    where there is no tensor among those; or `other`."""
    schema = operator._schema
    if operator.namespace != "aten" or schema.is_mutable:
        return "other"
    if any(tag in operator.tags for tag in _DEPENDENT):
        return "other"
    # In inference mode such arrive whole, and are not always what their schema says.
    if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd"):
        return "other"
    if operator.is_view:
        return "view"
    if [str(value.type) for value in schema.returns] == ["Tensor"]:
        return "fresh"
    return "other"


def _key(values: Iterable[Any]) -> list[Any]:
    """Numbers with their types: 2 and 2.0 are equal, and their products are not."""
    key: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is FakeTensor:
            if value.constant is not None or value.dtype.is_complex:
                raise _Unsuited
            if value.layout is not torch.strided:
                raise _Unsuited
            key.append((value.shape, value.stride(), value.dtype, value.fake_device))
        elif kind is list or kind is tuple:
            key.append(tuple(_key(value)))
        elif isinstance(value, _PLAIN):
            key.append((kind, value))
        else:
            raise _Unsuited
    return key


def _form(result: Any, args: Any) -> tuple[Any, ...]:
    """Empty where the result may be an argument in another form, or is no ordinary tensor."""
    if type(result) is not FakeTensor or result.constant is not None or result.storage_offset():
        return ()
    if result.layout is not torch.strided or result.dtype.is_complex:
        return ()
    storages = {a.untyped_storage()._cdata for a in args if isinstance(a, torch.Tensor)}
    if result.untyped_storage()._cdata in storages:
        return ()
    return result.shape, result.stride(), result.dtype, result.fake_device
