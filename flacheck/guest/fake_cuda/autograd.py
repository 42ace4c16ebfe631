"""What of torch.autograd a program calls, over the engine in Python: backward, grad, hooks, and
custom functions.
"""

from __future__ import annotations

import contextlib
import itertools
import threading

import torch

from .engine import HOOKS, MATERIALIZES, OUTPUTS, Pass, accumulate, edge


def _listed(value, length=None) -> list:
    if value is None:
        return [None] * (length or 0)
    return (
        [value]
        if isinstance(value, (torch.Tensor, torch.autograd.graph.GradientEdge))
        else list(value)
    )


def _target(tensor):
    if isinstance(tensor, torch.autograd.graph.GradientEdge):
        return tensor.node, tensor.output_nr
    return edge(tensor)


def _run(tensors, gradients, captures, create_graph) -> dict:
    roots = []
    for tensor, gradient in zip(tensors, gradients):
        if isinstance(tensor, torch.Tensor) and not tensor.requires_grad:
            raise RuntimeError(
                "element 0 of tensors does not require grad and does not have a grad_fn"
            )
        roots.append((_target(tensor), torch.ones_like(tensor) if gradient is None else gradient))
    backward = Pass(captures)
    with _numbered(), torch.set_grad_enabled(bool(create_graph)):
        backward.run(roots)
    return backward.captured


class _Running(threading.local):
    """The numbers of the passes under way on this thread: a pass may begin another."""

    def __init__(self) -> None:
        self.passes: list[int] = []


_running, _numbers = _Running(), itertools.count()


@contextlib.contextmanager
def _numbered():
    """A checkpoint computes again once for each pass, by its number."""
    _running.passes.append(next(_numbers))
    try:
        yield
    finally:
        _running.passes.pop()


def _current_pass() -> int:
    return _running.passes[-1] if _running.passes else -1


def backward(
    tensors,
    grad_tensors=None,
    retain_graph=None,
    create_graph=False,
    grad_variables=None,
    inputs=None,
) -> None:
    """torch.autograd.backward."""
    tensors = _listed(tensors)
    wanted = _listed(inputs)
    captures = [_target(tensor) for tensor in wanted]
    found = _run(tensors, _listed(grad_tensors, len(tensors)), captures, create_graph)
    for tensor, place in zip(wanted, captures):
        accumulate(tensor, found.get(place))


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
) -> tuple:
    """torch.autograd.grad, without batched gradients."""
    outputs, inputs = _listed(outputs), _listed(inputs)
    captures = [_target(tensor) for tensor in inputs]
    found = _run(outputs, _listed(grad_outputs, len(outputs)), captures, create_graph)
    gradients = [found.get(place) for place in captures]
    if materialize_grads:
        gradients = [torch.zeros_like(t) if g is None else g for t, g in zip(inputs, gradients)]
    elif not allow_unused and any(gradient is None for gradient in gradients):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph."
        )
    return tuple(gradients)


def _tensor_backward(
    self, gradient=None, retain_graph=None, create_graph=False, inputs=None
) -> None:
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


class _Handle:
    def __init__(self, hooks: dict, key: int) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> None:
        self._hooks.pop(self._key, None)

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.remove()


def _register_hook(self, hook):
    """Kept where this engine finds it: C++ keeps hooks of inner tensors to itself."""
    if self.grad_fn is None:
        return _register_leaf_hook(self, hook)
    hooks = self.grad_fn.metadata.setdefault(HOOKS, {})
    key = max(hooks, default=-1) + 1
    hooks[key] = (self.output_nr, hook)
    return _Handle(hooks, key)


_register_leaf_hook = torch.Tensor.register_hook


def _retain_grad(self) -> None:
    if self.grad_fn is not None:
        self.register_hook(lambda gradient: setattr(self, "grad", gradient))


def _set_materialize_grads(self, value: bool) -> None:
    self.materialize_grads = value
    setattr(self, MATERIALIZES, value)


_plain_apply = torch.autograd.Function.apply.__func__


def _apply(function, *args, **kwargs):
    """torch.autograd.Function.apply; C++ keeps to itself what the outputs were that have no
    gradient.
    """
    result = _plain_apply(function, *args, **kwargs)
    outputs = result if isinstance(result, tuple) else (result,)
    tensors = {
        index: output for index, output in enumerate(outputs) if isinstance(output, torch.Tensor)
    }
    nodes = (output.grad_fn for output in tensors.values())
    node = next((node for node in nodes if isinstance(node, function._backward_cls)), None)
    if node is not None:
        setattr(
            node, OUTPUTS, {index: (t.shape, t.dtype, t.device) for index, t in tensors.items()}
        )
    return result


def install() -> None:
    torch.autograd.Function.apply = classmethod(_apply)
    torch._C._current_graph_task_id = _current_pass
    torch.autograd.backward = backward
    torch.autograd.grad = grad
    torch.Tensor.backward = _tensor_backward
    torch.Tensor.register_hook = _register_hook
    torch.Tensor.retain_grad = _retain_grad
    torch.autograd.function.FunctionCtx.set_materialize_grads = _set_materialize_grads
