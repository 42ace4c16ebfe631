"""What the fake mode made of an operation once, made again without asking it.

References that loop over time steps run tens of thousands of small operations, of few kinds.
torch's own cache of them costs more than the rest together.
"""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

_aten = torch.ops.aten
_PLAIN = (
    type(None),
    bool,
    int,
    float,
    str,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)
_DEPENDENT = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
# Where in the whole a gradient goes makes no difference to the whole's form: (gradient, sizes, dim,
# where…).
_SCATTERING = (_aten.select_backward.default, _aten.slice_backward.default)


class _Unsuited(Exception):
    """An argument that a key cannot hold, or on which more than its form has an influence."""


class Shortcut:
    """Called with an operation in place of calling it."""

    def __init__(self, mode) -> None:
        self._mode = mode
        self._kinds: dict = {}
        self._forms: dict = {}

    def __call__(self, operator, args, kwargs):
        kind = self._kinds.get(operator) or self._kinds.setdefault(operator, _kind(operator))
        if kind == "other":
            return operator(*args, **kwargs)
        try:
            key = (
                operator,
                torch.get_default_dtype(),
                *_key(_formative(operator, args)),
                *_key(kwargs.items()),
            )
        except _Unsuited:
            return operator(*args, **kwargs)
        return (
            self._viewed(operator, args, kwargs)
            if kind == "view"
            else self._fresh(key, operator, args, kwargs)
        )

    def _viewed(self, operator, args, kwargs):
        """A view is cheap to make, only not to look up: its key would hold where it begins."""
        with in_kernel_invocation_manager(self._mode):
            view = operator(*args, **kwargs)
        device = args[0].fake_device
        if isinstance(view, torch.Tensor):
            return FakeTensor(self._mode, view, device)
        return type(view)(FakeTensor(self._mode, part, device) for part in view)

    def _fresh(self, key, operator, args, kwargs):
        form = self._forms.get(key)
        if form is None:
            result = operator(*args, **kwargs)
            self._forms[key] = _form(result, args) or ()
            return result
        if not form:
            return operator(*args, **kwargs)
        shape, stride, dtype, device = form
        with in_kernel_invocation_manager(self._mode):
            empty = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        return FakeTensor(self._mode, empty, device)


def _kind(operator) -> str:
    """`view`; `fresh` where one new tensor comes out whose form follows from the forms that go in;
    or `other`.
    """
    schema = operator._schema
    if (
        operator.namespace != "aten"
        or schema.is_mutable
        or any(tag in operator.tags for tag in _DEPENDENT)
    ):
        return "other"
    if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd"):
        return "other"  # in inference mode such arrive whole, and are not always what their schema says
    if operator.is_view:
        return "view"
    returns = [str(value.type) for value in schema.returns]
    takes = any("Tensor" in str(argument.type) for argument in schema.arguments)
    return "fresh" if takes and returns == ["Tensor"] else "other"


def _formative(operator, args):
    return args[:3] if operator in _SCATTERING else args


def _key(values) -> list:
    """Numbers with their types: 2 and 2.0 are equal, and their products are not."""
    key = []
    for value in values:
        kind = type(value)
        if kind is FakeTensor:
            key.append(_key_of_tensor(value))
        elif kind is list or kind is tuple:
            key.append(tuple(_key(value)))
        elif isinstance(value, _PLAIN):
            key.append((kind, value))
        else:
            raise _Unsuited
    return key


def _key_of_tensor(tensor) -> tuple:
    if tensor.constant is not None or tensor.layout is not torch.strided or tensor.dtype.is_complex:
        raise _Unsuited
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.fake_device


def _form(result, args) -> tuple | None:
    """None where the result may be one of the arguments in another form, or is no ordinary tensor."""
    if type(result) is not FakeTensor or result.constant is not None or result.storage_offset():
        return None
    if result.layout is not torch.strided or result.dtype.is_complex:
        return None
    storages = {a.untyped_storage()._cdata for a in args if isinstance(a, torch.Tensor)}
    if result.untyped_storage()._cdata in storages:
        return None
    return result.shape, result.stride(), result.dtype, result.fake_device
