"""Operators that a program registers itself (`torch.library.custom_op`, `triton_op`,
`Library.impl(…, "CUDA")`, also in place of torch's own): the body that it gives for the card runs.
A fake tensor's own way would be to ask for the form of the result only, and what the body launches
would be lost."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

Body = Callable[..., Any]

# The keys that a CUDA tensor comes by, the card's own first. What is registered for the others runs
# without us (CompositeImplicitAutograd), or never meets a card (CPU, Meta).
_KEYS = ("CUDA", "CompositeExplicitAutograd")
# torch's own libraries give bodies in Python for their own operators, which need no card.
_TORCHS = ("aten", "prims", "prim", "_inductor_test", "inductor", "rngprims")


class RegisteredBodies:
    """The bodies by operator (`namespace::name.overload`) and key."""

    def __init__(self) -> None:
        self._bodies: dict[str, dict[str, Body]] = {}
        # The operators in whose bodies this thread is: one that calls itself means torch's own.
        self._thread = threading.local()

    def note(self, operator: str, key: str, body: Body) -> None:
        namespace = operator.partition("::")[0]
        if key in _KEYS and (key == "CUDA" or namespace not in _TORCHS):
            self._bodies.setdefault(operator, {})[key] = body

    def of(self, operator: Any) -> Body | None:
        """The body that an operator has on the card, None where the program gave none."""
        if not self._bodies or getattr(self._thread, "rests", False):
            return None
        bodies = self._bodies.get(_name_of(operator))
        if bodies is None or operator in self._inside():
            return None
        return next(bodies[key] for key in _KEYS if key in bodies)

    def run(self, operator: Any, body: Body, args: Any, kwargs: Any) -> Any:
        inside = self._inside()
        inside.append(operator)
        try:
            return body(*args, **kwargs)
        finally:
            inside.pop()

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """While this lasts, this thread's operators are torch's own: what we make tensors of is not
        what the program launches."""
        self._thread.rests = True
        try:
            yield
        finally:
            self._thread.rests = False

    def operators_of(self, body: Any) -> Iterator[str]:
        """The operators, as `namespace::name.overload`, that the program gave a body for the card:
        those that a function is called for."""
        for operator, bodies in self._bodies.items():
            if any(each is body for each in bodies.values()):
                yield operator

    def bodies_named(self, name: str) -> Iterator[Body]:
        """The bodies of all operators of that name, whatever their namespace."""
        for operator, bodies in self._bodies.items():
            if operator.partition("::")[2].partition(".")[0] == name:
                yield from bodies.values()

    def _inside(self) -> list[Any]:
        if not hasattr(self._thread, "inside"):
            self._thread.inside = []
        inside: list[Any] = self._thread.inside
        return inside


BODIES = RegisteredBodies()


def install() -> None:
    """From now on note what programs register. torch's decorators end in `Library.impl`, too."""
    plain = torch.library.Library.impl

    @functools.wraps(plain)
    def impl(
        self: Any, op_name: Any, fn: Any, dispatch_key: str = "", *more: Any, **named: Any
    ) -> Any:
        result = plain(self, op_name, fn, dispatch_key, *more, **named)
        name = op_name
        if not isinstance(op_name, str):
            name = _name_of(op_name)
        if "::" not in name:
            name = f"{self.ns}::{name}"
        with_keyset = named.get("with_keyset") or (more and more[0])
        if callable(fn) and not with_keyset:
            BODIES.note(name, dispatch_key or self.dispatch_key, fn)
        return result

    torch.library.Library.impl = impl
    # torch wraps kernels for a tracer, which looks at no fake tensor's mode: they run as they are.
    for module in (torch.library, torch._library.triton):
        module.wrap_triton = _unwrapped


def _unwrapped(kernel: Any) -> Any:
    return kernel


def is_on_card(args: Any, kwargs: Any) -> bool:
    """Whether an operation with these arguments runs on the card: all that has no tensor does."""
    devices = [leaf.device.type for leaf in tree_leaves((args, kwargs)) if _is_tensor(leaf)]
    return not devices or "cuda" in devices


def _is_tensor(leaf: object) -> bool:
    return isinstance(leaf, (FakeTensor, torch.Tensor))


def _name_of(operator: Any) -> str:
    name: str = operator._schema.name
    if operator._schema.overload_name:
        name += f".{operator._schema.overload_name}"
    return name
