"""One call of an operator: arguments made, forward, backward, and what was launched on the way."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import torch

from . import layers, trust
from .arguments import DTYPES, Arguments
from .attempts import Failure, attempt
from .choices import hidden
from .operators import LAYER

_SECONDS = 2.0


@dataclass(frozen=True)
class Outcome:
    """`launches` made and the kernels `recorded` for the first time; where and how it failed, if it
    did.
    """

    launches: int
    recorded: frozenset
    stage: str = ""
    failure: Failure | None = None

    @property
    def worked(self) -> bool:
        """Whether the call came to its end, or to that of its forward when there is no backward."""
        return self.failure is None or (
            self.stage == "backward" and self.failure.kind == "NotImplementedError"
        )


class Caller:
    """Calls operators under the recorder."""

    def __init__(self, shapes, recipe, recorder, witness) -> None:
        self.shapes, self._recipe, self._recorder, self._witness = shapes, recipe, recorder, witness
        self._parameters: dict[str, tuple] = {}

    @property
    def recorded(self) -> frozenset:
        """The kernels that were launched so far."""
        return frozenset(self._recorder.kernels)

    def parameters(self, operator) -> tuple:
        """What a call takes: a function's parameters or those of a layer's forward, and those
        hidden in kwargs.
        """
        if operator.name not in self._parameters:
            found = (
                layers.forward_parameters(operator)
                if operator.kind == LAYER
                else operator.parameters
            )
            named = [p for p in found if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
            taken = {p.name for p in named}
            extra = (
                hidden(operator.source) if len(named) < len(found) or operator.kind != LAYER else ()
            )
            keyword = inspect.Parameter.KEYWORD_ONLY
            named += [
                inspect.Parameter(name, keyword, default=None)
                for name in extra
                if name not in taken
            ]
            self._parameters[operator.name] = tuple(named)
        return self._parameters[operator.name]

    def call(self, operator, plan, dtype: str) -> Outcome:
        """Forward, and backward where something was differentiable."""
        before, launches = self.recorded, self._recorder.calls
        self._recorder.during = f"{operator.name} ({plan.label}, {dtype})"
        stage, failure = self._staged(operator, plan, dtype)
        self._recorder.during = None
        made = self._recorder.calls - launches
        outcome = Outcome(made, self.recorded - before, stage if failure else "", failure)
        self._witness.ended(_rank(operator, outcome))
        return outcome

    def _staged(self, operator, plan, dtype: str):
        arguments = Arguments(self.shapes, self._recipe, dtype)
        function, failure = attempt(
            lambda: self._function(operator, plan, arguments, dtype), _SECONDS
        )
        if failure:
            return "build", failure
        function, plan = function
        given, failure = attempt(
            lambda: arguments.build(operator, plan, self.parameters(operator)), _SECONDS
        )
        if failure:
            return "arguments", failure
        result, failure = attempt(lambda: self._forward(operator, plan, function, given), _SECONDS)
        if failure:
            return "forward", failure
        _, failure = attempt(lambda: _backward(result), _SECONDS) if plan.training else (None, None)
        return "backward", failure

    def _function(self, operator, plan, arguments, dtype: str):
        """What is called, and the plan with what only the built layer can say."""
        if operator.kind != LAYER:
            return operator.call, plan
        layer, width = layers.build(operator, plan, arguments, DTYPES[dtype])
        sized = {"D": width, **plan.sizes} if width else plan.sizes
        return layer, plan.but(sizes=sized)

    def _forward(self, operator, plan, function, given: dict):
        with torch.set_grad_enabled(plan.training):
            if _by_position(operator):
                ordered = [given.get(p.name, p.default) for p in operator.parameters]
                return function(*ordered)
            return function(**given)


def _rank(operator, outcome: Outcome) -> int:
    """How far the arguments of the launches of a call are to be trusted."""
    if not outcome.worked:
        return trust.FAILED
    if operator.kind == LAYER:
        return trust.LAYER
    return trust.OUTER if operator.outer else trust.INNER


def _by_position(operator) -> bool:
    """An autograd function's `apply` takes no names."""
    return getattr(operator.call, "__name__", "") == "apply"


def _backward(result) -> None:
    outputs = [tensor for tensor in _tensors(result) if tensor.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(tensor) for tensor in outputs])


def _tensors(result):
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for part in result:
            yield from _tensors(part)
    elif isinstance(result, dict):
        for part in list(result.values()):
            yield from _tensors(part)
