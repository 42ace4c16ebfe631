"""One run of a subject in one mode: construction, forward pass under autocast, backward pass."""

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
from .follower import CallOperand, Follower, name_module, name_tensors, origin_of, short
from .subjects import Followable


@dataclass(frozen=True)
class Precision:
    """A precision of a run.

    `autocast` is a dtype or `off`, `params` the dtype of parameters and arguments.
    """

    autocast: str
    params: str

    def to_json(self) -> dict[str, str]:
        return {"autocast": self.autocast, "params": self.params}


@dataclass(frozen=True)
class Ran:
    """The outcome of one run: its last stage, and the error if one ended it."""

    stage: str
    caught: CaughtError | None
    report: dict[str, Any]


class Runner:
    def __init__(self, builder: Builder, follower: Follower) -> None:
        self._builder, self._follower = builder, follower

    def run(self, subject: Followable, plan: CallPlan, mode: Precision) -> Ran:
        torch.manual_seed(0)
        ready = self._builder.build(subject, plan, mode.params)
        if isinstance(ready, CaughtError):
            return Ran("build", ready, {"mode": mode.to_json(), "error": _brief(ready, "build")})
        follower = self._follower
        follower.begin()
        if ready.module is not None:
            name_module(ready.module)
        name_tensors("argument", ready.arguments.items())
        exceptions: list[BaseException] = []

        def forward() -> Any:
            follower.phase = "forward"
            gradients = torch.set_grad_enabled(plan.training)
            with follower, collect_exceptions(exceptions), gradients, _autocast(mode.autocast):
                return ready.function(**ready.arguments)

        def backward(outputs: Any) -> None:
            follower.phase = "backward"
            with follower, collect_exceptions(exceptions):
                _backward(outputs)

        stage = "forward"
        outcome = attempt(forward, SECONDS)
        if not isinstance(outcome, CaughtError) and plan.training:
            stage, outputs = "backward", outcome
            outcome = attempt(lambda: backward(outputs), SECONDS)
        run_report = report_run(mode, follower, stage, outcome, exceptions)
        if isinstance(outcome, CaughtError):
            return Ran(stage, outcome, run_report)
        return Ran(stage, None, run_report)


def report_run(
    mode: Precision, follower: Follower, stage: str, outcome: Any, exceptions: list[BaseException]
) -> dict[str, Any]:
    """Return the report of a run since the follower began.

    `outcome` may be the error that ended it, `exceptions` are the exceptions behind that error.
    """
    record = follower.record
    run_report: dict[str, Any] = {
        "mode": mode.to_json(),
        "promotions": record.promotions,
        "casts": record.casts,
        "overflows": record.overflows,
        **_distinct(record.launches),
        "error": None,
    }
    if isinstance(outcome, CaughtError):
        run_report["error"] = _brief(outcome, stage)
        if exceptions:
            run_report["error"].update(_explain(exceptions[0], follower))
    return run_report


@contextlib.contextmanager
def collect_exceptions(exceptions: list[BaseException]) -> Iterator[None]:
    """Append an exception with its frames to the list, and raise it again."""

    def note(_: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Exception):
            exceptions.append(error)

    with contextlib.ExitStack() as stack:
        stack.push(note)
        yield


def _autocast(name: str) -> Any:
    if name == "off":
        return contextlib.nullcontext()
    return torch.autocast("cuda", DTYPES[name])


def _backward(value: Any) -> None:
    outputs = [tensor for tensor in _outputs(value) if tensor.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(tensor) for tensor in outputs])


def _outputs(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, Mapping):
        yield from _outputs(list(value.values()))
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _outputs(part)


def _distinct(launches: list[dict[str, Any]]) -> dict[str, Any]:
    """Return equal launches once, and their indices in the `order` of time."""
    indices: dict[str, int] = {}
    unique_launches: list[dict[str, Any]] = []
    order = []
    for launch in launches:
        text = repr(launch)
        if text not in indices:
            indices[text] = len(unique_launches)
            unique_launches.append(launch)
        order.append(indices[text])
    return {"launches": unique_launches, "order": order}


def _brief(error: CaughtError, stage: str) -> dict[str, Any]:
    return {"stage": stage, "type": error.kind, "text": error.text.strip(), "trace": error.trace}


def _explain(error: BaseException, follower: Follower) -> dict[str, Any]:
    """Return the place of an error and the tensors that it concerns.

    These are the operands of the rejected operation, or the tensors that the failing statement
    names.
    """
    error_place = places.of_error(error)
    if error_place is None:
        return {}
    place, frame = error_place
    about: list[CallOperand] = []
    if follower.record.rejection is not None and follower.record.rejection[0] is error:
        about = list(follower.record.rejection[1])
    kind = "refused"
    if not about:
        kind, about = "stated", list(_find_named_tensors(place, frame))
    return {
        "place": place.to_json(),
        "kind": kind,
        "about": list(map(CallOperand.to_json, about)),
    }


def _find_named_tensors(place: places.SourcePlace, frame: FrameType) -> Iterator[CallOperand]:
    """Yield a function's floating tensors that its failing statement names."""
    names = _names(place)
    for name, value in frame.f_locals.items():
        if name in names and isinstance(value, torch.Tensor) and value.is_floating_point():
            yield CallOperand(name, short(value.dtype), origin_of(value), value.dim())


def _names(place: places.SourcePlace) -> set[str]:
    """Return the names in the condition of the innermost statement at a line.

    The statement is an assertion or the `if` around a `raise`.
    """
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
