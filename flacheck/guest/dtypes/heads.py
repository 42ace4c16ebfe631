"""Other head sizes of a subject: which argument of its constructor, or which size of its input,
says how wide a head is; found by trying, for packages call it differently."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from ..inference.operators import FUNCTION
from ..inference.plans import CallPlan
from .building import WIDTHS
from .runs import Precision, Ran, Runner
from .subjects import Followable

# How wide queries, keys and values of a function's own arguments are.
_INPUT_SIZES = ("K", "V")
_COUNTS = ("num_heads", "n_heads", "num_attention_heads", "nheads", "n_head", "heads")


def at_size(
    runner: Runner, subject: Followable, plan: CallPlan, mode: Precision, size: int, usual: Ran
) -> dict[str, Any]:
    """The run of a subject whose heads are `size` wide, and the settings that made them so; a run
    of None when no setting did that and let the subject run as far as it `usual`ly does."""
    for settings, tried in _plans(subject, plan, size):
        ran = runner.run(subject, tried, mode)
        if _went_as_far(ran, usual):
            return {"size": size, "settings": settings, "run": ran.said}
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
    parameters: tuple[inspect.Parameter, ...], given: Mapping[str, Any], size: int
) -> Iterator[dict[str, int]]:
    """Constructor arguments, the plainest first: the width of a head, with as many heads as are
    there or as the model has room for; else as many heads as make them so wide."""
    known = {p.name: given.get(p.name, p.default) for p in parameters}
    widths = {name: size for name in known if _is_width(name)}
    counts = {name: value for name, value in known.items() if name in _COUNTS}
    model = next((known[name] for name in WIDTHS if isinstance(known.get(name), int)), None)
    fitting = {}
    if model is not None and model >= size:
        fitting = dict.fromkeys(counts, model // size)
    if widths:
        yield widths
        if fitting:
            yield {**widths, **fitting}
    elif fitting:
        # Of a layer that makes keys narrower than the model its heads are narrower, too.
        expansions = {name: 1 for name in known if name in ("expand_k", "expand_v")}
        yield {**fitting, **expansions}


def _is_width(name: str) -> bool:
    """`head_dim`, `qk_head_dim`, `headdim`, `d_head`, `dim_head`, `head_size`."""
    lowered = name.lower()
    if "head" not in lowered or lowered in _COUNTS:
        return False
    return any(word in lowered for word in ("dim", "size", "width", "d_head"))


def _went_as_far(ran: Ran, usual: Ran) -> bool:
    if ran.stage == "build":
        return False
    if ran.caught is None or usual.caught is None:
        return ran.caught is None
    return (ran.stage, ran.caught.kind) == (usual.stage, usual.caught.kind)
