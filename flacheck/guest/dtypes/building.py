"""How what is followed is built and called: with arguments that the package driver makes up."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..inference import objects
from ..inference.arguments import NOTHING, Arguments
from ..inference.operators import FUNCTION, LAYER, Operator
from ..inference.plans import CallPlan, Recipe
from ..inference.shapes import SIZES, Shapes, size_of
from ..search.attempts import CaughtError, attempt
from ..search.repairs import Repairs
from .subjects import CONFIG, Followable, NoTarget, model_class

# What a layer of a stack asks for and has no default for: which one it is, of how many.
_SENSIBLE = {"layer_idx": 0, "num_hidden_layers": 2}
# What constructors call the size of the last axis of a layer's input.
WIDTHS = "hidden_size dim d_model input_dim in_features embed_dim n_embd hidden_dim".split()
WIDTHS += "input_size normalized_shape channels".split()
# Words in the names of a config's numbers.
_SIZES = re.compile("size|dim|head|num_|layers|experts|features")
# Batch, time, the model's width.
_MODEL = ("B", "T", "D")
# A number of heads that divides every usual width.
_HEADS = 16
# Calls until one works, and CPU seconds for each of its steps: layers initialise themselves
# element by element.
_TRIES, SECONDS = 14, 40.0


class GuessedConfig:
    """Stands for the config of a model that a layer is built from: sizes by their names, the usual
    activation, and no for whatever is a question."""

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
    """Whether an argument is annotated with a dataclass, which says itself what it holds."""
    name = objects.annotated_class(operator, parameter)
    return name is not None and dataclasses.is_dataclass(objects.find_class(name))


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    if parameter.annotation is NOTHING:
        return parameter.replace(annotation=int)
    return parameter


@dataclass(frozen=True)
class Built:
    """A subject ready to be called with `given`; `module` is None for a function."""

    function: Any
    module: torch.nn.Module | None
    given: dict[str, Any]


class Builder:
    """Builds subjects and the arguments for them. `settings` are what the user said, by name."""

    def __init__(self, offered: list[Operator], recipe: Recipe, settings: Mapping[str, Any]):
        self._shapes, self._recipe, self._settings = Shapes(offered, recipe), recipe, settings

    def plan(self, subject: Followable) -> CallPlan:
        """The first call to try."""
        operator = subject.operator
        built = {p.name: p for p in operator.parameters}
        plan = self._recipe.plain(operator)
        sensible = {}
        for name, value in _SENSIBLE.items():
            if name in built and built[name].default in (None, NOTHING):
                sensible[name] = value
        plan = plan.with_changes(build={**sensible, **plan.build})
        for name, value in self._settings.items():
            if name in built and subject.kind != FUNCTION:
                plan = plan.with_changes(build={name: value})
            elif any(p.name == name for p in operator.takes):
                plan = plan.with_changes(values={name: value})
            else:
                plan = self._extra(subject, plan, name, value)
        return plan

    def _extra(self, subject: Followable, plan: CallPlan, name: str, value: Any) -> CallPlan:
        """A name for the constructor's `**kwargs`, or for one size of the input (`T=2048`)."""
        if name.isupper() and isinstance(value, int):
            return plan.with_changes(sizes={name: value})
        signature = inspect.signature(subject.operator.call)
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values()):
            return plan.with_changes(build={name: value})
        known = ", ".join([*signature.parameters, *(p.name for p in subject.operator.takes)])
        raise NoTarget(f"--arg {name}: {subject.name} takes {known}")

    def repairs(
        self, subject: Followable, plan: CallPlan, stage: str, error: CaughtError
    ) -> list[CallPlan]:
        if subject.kind == CONFIG:
            return []
        plans = Repairs(subject.operator, self._shapes).after_error(plan, stage, error)
        if stage == "build":
            plans += self._rebuilt(subject, plan)
        elif subject.kind == LAYER and not plan.shapes:
            # Gates and residuals of norms are as wide as what they are beside.
            names = [p.name for p in subject.operator.takes if p.default is NOTHING]
            alike = plan.with_changes(shapes=dict.fromkeys(names, _MODEL))
            # Few calls are tried once the forward pass works.
            place = 0 if stage == "backward" else len(plans)
            plans.insert(place, alike)
        # What the user said stays.
        kept = []
        for each in plans:
            said = {**each.values, **each.build}
            if all(said.get(n, v) == v for n, v in self._settings.items()):
                kept.append(each)
        return kept

    def _rebuilt(self, subject: Followable, plan: CallPlan) -> Iterator[CallPlan]:
        """Other constructor arguments, where an error names none: heads that divide any width, and
        flags turned round."""
        heads = {}
        for parameter in subject.operator.parameters:
            if "head" in parameter.name and type(parameter.default) is int:
                heads[parameter.name] = _HEADS
        if heads and not plan.build.keys() & heads.keys():
            yield plan.with_changes(build=heads)
        for parameter in subject.operator.parameters:
            if isinstance(parameter.default, bool) and parameter.name not in plan.build:
                yield plan.with_changes(build={parameter.name: not parameter.default})

    def working(self, subject: Followable, run: Any) -> Iterator[tuple[CallPlan, Any]]:
        """Calls to try, each with what came of it, until the one that works."""
        waiting, seen, tries = deque([self.plan(subject)]), set(), _TRIES
        while waiting and tries:
            plan = waiting.popleft()
            if plan.identity in seen:
                continue
            seen.add(plan.identity)
            tries -= 1
            result = run(plan)
            yield plan, result
            error = result.caught
            if error is None or error.kind == "TooLong":
                return
            waiting += self.repairs(subject, plan, result.stage, error)

    def build(self, subject: Followable, plan: CallPlan, dtype: str) -> Built | CaughtError:
        """The subject with parameters of a dtype, and arguments in it."""
        arguments = Arguments(self._shapes, self._recipe, dtype)
        if subject.kind == LAYER:
            return attempt(lambda: self._layer(subject.operator, plan, arguments), SECONDS)
        if subject.kind == CONFIG:
            return attempt(lambda: self._model(subject.operator, plan, arguments), SECONDS)
        operator = subject.operator
        return attempt(
            lambda: Built(operator.call, None, arguments.build(operator, plan, operator.takes)),
            SECONDS,
        )

    def _layer(self, operator: Operator, plan: CallPlan, arguments: Arguments) -> Built:
        asked = [p for p in operator.parameters if p.default is NOTHING or p.name in plan.build]
        # Constructors take numbers; a tensor is told by its annotation.
        plain = []
        for parameter in asked:
            guessed = parameter.name == "config" and not _has_fields(operator, parameter)
            if parameter.name in plan.build or not guessed:
                plain.append(_plain(parameter))
        given = arguments.build(operator, plan.with_changes(values=plan.build), plain)
        if any(p.name == "config" and p.name not in given for p in asked):
            given["config"] = GuessedConfig()
        # What the constructor takes in its `**kwargs`.
        given = {**plan.build, **given}
        layer = operator.call(**given).to(device="cuda", dtype=arguments.dtype)
        layer.train(plan.training)
        sizes = {p.name: given.get(p.name, p.default) for p in operator.parameters}
        widths = [sizes[name] for name in WIDTHS if isinstance(sizes.get(name), int)]
        sized = plan
        if widths:
            # `B, T, _ = x.shape` has no name for the width.
            sized = plan.with_changes(sizes={"D": widths[0], "X": widths[0], **plan.sizes})
        return Built(layer, layer, arguments.build(operator, sized, operator.takes))

    def _model(self, operator: Operator, plan: CallPlan, arguments: Arguments) -> Built:
        config = operator.call(**plan.build)
        model = model_class(operator.call)(config).to(device="cuda", dtype=arguments.dtype)
        model.train(plan.training)
        form = (plan.sizes.get("B", 2), plan.sizes.get("T", 512))
        ids = torch.zeros(form, dtype=torch.int64, device="cuda")
        return Built(model, model, {"input_ids": ids, "labels": ids.clone(), **plan.values})
