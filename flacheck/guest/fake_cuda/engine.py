"""Backward without a device: an autograd engine in Python.

The one in C++ asks the accelerator for streams before it adds two gradients, so with fake tensors
on a device that is not there it cannot run. This one walks the same graph in the same order and
calls the same nodes.
"""

from __future__ import annotations

import heapq

import torch

HOOKS = "flacheck.hooks"
MATERIALIZES = "_flacheck_materializes"
OUTPUTS = "_flacheck_outputs"


def edge(tensor):
    """Where a tensor's gradient goes: a node and which of its inputs."""
    if tensor.grad_fn is not None:
        return tensor.grad_fn, tensor.output_nr
    return torch.autograd.graph.get_gradient_edge(tensor).node, 0


class Pass:
    """One backward pass: gradients waiting at their nodes, nodes waiting for gradients."""

    def __init__(self, captures) -> None:
        self._waiting: dict = {}
        self._missing: dict = {}
        self._needed: set | None = None
        self._captures = captures
        self.captured: dict = {}

    def run(self, roots) -> None:
        for (node, index), gradient in roots:
            self._add(node, index, gradient)
        nodes = self._walk([node for (node, _), _ in roots])
        if self._captures:
            self._needed = _leading_to(nodes, {node for node, _ in self._captures})
        ready = [_entry(node) for node in self._waiting if not self._missing.get(node)]
        heapq.heapify(ready)
        while ready:
            node = heapq.heappop(ready)[-1]
            for following in self._step(node):
                heapq.heappush(ready, _entry(following))

    def _walk(self, stack) -> list:
        seen: dict = {}
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen[node] = True
            for following, _ in node.next_functions:
                if following is not None:
                    self._missing[following] = self._missing.get(following, 0) + 1
                    stack.append(following)
        return list(seen)

    def _add(self, node, index, gradient) -> None:
        held = self._waiting.setdefault(node, {})
        if gradient is not None:
            before = held.get(index)
            held[index] = gradient if before is None else before + gradient

    def _step(self, node) -> list:
        """Call a node; the nodes that have all their gradients now."""
        gradients = self._hooked(node, self._waiting.pop(node, {}))
        for wanted in self._captures:
            if wanted[0] is node:
                self.captured[wanted] = gradients.get(wanted[1])
        ready = []
        edges = [edge for edge in node.next_functions if edge[0] is not None]
        for (following, index), output in zip(edges, self._outputs(node, gradients, len(edges))):
            self._add(following, index, _fitting(following, index, output))
            self._missing[following] -= 1
            if not self._missing[following]:
                ready.append(following)
        return ready

    def _hooked(self, node, gradients: dict) -> dict:
        for index, hook in list(node.metadata.get(HOOKS, {}).values()):
            if gradients.get(index) is not None:
                changed = hook(gradients[index])
                gradients[index] = gradients[index] if changed is None else changed
        return gradients

    def _outputs(self, node, gradients: dict, edges: int) -> tuple:
        """A gradient for each edge that leads somewhere."""
        nothing = (None,) * edges
        if self._needed is not None and node not in self._needed:
            return nothing
        if not gradients and not hasattr(node, "apply"):
            return nothing  # a node written in Python is called all the same
        if hasattr(node, "variable"):
            if self._needed is None:
                accumulate(node.variable, gradients.get(0))
            return nothing
        return _leading_somewhere(node, _call(node, gradients)) + nothing


def _entry(node) -> tuple:
    """Last made first, as the C++ engine orders what is ready; leaves before all."""
    return (0 if hasattr(node, "variable") else 1, -node._sequence_nr(), id(node), node)


def _leading_to(nodes, wanted) -> set:
    """The nodes that must be called for gradients to reach the wanted ones."""
    before: dict = {}
    for node in nodes:
        for following, _ in node.next_functions:
            if following is not None:
                before.setdefault(following, []).append(node)
    found, stack = set(), list(wanted)
    while stack:
        for node in before.get(stack.pop(), ()):
            if node not in found:
                found.add(node)
                stack.append(node)
    return found


def accumulate(leaf, gradient) -> None:
    if gradient is None:
        return
    for hook in (leaf._backward_hooks or {}).values():
        changed = hook(gradient)
        gradient = gradient if changed is None else changed
    leaf.grad = _laid_out(gradient, leaf) if leaf.grad is None else leaf.grad + gradient
    for hook in (getattr(leaf, "_post_accumulate_grad_hooks", None) or {}).values():
        hook(leaf)


def _laid_out(gradient, leaf):
    """A first gradient has its parameter's strides, where those leave no gaps, and else is
    contiguous.
    """
    if gradient is leaf:
        return gradient.detach().clone()
    dense = torch._prims_common.is_non_overlapping_and_dense_or_false(leaf)
    strides = leaf.stride() if dense else torch.empty(leaf.shape, device="meta").stride()
    if gradient.layout is not torch.strided or gradient.stride() == strides:
        return gradient
    return torch.empty_strided(
        leaf.shape, strides, dtype=gradient.dtype, device=gradient.device
    ).copy_(gradient)


def _call(node, gradients: dict):
    """A node of C++ takes missing gradients as None; one written in Python gets zeros, unless it
    said otherwise, for each output that was a tensor.
    """
    given = [gradients.get(index) for index in range(len(node._input_metadata))]
    if not hasattr(node, "apply"):
        return node(*given)
    if getattr(node, MATERIALIZES, True):
        for index, (shape, dtype, device) in getattr(node, OUTPUTS, {}).items():
            if given[index] is None:
                given[index] = torch.zeros(shape, dtype=dtype, device=device)
    return node.apply(*given)


def _leading_somewhere(node, outputs) -> tuple:
    """A node written in Python returns something for every argument, tensors or not; only some have
    an edge.
    """
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    if hasattr(node, "apply"):
        wanted = node.needs_input_grad
    else:
        wanted = [following is not None for following, _ in node.next_functions]
    return tuple(output for output, want in zip(outputs, wanted) if want)


def _fitting(node, index, gradient):
    """The gradient in the shape and dtype that the forward pass had there."""
    metadata = node._input_metadata
    if gradient is None or index >= len(metadata) or metadata[index] is None:
        return gradient
    shape, dtype = tuple(metadata[index].shape), metadata[index].dtype
    if tuple(gradient.shape) != shape:
        gradient = gradient.sum_to_size(shape)
    return gradient if gradient.dtype == dtype else gradient.to(dtype)
