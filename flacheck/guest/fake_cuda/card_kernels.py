"""The imitated card's kernels in torch's dispatcher, for operators that run outside of all modes.

torch's compiler switches its modes off where it computes with real tensors: it folds constants,
and it benchmarks. On the card those tensors are real. Here a new tensor on the card, and an
operation on one, enter the imitated card's modes again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_leaves

from .known_values import keep_zeros

_NAMESPACE = "aten"
_DEVICE = torch.ops.prim.device.default
_FAKE = torch._C._TorchDispatchModeKey.FAKE
_PYTHON_KEYS = (torch._C.DispatchKey.Python, torch._C.DispatchKey.PythonTLSSnapshot)
# Registrations end with these objects.
_card_library = torch.library.Library(_NAMESPACE, "IMPL", "CUDA")
_form_library = torch.library.Library(_NAMESPACE, "IMPL", "Meta")

Entered = Callable[[], AbstractContextManager[object]]


def install(mode: FakeTensorMode, entered: Entered) -> None:
    """Make the card's operators run inside of `entered`, whose tensors belong to `mode`."""
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("CPU"):
        namespace, _, operator = name.partition("::")
        if namespace == _NAMESPACE:
            _card_library.impl(operator, functools.partial(_run_inside, entered, operator))
    # torch computes the form of their results with the card.
    _form_library.impl("_thnn_fused_gru_cell", _gru_form)
    _form_library.impl("_thnn_fused_gru_cell_backward", _gru_backward_form)
    plain = FakeTensor.__torch_dispatch__

    @functools.wraps(plain)
    def dispatch(cls: Any, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if operator is not _DEVICE and _is_outside(mode, args, kwargs):
            with entered():
                return operator(*args, **kwargs)
        return plain(operator, types, args, kwargs)

    setattr(FakeTensor, "__torch_dispatch__", classmethod(dispatch))  # noqa: B010


def _run_inside(entered: Entered, name: str, *args: Any, **kwargs: Any) -> Any:
    """Run an operator on the card in the modes, although Python's kernels may be excluded."""
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in _PYTHON_KEYS:
        excluded = excluded.remove(key)
    included = torch._C._dispatch_tls_local_include_set()
    with torch._C._ForceDispatchKeyGuard(included, excluded), entered():
        result = operator(*args, **kwargs)
    # Later writes make a value of it, which the compiler reads where it folds constants.
    if packet.startswith("empty"):
        keep_zeros(result)
    return result


def _is_outside(mode: FakeTensorMode, args: Any, kwargs: Any) -> bool:
    """Return True if no fake mode is on, and the first fake tensor belongs to `mode`."""
    if torch._C._get_dispatch_mode(_FAKE) is not None or mode.in_kernel_invocation:
        return False
    for leaf in tree_leaves((args, kwargs)):
        if isinstance(leaf, FakeTensor):
            return leaf.fake_mode is mode
    return False


def _gru_form(
    input_gates: Any, hidden_gates: Any, state: Any, input_bias: Any = None, hidden_bias: Any = None
) -> tuple[Any, Any]:
    """Return the new state and the workspace, which has five parts of its width."""
    rows, width = state.shape
    return torch.empty_like(state), state.new_empty((rows, 5 * width))


def _gru_backward_form(grad_state: Any, workspace: Any, has_bias: bool) -> tuple[Any, ...]:
    """Return the gradients of both gates, the state and both biases."""
    rows, width = grad_state.shape
    gates = [workspace.new_empty((rows, 3 * width)) for _ in range(2)]
    biases: list[Any] = [None, None]
    if has_bias:
        biases = [workspace.new_empty((3 * width,)) for _ in range(2)]
    return (*gates, torch.empty_like(grad_state), *biases)
