"""Operators that a program registers itself, whose body for the card runs.

These are `torch.library.custom_op`, `triton_op` and `Library.impl(…, "CUDA")`, also in place of
torch's own operators. Fake tensors alone would only compute the form of the result, and the
launches of the body would be lost.
"""

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

# The dispatch keys of a CUDA tensor, the card's own first. Bodies for other keys run by themselves
# (CompositeImplicitAutograd) or never see the card (CPU, Meta).
_KEYS = ("CUDA", "CompositeExplicitAutograd")
# torch's own libraries have Python bodies for their own operators, which need no card.
_TORCHS = ("aten", "prims", "prim", "_inductor_test", "inductor", "rngprims")


class RegisteredBodies:
    """The bodies by operator (`namespace::name.overload`) and key."""

    def __init__(self) -> None:
        self.bodies: dict[str, dict[str, Body]] = {}
        # The operators whose bodies run in this thread: a body that calls its own operator means
        # torch's.
        self._thread = threading.local()

    def note(self, operator: str, key: str, body: Body) -> None:
        namespace = operator.partition("::")[0]
        if key in _KEYS and (key == "CUDA" or namespace not in _TORCHS):
            self.bodies.setdefault(operator, {})[key] = body

    def of(self, operator: Any) -> Body | None:
        """Return the body of an operator on the card, None if the program has none."""
        if not self.bodies or getattr(self._thread, "rests", False):
            return None
        bodies = self.bodies.get(_name_of(operator))
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
        """Use torch's own operators in this thread until the block ends.

        The recorder makes tensors there, and those calls do not belong to the program.
        """
        self._thread.rests = True
        try:
            yield
        finally:
            self._thread.rests = False

    def operators_of(self, body: Any) -> Iterator[str]:
        """Yield the operators for which the program registered this body on the card.

        Each is named as `namespace::name.overload`.
        """
        for operator, bodies in self.bodies.items():
            if any(each is body for each in bodies.values()):
                yield operator

    def bodies_named(self, name: str) -> Iterator[Body]:
        """Yield the bodies of all operators of that name in any namespace."""
        for operator, bodies in self.bodies.items():
            full_name = operator.partition("::")[2]
            if full_name.partition(".")[0] == name:
                yield from bodies.values()

    def _inside(self) -> list[Any]:
        if not hasattr(self._thread, "inside"):
            self._thread.inside = []
        inside: list[Any] = self._thread.inside
        return inside


BODIES = RegisteredBodies()


def install() -> None:
    """Note all registrations from now on: torch's decorators also end in `Library.impl`."""
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
    # torch wraps kernels for a tracer that ignores the mode of fake tensors, so kernels stay
    # unwrapped.
    for module in (torch.library, torch._library.triton):
        module.wrap_triton = _return_kernel


def _return_kernel(kernel: Any) -> Any:
    return kernel


def is_on_card(args: Any, kwargs: Any) -> bool:
    """Return True if an operation with these arguments runs on the card.

    An operation without tensors also does.
    """
    devices = set()
    for leaf in tree_leaves((args, kwargs)):
        if _is_tensor(leaf):
            devices.add(leaf.device.type)
    return not devices or "cuda" in devices


def _is_tensor(leaf: object) -> bool:
    return isinstance(leaf, (FakeTensor, torch.Tensor))


@functools.cache
def _name_of(operator: Any) -> str:
    name: str = operator._schema.name
    if operator._schema.overload_name:
        name += f".{operator._schema.overload_name}"
    return name
