"""Construction of subjects, and arguments that flacheck makes up for their calls."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..inference.arguments import NOTHING, Arguments
from ..inference.operators import FUNCTION, LAYER, Operator, annotated_class
from ..inference.plans import CallPlan, Recipe
from ..inference.shapes import SIZES, Shapes, size_of
from ..search.attempts import CaughtError, attempt
from ..search.variations import Variations
from .subjects import CONFIG, Followable, NoTarget, model_class

# A layer of a stack requires its index and the number of layers.
_SENSIBLE = {"layer_idx": 0, "num_hidden_layers": 2}
# Constructor parameters for the size of the last axis of a layer's input.
WIDTHS = "hidden_size dim d_model input_dim in_features embed_dim n_embd hidden_dim".split()
WIDTHS += "input_size normalized_shape channels".split()
# Words in the names of a config's numbers.
_SIZES = re.compile("size|dim|head|num_|layers|experts|features")
# The axes are batch, time and the model's width.
_MODEL = ("B", "T", "D")
# This number of heads divides every usual width.
_HEADS = 16
# The number of calls to try, and the CPU seconds of each step: layers initialise slowly.
_TRIES, SECONDS = 14, 40.0


class GuessedConfig:
    """A stand-in for a model's config: sizes by their names, the usual activation, else None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if "act" in name:
            return "silu"
        if "eps" in name:
            return 1e-5
        if _SIZES.search(name):
            return size_of(name, SIZES)
        return None


def _has_fields(operator: Operator, parameter: inspect.Parameter) -> bool:
    """Return whether an argument is annotated with a dataclass, whose fields define its values."""
    annotated = annotated_class(operator, parameter)
    return annotated is not None and dataclasses.is_dataclass(annotated)


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    if parameter.annotation is NOTHING:
        return parameter.replace(annotation=int)
    return parameter


def find_values(
    parameters: Iterable[inspect.Parameter], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the value of each parameter: its argument, else its default."""
    values = {}
    for parameter in parameters:
        values[parameter.name] = arguments.get(parameter.name, parameter.default)
    return values


def find_width(values: Mapping[str, Any]) -> int | None:
    """Return the model's width among constructor arguments."""
    for name in WIDTHS:
        width = values.get(name)
        if isinstance(width, int):
            return width
    return None


@dataclass(frozen=True)
class ReadySubject:
    """A subject ready to be called with `arguments`; `module` is None for a function."""

    function: Any
    module: torch.nn.Module | None
    arguments: dict[str, Any]


class Builder:
    """Construction of subjects and of the arguments for them; `settings` come from the user."""

    def __init__(self, operators: list[Operator], recipe: Recipe, settings: Mapping[str, Any]):
        self._shapes, self._recipe, self._settings = Shapes(recipe), recipe, settings

    def plan(self, subject: Followable) -> CallPlan:
        """Return the first call to try."""
        operator = subject.operator
        constructor_parameters = {p.name: p for p in operator.parameters}
        plan = self._recipe.plain(operator)
        sensible = {}
        for name, value in _SENSIBLE.items():
            if name in constructor_parameters and constructor_parameters[name].default in (
                None,
                NOTHING,
            ):
                sensible[name] = value
        plan = plan.with_changes(build={**sensible, **plan.build})
        for name, value in self._settings.items():
            if name in constructor_parameters and subject.kind != FUNCTION:
                plan = plan.with_changes(build={name: value})
            elif any(p.name == name for p in operator.takes):
                plan = plan.with_changes(values={name: value})
            else:
                plan = self._extra(subject, plan, name, value)
        return plan

    def _extra(self, subject: Followable, plan: CallPlan, name: str, value: Any) -> CallPlan:
        """Return the plan with a value for the constructor's `**kwargs` or a size (`T=2048`)."""
        if name.isupper() and isinstance(value, int):
            return plan.with_changes(sizes={name: value})
        signature = inspect.signature(subject.operator.call)
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values()):
            return plan.with_changes(build={name: value})
        names = ", ".join([*signature.parameters, *(p.name for p in subject.operator.takes)])
        raise NoTarget(f"--arg {name}: {subject.name} takes {names}")

    def repairs(
        self, subject: Followable, plan: CallPlan, stage: str, error: CaughtError
    ) -> list[CallPlan]:
        if subject.kind == CONFIG:
            return []
        variations = Variations(subject.operator, self._shapes)
        plans = variations.after_error(plan, stage, error)
        if stage == "build":
            plans += self._other_constructors(subject, plan)
        elif subject.kind == LAYER and not plan.shapes:
            # Gates and residuals of norms are as wide as the other input.
            names = [p.name for p in subject.operator.takes if p.default is NOTHING]
            alike = plan.with_changes(shapes=dict.fromkeys(names, _MODEL))
            # Few calls are tried once the forward pass works.
            place = 0 if stage == "backward" else len(plans)
            plans.insert(place, alike)
        # A repair must not change a setting of the user.
        plans_with_settings = []
        for each in plans:
            values = {**each.values, **each.build}
            if all(values.get(n, v) == v for n, v in self._settings.items()):
                plans_with_settings.append(each)
        return plans_with_settings

    def _other_constructors(self, subject: Followable, plan: CallPlan) -> Iterator[CallPlan]:
        """Yield plans with other constructor arguments, where an error names none.

        Such arguments are a number of heads that divides any width, and inverted flags.
        """
        heads = {}
        for parameter in subject.operator.parameters:
            if "head" in parameter.name and type(parameter.default) is int:
                heads[parameter.name] = _HEADS
        if heads and not plan.build.keys() & heads.keys():
            yield plan.with_changes(build=heads)
        for parameter in subject.operator.parameters:
            if isinstance(parameter.default, bool) and parameter.name not in plan.build:
                yield plan.with_changes(build={parameter.name: not parameter.default})

    def find_working(self, subject: Followable, run: Any) -> Iterator[tuple[CallPlan, Any]]:
        """Yield calls to try with the outcome of each, until a call works."""
        waiting, tried_plans, tries = deque([self.plan(subject)]), set(), _TRIES
        while waiting and tries:
            plan = waiting.popleft()
            if plan.identity in tried_plans:
                continue
            tried_plans.add(plan.identity)
            tries -= 1
            result = run(plan)
            yield plan, result
            error = result.caught
            if error is None or error.kind == "TooLong":
                return
            waiting += self.repairs(subject, plan, result.stage, error)

    def build(self, subject: Followable, plan: CallPlan, dtype: str) -> ReadySubject | CaughtError:
        """Return the subject with parameters of a dtype, and arguments in that dtype."""
        arguments = Arguments(self._shapes, self._recipe, dtype)
        if subject.kind == LAYER:
            return attempt(lambda: self._layer(subject.operator, plan, arguments), SECONDS)
        if subject.kind == CONFIG:
            return attempt(lambda: self._model(subject.operator, plan, arguments), SECONDS)
        operator = subject.operator
        return attempt(
            lambda: ReadySubject(
                operator.call, None, arguments.build(operator, plan, operator.takes)
            ),
            SECONDS,
        )

    def _layer(self, operator: Operator, plan: CallPlan, arguments: Arguments) -> ReadySubject:
        needed_parameters = []
        for parameter in operator.parameters:
            if parameter.default is NOTHING or parameter.name in plan.build:
                needed_parameters.append(parameter)
        # A parameter without an annotation is a number, because constructors rarely take tensors.
        plain = []
        for parameter in needed_parameters:
            is_guessed = parameter.name == "config" and not _has_fields(operator, parameter)
            if parameter.name in plan.build or not is_guessed:
                plain.append(_plain(parameter))
        values = arguments.build(operator, plan.with_changes(values=plan.build), plain)
        names = [p.name for p in needed_parameters]
        if "config" in names and "config" not in values:
            values["config"] = GuessedConfig()
        # The plan may also have values for the constructor's `**kwargs`.
        values = {**plan.build, **values}
        layer = operator.call(**values).to(device="cuda", dtype=arguments.dtype)
        layer.train(plan.training)
        sizes = find_values(operator.parameters, values)
        width = find_width(sizes)
        sized_plan = plan
        if width is not None:
            # The width is unnamed in `B, T, _ = x.shape`.
            sized_plan = plan.with_changes(sizes={"D": width, "X": width, **plan.sizes})
        return ReadySubject(layer, layer, arguments.build(operator, sized_plan, operator.takes))

    def _model(self, operator: Operator, plan: CallPlan, arguments: Arguments) -> ReadySubject:
        config = operator.call(**plan.build)
        model = model_class(operator.call)(config).to(device="cuda", dtype=arguments.dtype)
        model.train(plan.training)
        form = (plan.sizes.get("B", 2), plan.sizes.get("T", 512))
        ids = torch.zeros(form, dtype=torch.int64, device="cuda")
        return ReadySubject(model, model, {"input_ids": ids, "labels": ids.clone(), **plan.values})
