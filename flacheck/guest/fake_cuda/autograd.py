"""The public functions of torch.autograd, on top of the engine in Python."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from .engine import HOOKS, MATERIALIZES, OUTPUTS, BackwardPass, Edge, accumulate, edge


def _as_list(value: Any, length: int = 0) -> list[Any]:
    """Return a list of one or more tensors; for None, a list of `length` times None."""
    if value is None:
        return [None] * length
    if isinstance(value, (torch.Tensor, torch.autograd.graph.GradientEdge)):
        return [value]
    return list(value)


def _target(tensor: Any) -> Edge:
    if isinstance(tensor, torch.autograd.graph.GradientEdge):
        return tensor.node, tensor.output_nr
    return edge(tensor)


def _run(
    tensors: list[Any], gradients: list[Any], captures: list[Edge], create_graph: bool | None
) -> dict[Edge, Any]:
    """Return the gradients that arrive at the edges in `captures`."""
    roots = []
    for tensor, gradient in zip(tensors, gradients):
        if isinstance(tensor, torch.Tensor) and not tensor.requires_grad:
            raise RuntimeError(
                "element 0 of tensors does not require grad and does not have a grad_fn"
            )
        if gradient is None:
            gradient = torch.ones_like(tensor)
        roots.append((_target(tensor), gradient))
    backward_pass = BackwardPass(captures)
    outer, _running.number = _current_pass(), next(_numbers)
    try:
        with torch.set_grad_enabled(bool(create_graph)):
            backward_pass.run(roots)
    finally:
        _running.number = outer
    return backward_pass.captured_gradients


# The number of a thread's innermost pass: a pass may start another.
_running, _numbers = threading.local(), itertools.count()


def _current_pass() -> int:
    """Return the number of the current pass, -1 outside of one, as torch does.

    A checkpoint recomputes once for each number.
    """
    number: int = getattr(_running, "number", -1)
    return number


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    tensors = _as_list(tensors)
    leaves = _as_list(inputs)
    captures = [_target(tensor) for tensor in leaves]
    root_gradients = _as_list(grad_tensors, len(tensors))
    gradients_by_edge = _run(tensors, root_gradients, captures, create_graph)
    for tensor, target in zip(leaves, captures):
        accumulate(tensor, gradients_by_edge.get(target))


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Return the gradients of torch.autograd.grad, without batched gradients."""
    outputs, inputs = _as_list(outputs), _as_list(inputs)
    captures = [_target(tensor) for tensor in inputs]
    root_gradients = _as_list(grad_outputs, len(outputs))
    gradients_by_edge = _run(outputs, root_gradients, captures, create_graph)
    gradients = [gradients_by_edge.get(target) for target in captures]
    missing = [place for place, gradient in enumerate(gradients) if gradient is None]
    if materialize_grads:
        for place in missing:
            gradients[place] = torch.zeros_like(inputs[place])
    elif missing and not allow_unused:
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph."
        )
    return tuple(gradients)


def _tensor_backward(
    self: Any,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def _register_hook(self: Any, hook: Callable[[Any], Any]) -> Any:
    """Register a hook where this engine finds it: C++ hides the hooks of inner tensors."""
    if self.grad_fn is None:
        return _register_leaf_hook(self, hook)
    hooks = self.grad_fn.metadata.setdefault(HOOKS, OrderedDict())
    handle = torch.utils.hooks.RemovableHandle(hooks)
    hooks[handle.id] = (self.output_nr, hook)
    return handle


_register_leaf_hook = torch.Tensor.register_hook


def _retain_grad(self: Any) -> None:
    """Keep the gradient of an inner tensor, contiguous as in torch.

    Later passes add to it, so its form stays.
    """

    def keep(gradient: Any) -> None:
        self.grad = gradient.clone(memory_format=torch.contiguous_format)

    if self.grad_fn is not None:
        self.register_hook(keep)


def _set_materialize_grads(self: Any, value: bool) -> None:
    self.materialize_grads = value
    setattr(self, MATERIALIZES, value)


_plain_apply = torch.autograd.Function.apply.__func__


def _apply(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call torch.autograd.Function.apply, and store the forms of its outputs.

    C++ forgets the form of an output without a gradient.
    """
    result = _plain_apply(function, *args, **kwargs)
    outputs = result
    if not isinstance(result, tuple):
        outputs = (result,)
    forms, node = {}, None
    for index, output in enumerate(outputs):
        if isinstance(output, torch.Tensor):
            forms[index] = (output.shape, output.dtype, output.device)
            if node is None and isinstance(output.grad_fn, function._backward_cls):
                node = output.grad_fn
    if node is not None:
        setattr(node, OUTPUTS, forms)
    return result


def install() -> None:
    """Replace torch's functions by those of this module."""
    torch.autograd.Function.apply = classmethod(_apply)
    torch._C._current_graph_task_id = _current_pass
    torch.autograd.backward = backward
    torch.autograd.grad = grad
    torch.Tensor.backward = _tensor_backward
    torch.Tensor.register_hook = _register_hook
    torch.Tensor.retain_grad = _retain_grad
    torch.autograd.function.FunctionCtx.set_materialize_grads = _set_materialize_grads
