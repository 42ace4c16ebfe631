"""An autograd engine in Python, for a backward pass without a device.

The engine in C++ uses the accelerator's streams to add two gradients, so it cannot run with fake
tensors on an imitated device. This engine walks the same graph in the same order and calls the same
nodes.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch

# State that C++ hides is stored on nodes: hooks in a node's metadata, and attributes of functions
# written in Python.
HOOKS = "flacheck.hooks"
MATERIALIZES = "_flacheck_materializes"
OUTPUTS = "_flacheck_outputs"

# A node of torch's graph: from C++, without a type, or of a function written in Python.
Node = Any
# A node and the index of one of its inputs: the destination of a gradient.
Edge = tuple[Node, int]
# Gradients of a node's inputs, by index.
Gradients = dict[int, Any]


def edge(tensor: torch.Tensor) -> Edge:
    """Return the destination of a tensor's gradient."""
    if tensor.grad_fn is not None:
        return tensor.grad_fn, tensor.output_nr
    return torch.autograd.graph.get_gradient_edge(tensor).node, 0


class BackwardPass:
    """One backward pass: gradients that wait at their nodes, nodes that wait for gradients.

    `captured_gradients` are those that arrived at the requested edges. With such edges, only the
    nodes before them are called.
    """

    def __init__(self, captures: list[Edge]) -> None:
        self._waiting: dict[Node, Gradients] = {}
        self._missing: Counter[Node] = Counter()
        self._needed: set[Node] | None = None
        self._captures = captures
        self.captured_gradients: dict[Edge, Any] = {}

    def run(self, roots: list[tuple[Edge, Any]]) -> None:
        """Run from the roots, each with its gradient, to the leaves."""
        for (node, index), gradient in roots:
            self._add(node, index, gradient)
        root_nodes = [node for (node, _), _ in roots]
        nodes = self._walk(root_nodes)
        if self._captures:
            targets = {node for node, _ in self._captures}
            self._needed = _leading_to(nodes, targets)
        ready = []
        for node in self._waiting:
            if not self._missing[node]:
                ready.append(_entry(node))
        heapq.heapify(ready)
        while ready:
            node = heapq.heappop(ready)[-1]
            for following in self._step(node):
                heapq.heappush(ready, _entry(following))

    def _walk(self, stack: list[Node]) -> list[Node]:
        """Return all nodes of the graph, and count the gradients that each will get."""
        nodes: dict[Node, None] = {}
        while stack:
            node = stack.pop()
            if node in nodes:
                continue
            nodes[node] = None
            for following in _following(node):
                self._missing[following] += 1
                stack.append(following)
        return list(nodes)

    def _add(self, node: Node, index: int, gradient: Any) -> None:
        gradients = self._waiting.setdefault(node, {})
        if gradient is None:
            return
        earlier = gradients.get(index)
        if earlier is not None:
            gradient = earlier + gradient
        gradients[index] = gradient

    def _step(self, node: Node) -> list[Node]:
        """Call a node; return the nodes that now have all their gradients."""
        gradients = self._waiting.pop(node, {})
        hooks = node.metadata.get(HOOKS, {})
        for index, hook in list(hooks.values()):
            if gradients.get(index) is not None:
                replacement = hook(gradients[index])
                if replacement is not None:
                    gradients[index] = replacement
        for target in self._captures:
            if target[0] is node:
                self.captured_gradients[target] = gradients.get(target[1])
        ready = []
        edges = [edge for edge in node.next_functions if edge[0] is not None]
        # A node that is not called still sends a (missing) gradient.
        outputs = list(self._outputs(node, gradients))
        outputs += [None] * len(edges)
        for (following, index), output in zip(edges, outputs):
            gradient = _fitting(following, index, output)
            self._add(following, index, gradient)
            self._missing[following] -= 1
            if not self._missing[following]:
                ready.append(following)
        return ready

    def _outputs(self, node: Node, gradients: Gradients) -> tuple[Any, ...]:
        """Return the gradients for the node's edges; none if the node is not called."""
        if self._needed is not None and node not in self._needed:
            return ()
        # A node written in Python is called even without gradients.
        if not gradients and not hasattr(node, "apply"):
            return ()
        if hasattr(node, "variable"):
            if self._needed is None:
                accumulate(node.variable, gradients.get(0))
            return ()
        outputs = _call(node, gradients)
        if not isinstance(outputs, tuple):
            outputs = (outputs,)
        # A function in Python returns a value for every argument, and only some have an edge.
        has_edge = [following is not None for following, _ in node.next_functions]
        if hasattr(node, "apply"):
            has_edge = node.needs_input_grad
        return tuple(itertools.compress(outputs, has_edge))


def _following(node: Node) -> list[Node]:
    return [following for following, _ in node.next_functions if following is not None]


def _entry(node: Node) -> tuple[bool, int, int, Node]:
    """Return a heap entry: leaves first, then the last made node, as in the C++ engine."""
    # The id prevents a comparison of the nodes themselves.
    is_inner = not hasattr(node, "variable")
    return is_inner, -node._sequence_nr(), id(node), node


def _leading_to(nodes: Iterable[Node], targets: set[Node]) -> set[Node]:
    """Return the nodes that must be called for gradients to reach the targets."""
    before: dict[Node, list[Node]] = {}
    for node in nodes:
        for following in _following(node):
            before.setdefault(following, []).append(node)
    nodes_before: set[Node] = set()
    stack = list(targets)
    while stack:
        for node in before.get(stack.pop(), ()):
            if node not in nodes_before:
                nodes_before.add(node)
                stack.append(node)
    return nodes_before


def accumulate(leaf: torch.Tensor, gradient: Any) -> None:
    """Add to a leaf's gradient, with its hooks before and after, as torch does."""
    if gradient is None:
        return
    hooks: Any = leaf._backward_hooks or {}
    for hook in hooks.values():
        replacement = hook(gradient)
        if replacement is not None:
            gradient = replacement
    if leaf.grad is None:
        leaf.grad = _with_strides(gradient, leaf)
    else:
        leaf.grad = leaf.grad + gradient
    hooks = getattr(leaf, "_post_accumulate_grad_hooks", None) or {}
    for hook in hooks.values():
        hook(leaf)


def _with_strides(gradient: Any, leaf: torch.Tensor) -> Any:
    """Return a first gradient with its parameter's strides, if those leave no gaps."""
    if gradient is leaf:
        return gradient.detach().clone()
    strides = leaf.stride()
    is_dense = torch._prims_common.is_non_overlapping_and_dense_or_false(leaf)
    if not is_dense:
        strides = torch.empty(leaf.shape, device="meta").stride()
    if gradient.layout is not torch.strided or gradient.stride() == strides:
        return gradient
    form = {"dtype": gradient.dtype, "device": gradient.device}
    return torch.empty_strided(leaf.shape, strides, **form).copy_(gradient)


def _call(node: Node, gradients: Gradients) -> Any:
    """Call a node with its gradients.

    A C++ node takes missing gradients as None. A node written in Python gets zeros for each output
    that was a tensor, unless the node disabled that.
    """
    count = len(node._input_metadata)
    inputs = [gradients.get(index) for index in range(count)]
    if not hasattr(node, "apply"):
        return node(*inputs)
    if getattr(node, MATERIALIZES, True):
        forms = getattr(node, OUTPUTS, {})
        for index, (shape, dtype, device) in forms.items():
            if inputs[index] is None:
                inputs[index] = torch.zeros(shape, dtype=dtype, device=device)
    return node.apply(*inputs)


def _fitting(node: Node, index: int, gradient: Any) -> Any:
    """Return the gradient in the shape and dtype of the forward pass."""
    metadata = node._input_metadata
    if gradient is None or index >= len(metadata):
        return gradient
    form = metadata[index]
    if form is None:
        return gradient
    shape = tuple(form.shape)
    if tuple(gradient.shape) != shape:
        gradient = gradient.sum_to_size(shape)
    if gradient.dtype != form.dtype:
        gradient = gradient.to(form.dtype)
    return gradient
