"""Other head sizes of a subject.

Packages name the argument for the head size differently, so arguments of the constructor and sizes
of the input are tried.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from ..inference.operators import FUNCTION
from ..inference.plans import CallPlan
from .building import find_values, find_width
from .runs import Precision, Ran, Runner
from .subjects import Followable

# The sizes of queries, keys and values among a function's arguments.
_INPUT_SIZES = ("K", "V")
_COUNTS = ("num_heads", "n_heads", "num_attention_heads", "nheads", "n_head", "heads")


def at_size(
    runner: Runner, subject: Followable, plan: CallPlan, mode: Precision, size: int, usual: Ran
) -> dict[str, Any]:
    """Return the run of a subject with heads of `size`, and the settings for it.

    The run is None if no setting runs as far as the `usual` run.
    """
    for settings, plan_of_size in _plans(subject, plan, size):
        ran = runner.run(subject, plan_of_size, mode)
        if _went_as_far(ran, usual):
            return {"size": size, "settings": settings, "run": ran.report}
    return {"size": size, "settings": {}, "run": None}


def _plans(
    subject: Followable, plan: CallPlan, size: int
) -> Iterator[tuple[dict[str, int], CallPlan]]:
    if subject.kind == FUNCTION:
        sizes = dict.fromkeys(_INPUT_SIZES, size)
        yield sizes, plan.with_changes(sizes=sizes)
        return
    for settings in _settings(subject.operator.parameters, plan.build, size):
        yield settings, plan.with_changes(build=settings)


def _settings(
    parameters: tuple[inspect.Parameter, ...], build: Mapping[str, Any], size: int
) -> Iterator[dict[str, int]]:
    """Yield constructor arguments for heads of `size`, the plainest first.

    The first sets the width of a head and keeps the number of heads; the next also sets the number
    that fits the model. Without a width parameter, only the number of heads changes.
    """
    values = find_values(parameters, build)
    model = find_width(values)
    widths: dict[str, int] = {}
    fitting: dict[str, int] = {}
    for name in values:
        if _is_width(name):
            widths[name] = size
        elif name in _COUNTS and model is not None and model >= size:
            fitting[name] = model // size
    if widths:
        yield widths
        if fitting:
            yield {**widths, **fitting}
    elif fitting:
        # A layer whose keys are narrower than the model also has narrower heads.
        for name in values:
            if name in ("expand_k", "expand_v"):
                fitting[name] = 1
        yield fitting


def _is_width(name: str) -> bool:
    """Return whether a name is a head width: `head_dim`, `headdim`, `d_head`, `head_size`."""
    lower_name = name.lower()
    if "head" not in lower_name or lower_name in _COUNTS:
        return False
    return any(word in lower_name for word in ("dim", "size", "width", "d_head"))


def _went_as_far(ran: Ran, usual: Ran) -> bool:
    if ran.stage == "build":
        return False
    if ran.caught is None or usual.caught is None:
        return ran.caught is None
    return (ran.stage, ran.caught.kind) == (usual.stage, usual.caught.kind)
