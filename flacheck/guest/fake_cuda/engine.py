"""Backward without a device: an autograd engine in Python. The one in C++ asks the accelerator for
streams before it adds two gradients, so with fake tensors on a device that is not there it cannot
run. This one walks the same graph in the same order and calls the same nodes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

import torch

# What C++ keeps to itself is hung on nodes: hooks in a node's metadata, attributes of functions
# written in Python.
HOOKS = "flacheck.hooks"
MATERIALIZES = "_flacheck_materializes"
OUTPUTS = "_flacheck_outputs"

# A node of torch's graph: of C++, without a type, or made for a function written in Python.
Node = Any
# A node and which of its inputs: where a gradient goes.
Edge = tuple[Node, int]
# Gradients of a node's inputs, by their numbers.
Gradients = dict[int, Any]


def edge(tensor: torch.Tensor) -> Edge:
    """Where a tensor's gradient goes."""
    if tensor.grad_fn is not None:
        return tensor.grad_fn, tensor.output_nr
    return torch.autograd.graph.get_gradient_edge(tensor).node, 0


class BackwardPass:
    """One backward pass: gradients waiting at their nodes, nodes waiting for gradients. `captured`
    are the gradients that arrived at edges asked for; then only nodes before them are called."""

    def __init__(self, captures: list[Edge]) -> None:
        self._waiting: dict[Node, Gradients] = {}
        self._missing: dict[Node, int] = {}
        self._needed: set[Node] | None = None
        self._captures = captures
        self.captured: dict[Edge, Any] = {}

    def run(self, roots: list[tuple[Edge, Any]]) -> None:
        """From the roots, each with its gradient, to the leaves."""
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

    def _walk(self, stack: list[Node]) -> list[Node]:
        """All nodes of the graph; counts how many gradients each will get."""
        nodes: dict[Node, None] = {}
        while stack:
            node = stack.pop()
            if node in nodes:
                continue
            nodes[node] = None
            for following in _following(node):
                self._missing[following] = self._missing.get(following, 0) + 1
                stack.append(following)
        return list(nodes)

    def _add(self, node: Node, index: int, gradient: Any) -> None:
        held = self._waiting.setdefault(node, {})
        if gradient is not None and held.get(index) is not None:
            gradient = held[index] + gradient
        if gradient is not None:
            held[index] = gradient

    def _step(self, node: Node) -> list[Node]:
        """Call a node; the nodes that have all their gradients now."""
        gradients = self._waiting.pop(node, {})
        for index, hook in list(node.metadata.get(HOOKS, {}).values()):
            if gradients.get(index) is not None:
                changed = hook(gradients[index])
                if changed is not None:
                    gradients[index] = changed
        for wanted in self._captures:
            if wanted[0] is node:
                self.captured[wanted] = gradients.get(wanted[1])
        ready = []
        edges = [edge for edge in node.next_functions if edge[0] is not None]
        # A node that is not called still is one gradient less to wait for.
        outputs = [*self._outputs(node, gradients), *[None] * len(edges)]
        for (following, index), output in zip(edges, outputs):
            self._add(following, index, _fitting(following, index, output))
            self._missing[following] -= 1
            if not self._missing[following]:
                ready.append(following)
        return ready

    def _outputs(self, node: Node, gradients: Gradients) -> tuple[Any, ...]:
        """The gradients of the edges that lead somewhere; none where the node is not called."""
        if self._needed is not None and node not in self._needed:
            return ()
        # A node written in Python is called without gradients too.
        if not gradients and not hasattr(node, "apply"):
            return ()
        if hasattr(node, "variable"):
            if self._needed is None:
                accumulate(node.variable, gradients.get(0))
            return ()
        outputs = _call(node, gradients)
        if not isinstance(outputs, tuple):
            outputs = (outputs,)
        # A function in Python returns something for every argument; only some have an edge.
        wanted = [following is not None for following, _ in node.next_functions]
        if hasattr(node, "apply"):
            wanted = node.needs_input_grad
        return tuple(output for output, want in zip(outputs, wanted) if want)


def _following(node: Node) -> list[Node]:
    return [following for following, _ in node.next_functions if following is not None]


def _entry(node: Node) -> tuple[bool, int, int, Node]:
    """Last made first, as the C++ engine orders what is ready; leaves before all."""
    # The id keeps nodes themselves from being compared.
    return not hasattr(node, "variable"), -node._sequence_nr(), id(node), node


def _leading_to(nodes: Iterable[Node], wanted: set[Node]) -> set[Node]:
    """The nodes that must be called for gradients to reach the wanted ones."""
    before: dict[Node, list[Node]] = {}
    for node in nodes:
        for following in _following(node):
            before.setdefault(following, []).append(node)
    needed: set[Node] = set()
    stack = list(wanted)
    while stack:
        for node in before.get(stack.pop(), ()):
            if node not in needed:
                needed.add(node)
                stack.append(node)
    return needed


def accumulate(leaf: torch.Tensor, gradient: Any) -> None:
    """Add to a leaf's gradient, with its hooks before and after, as torch calls them."""
    if gradient is None:
        return
    for hook in (leaf._backward_hooks or {}).values():
        changed = hook(gradient)
        if changed is not None:
            gradient = changed
    if leaf.grad is None:
        leaf.grad = _laid_out(gradient, leaf)
    else:
        leaf.grad = leaf.grad + gradient
    for hook in (getattr(leaf, "_post_accumulate_grad_hooks", None) or {}).values():
        hook(leaf)


def _laid_out(gradient: Any, leaf: torch.Tensor) -> Any:
    """A first gradient has its parameter's strides where those leave no gaps."""
    if gradient is leaf:
        return gradient.detach().clone()
    strides = leaf.stride()
    if not torch._prims_common.is_non_overlapping_and_dense_or_false(leaf):
        strides = torch.empty(leaf.shape, device="meta").stride()
    if gradient.layout is not torch.strided or gradient.stride() == strides:
        return gradient
    form = {"dtype": gradient.dtype, "device": gradient.device}
    return torch.empty_strided(leaf.shape, strides, **form).copy_(gradient)


def _call(node: Node, gradients: Gradients) -> Any:
    """A node of C++ takes missing gradients as None; one written in Python gets zeros, unless it
    said otherwise, for each output that was a tensor."""
    given = [gradients.get(index) for index in range(len(node._input_metadata))]
    if not hasattr(node, "apply"):
        return node(*given)
    if getattr(node, MATERIALIZES, True):
        for index, (shape, dtype, device) in getattr(node, OUTPUTS, {}).items():
            if given[index] is None:
                given[index] = torch.zeros(shape, dtype=dtype, device=device)
    return node.apply(*given)


def _fitting(node: Node, index: int, gradient: Any) -> Any:
    """The gradient in the shape and dtype that the forward pass had there."""
    metadata = node._input_metadata
    if gradient is None or index >= len(metadata) or metadata[index] is None:
        return gradient
    shape, dtype = tuple(metadata[index].shape), metadata[index].dtype
    if tuple(gradient.shape) != shape:
        gradient = gradient.sum_to_size(shape)
    if gradient.dtype != dtype:
        gradient = gradient.to(dtype)
    return gradient
