"""One run of a subject in one mode: built, called under autocast, and backward, while its dtypes
are followed."""

from __future__ import annotations

import ast
import contextlib
import linecache
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from ..inference.arguments import DTYPES
from ..inference.plans import CallPlan
from ..search.attempts import CaughtError, attempt
from . import places
from .building import SECONDS, Builder
from .follower import CallOperand, Follower, name_tensors, origin_of, short
from .subjects import Followable


@dataclass(frozen=True)
class Precision:
    """`autocast` is a dtype or `off`, `params` the dtype of parameters and arguments."""

    autocast: str
    params: str

    def to_json(self) -> dict[str, str]:
        return {"autocast": self.autocast, "params": self.params}


@dataclass(frozen=True)
class Ran:
    """What one run came to: the stage at which it ended, with the error if one ended it there."""

    stage: str
    caught: CaughtError | None
    said: dict[str, Any]


class Runner:
    def __init__(self, builder: Builder, follower: Follower) -> None:
        self._builder, self._follower = builder, follower

    def run(self, subject: Followable, plan: CallPlan, mode: Precision) -> Ran:
        torch.manual_seed(0)
        built = self._builder.build(subject, plan, mode.params)
        if isinstance(built, CaughtError):
            return Ran("build", built, {"mode": mode.to_json(), "error": _brief(built, "build")})
        follower = self._follower
        follower.begin()
        if built.module is not None:
            name_tensors("parameter", built.module.named_parameters())
            name_tensors("buffer", built.module.named_buffers())
        name_tensors("argument", built.given.items())
        raised: list[BaseException] = []

        def forward() -> Any:
            follower.phase = "forward"
            gradients = torch.set_grad_enabled(plan.training)
            with follower, noting(raised), gradients, _autocast(mode.autocast):
                return built.function(**built.given)

        def backward(returned: Any) -> None:
            follower.phase = "backward"
            with follower, noting(raised):
                _backward(returned)

        stage = "forward"
        outcome = attempt(forward, SECONDS)
        if not isinstance(outcome, CaughtError) and plan.training:
            stage, returned = "backward", outcome
            outcome = attempt(lambda: backward(returned), SECONDS)
        told = said(mode, follower, stage, outcome, raised)
        if isinstance(outcome, CaughtError):
            return Ran(stage, outcome, told)
        return Ran(stage, None, told)


def said(
    mode: Precision, follower: Follower, stage: str, outcome: Any, raised: list[BaseException]
) -> dict[str, Any]:
    """What was followed since the follower began, as a report tells it; `outcome` may be the error
    that ended it, `raised` the exceptions behind that."""
    seen = follower.seen
    told: dict[str, Any] = {
        "mode": mode.to_json(),
        "promotions": seen.promotions,
        "overflows": seen.overflows,
        **_distinct(seen.launches),
        "error": None,
    }
    if isinstance(outcome, CaughtError):
        told["error"] = _brief(outcome, stage)
        if raised:
            told["error"].update(_explained(raised[0], follower))
    return told


@contextlib.contextmanager
def noting(raised: list[BaseException]) -> Iterator[None]:
    """Keep what is raised, with its frames."""
    try:
        yield
    except Exception as error:
        raised.append(error)
        raise


def _autocast(name: str) -> Any:
    if name == "off":
        return contextlib.nullcontext()
    return torch.autocast("cuda", DTYPES[name])


def _backward(returned: Any) -> None:
    outputs = [tensor for tensor in _outputs(returned) if tensor.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(tensor) for tensor in outputs])


def _outputs(returned: Any) -> Iterator[torch.Tensor]:
    if isinstance(returned, torch.Tensor):
        if returned.is_floating_point():
            yield returned
    elif isinstance(returned, Mapping):
        yield from _outputs(list(returned.values()))
    elif isinstance(returned, (tuple, list)):
        for part in returned:
            yield from _outputs(part)


def _distinct(launches: list[dict[str, Any]]) -> dict[str, Any]:
    """Equal launches once, and their indices in the `order` in which they came."""
    indices: dict[str, int] = {}
    kept: list[dict[str, Any]] = []
    order = []
    for launch in launches:
        described = repr(launch)
        if described not in indices:
            indices[described] = len(kept)
            kept.append(launch)
        order.append(indices[described])
    return {"launches": kept, "order": order}


def _brief(error: CaughtError, stage: str) -> dict[str, Any]:
    return {"stage": stage, "type": error.kind, "text": error.text.strip(), "trace": error.trace}


def _explained(error: BaseException, follower: Follower) -> dict[str, Any]:
    """Where an error came from, and the tensors that it is about: those that the refused operation
    was given, or those that the failing statement names."""
    found = places.of_error(error)
    if found is None:
        return {}
    place, frame = found
    about = []
    if follower.seen.refused is not None and follower.seen.refused[0] is error:
        about = [operand.to_json() for operand in follower.seen.refused[1]]
    kind = "refused"
    if not about:
        kind, about = "stated", [operand.to_json() for operand in _named(place, frame)]
    return {"place": place.to_json(), "kind": kind, "about": about}


def _named(place: places.SourcePlace, frame: FrameType) -> Iterator[CallOperand]:
    """The floating tensors among a function's variables that its failing statement names."""
    names = _names(place)
    for name, value in frame.f_locals.items():
        if name in names and isinstance(value, torch.Tensor) and value.is_floating_point():
            yield CallOperand(name, short(value.dtype), origin_of(value), value.dim())


def _names(place: places.SourcePlace) -> set[str]:
    """The names in the innermost statement at a line that has a condition: an assertion, or the
    `if` around a `raise`."""
    try:
        tree = ast.parse("".join(linecache.getlines(place.file)))
    except SyntaxError:
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Assert, ast.If)):
            continue
        if node.lineno <= place.line <= (node.end_lineno or node.lineno):
            # An inner statement comes later in the walk.
            names = {each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)}
    return names
