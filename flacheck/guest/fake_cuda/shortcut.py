"""A cache of the fake mode's results by operation and argument forms.

References that loop over time steps run tens of thousands of small operations of few kinds. torch's
own cache of them costs more than everything else together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..engine.outcomes import outcome_of

_aten = torch.ops.aten
_PLAIN = (
    *(type(None), bool, int, float, str),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
_DEPENDENT = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
# The position of the gradient in the whole does not affect the form of the result: (gradient,
# sizes, dim, position…).
_SCATTERING = (_aten.select_backward.default, _aten.slice_backward.default)
# Operations whose result shares the memory of their argument, although they are not views.
_ALIASING = (_aten._unsafe_view.default,)
# In-place operations that change the form of their tensor without being views.
_RESIZING = ("resize", "set_", "swap")
# Operations whose form the meta device computes exactly, in a fraction of the fake mode's time.
_LIKE = {
    _aten.empty_like.default,
    _aten.zeros_like.default,
    _aten.full_like.default,
    _aten.ones_like.default,
    _aten.new_empty.default,
    _aten.new_zeros.default,
    _aten.clone.default,
    _aten._to_copy.default,
    _aten.mm.default,
    _aten.bmm.default,
    _aten.addmm.default,
    _aten.mul.Tensor,
    _aten.add.Tensor,
    _aten.sub.Tensor,
    _aten.div.Tensor,
    _aten.sum.dim_IntList,
    _aten.neg.default,
    _aten.exp.default,
    _aten.sigmoid.default,
}
# Of these the second operand may be a number, which the fake mode treats in its own way.
_BINARY = {_aten.mul.Tensor, _aten.add.Tensor, _aten.sub.Tensor, _aten.div.Tensor}
_FACTORIES = {
    _aten.empty.memory_format,
    _aten.zeros.default,
    _aten.ones.default,
    _aten.full.default,
    _aten.randn.default,
}
_META = torch.device("meta")
# torch's own function: the fake device replaces the one in `torch`.
_empty_strided: Any = getattr(torch._C, "_VariableFunctions").empty_strided  # noqa: B009

_Parts = tuple[Any, ...]


class _UnkeyableValue(Exception):
    """An argument that does not fit a key, or whose form alone does not decide the result."""


class Shortcut:
    """A callable that runs an operation, from the cache if possible."""

    def __init__(self, mode: Any) -> None:
        self._mode = mode
        self._kinds: dict[Any, str] = {}
        self._forms: dict[_Parts, _Parts] = {}
        # The keys of in-place operations that succeeded.
        self._successful_writes: set[_Parts] = set()
        # The attributes of new fake tensors by device.
        self._attributes: dict[torch.device, dict[str, Any]] = {}

    def __call__(self, operator: Any, args: Any, kwargs: Any) -> Any:
        kind = self._kinds.get(operator)
        if kind is None:
            kind = self._kinds[operator] = _kind(operator)
        if kind == "other":
            return operator(*args, **kwargs)
        if kind == "view":
            return self._view(operator, args, kwargs)
        formative = args
        if operator in _SCATTERING:
            formative = args[:3]
        try:
            arguments_key = _key(formative) + _key(kwargs.items())
        except _UnkeyableValue:
            return operator(*args, **kwargs)
        key = (operator, torch.get_default_dtype(), *arguments_key)
        if kind == "in place":
            return self._write(key, operator, args, kwargs)
        return self._fresh(key, operator, args, kwargs)

    def _view(self, operator: Any, args: Any, kwargs: Any) -> Any:
        """Return a view, which is cheap to make but not to look up: a key has its offset."""
        base = args[0]
        if type(base) is not FakeTensor or not _is_ordinary(base):
            return operator(*args, **kwargs)
        view = self._on_meta(operator, args, kwargs)
        device = base.fake_device
        if isinstance(view, torch.Tensor):
            return self._wrap(view, device)
        parts = [self._wrap(part, device) for part in view]
        return type(view)(parts)

    def _fresh(self, key: _Parts, operator: Any, args: Any, kwargs: Any) -> Any:
        """Return a new tensor in the cached form; an empty form marks an uncacheable result."""
        form = self._forms.get(key)
        if form is None:
            form = self._meta_form(operator, args, kwargs)
            if form is not None:
                self._forms[key] = form
        if not form:
            result = operator(*args, **kwargs)
            if form is None:
                self._forms[key] = _form(result, args)
            return result
        shape, stride, dtype, device = form
        with torch._C._DisableTorchDispatch():
            empty = _empty_strided(shape, stride, dtype=dtype, device=_META)
        return self._wrap(empty, device)

    def _write(self, key: _Parts, operator: Any, args: Any, kwargs: Any) -> Any:
        """Run an in-place operation, which leaves a tensor its form."""
        if key in self._successful_writes:
            return args[0]
        result = operator(*args, **kwargs)
        if result is args[0]:
            self._successful_writes.add(key)
        return result

    def _meta_form(self, operator: Any, args: Any, kwargs: Any) -> _Parts | None:
        """Return the form of a result by the meta device; None where only the fake mode can tell.

        The fake mode also raises the errors.
        """
        device = kwargs.get("device")
        if operator in _LIKE and device is None:
            if operator in _BINARY and type(args[1]) is not FakeTensor:
                return None
            device = args[0].fake_device
            for argument in args:
                if type(argument) is FakeTensor and argument.fake_device != device:
                    return None
        elif operator in _FACTORIES and isinstance(device, torch.device):
            kwargs = {**kwargs, "device": _META}
        else:
            return None
        if device.type != "cuda" or kwargs.get("layout") not in (None, torch.strided):
            return None
        result, _ = outcome_of(lambda: self._on_meta(operator, args, kwargs))
        # After an error the operation runs in full, and raises its own.
        if result is None or result.dtype.is_complex:
            return None
        return result.shape, result.stride(), result.dtype, torch.device("cuda", device.index or 0)

    def _on_meta(self, operator: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation on the meta tensors in fake tensors, as the fake mode itself does."""
        mode = self._mode
        previous = mode.in_kernel_invocation
        with torch._C._DisableTorchDispatch(), torch._C._PreserveDispatchKeyGuard():
            mode.in_kernel_invocation = True
            torch._C._set_meta_in_tls_dispatch_include(True)
            try:
                return operator(*args, **kwargs)
            finally:
                mode.in_kernel_invocation = previous

    def _wrap(self, meta: Any, device: torch.device) -> Any:
        """Return a fake tensor on a device.

        The constructor examines its arguments at length, so that it runs for the first only.
        """
        attributes = self._attributes.get(device)
        if attributes is None:
            tensor: Any = FakeTensor(self._mode, meta, device)
            self._attributes[device] = dict(vars(tensor))
            return tensor
        tensor = torch.Tensor._make_subclass(
            FakeTensor,
            meta,
            meta.requires_grad,
            dispatch_device=True,
            device_for_backend_keys=device,
        )
        torch._C._set_throw_on_mutable_data_ptr(tensor)
        vars(tensor).update(attributes)
        return tensor


def _kind(operator: Any) -> str:
    """Return the kind of an operation: `view`, `fresh`, `in place` or `other`.

    A `fresh` operation returns one new tensor whose form follows from those of the arguments, even
    without a tensor among them. An `in place` operation writes only into its first argument.
    """
    schema = operator._schema
    if operator.namespace != "aten":
        return "other"
    if any(tag in operator.tags for tag in _DEPENDENT):
        return "other"
    # In inference mode such operators arrive undecomposed, and do not always match their schema.
    if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd"):
        return "other"
    if schema.is_mutable:
        if _is_in_place(operator):
            return "in place"
        return "other"
    if operator.is_view or operator in _ALIASING:
        return "view"
    if [str(value.type) for value in schema.returns] == ["Tensor"]:
        return "fresh"
    return "other"


def _is_in_place(operator: Any) -> bool:
    """Return True if an operation writes into its first argument alone and keeps its form."""
    schema = operator._schema
    name = schema.name.rpartition(":")[2]
    if torch.Tag.inplace_view in operator.tags or name.startswith(_RESIZING):
        return False
    writes = [bool(each.alias_info and each.alias_info.is_write) for each in schema.arguments]
    if not name.endswith("_") or not writes[0] or any(writes[1:]):
        return False
    return [str(value.type) for value in schema.returns] == ["Tensor"]


def _key(values: Iterable[Any]) -> list[Any]:
    """Return the key parts of values; numbers with their types, because 2 equals 2.0."""
    key: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is FakeTensor:
            if not _is_ordinary(value):
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


def _is_ordinary(tensor: Any) -> bool:
    """Return True unless a fake tensor has a constant or a form that a key does not describe."""
    if tensor.constant is not None or tensor.layout is not torch.strided:
        return False
    return not tensor.dtype.is_complex


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
