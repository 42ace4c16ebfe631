"""What an analysis must be told, because no record holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flacheck.analysis.fallbacks import Fallback
from flacheck.analysis.observed import Observed
from flacheck.analysis.order import by_version
from flacheck.model import Json

FormsOf = Mapping[tuple[str | None, str], tuple[str, str]]


def between(name: str, good: Sequence[str], known: Sequence[str]) -> str | None:
    """A requirement from the first to the last good release, less the known ones between that are
    not good.
    """
    if not good:
        return None
    if len(good) == 1:
        return f"{name}=={good[0]}"
    # Known releases between the first and the last that nobody tried are ruled out as well.
    order = sorted(good, key=by_version)
    first, last = by_version(order[0]), by_version(order[-1])
    bad = [
        f"!={version}"
        for version in known
        if version not in good and first < by_version(version) < last
    ]
    return name + ",".join([f">={order[0]}", *bad, f"<={order[-1]}"])


@dataclass(frozen=True)
class Context:
    """`forms` maps (package, kernel) to (operator, form). `torch_for` gives the torch releases that
    pin a Triton release; `specifier(name, good, known)` the narrowest requirement that admits
    exactly the good of the known releases. `known_triton` and `known_torch` are all releases there
    are; empty, only those asked count, and the requirement may admit releases that nobody tried.
    `advisories(triton, target)` names known miscompiles; `waives(cell)` says whether a project lets
    a failing cell pass; `fallbacks(cells, forms)` what to use instead of the failing ones.
    """

    forms: FormsOf = field(default_factory=dict)
    torch_for: Callable[[str], Sequence[str]] = lambda triton: ()
    specifier: Callable[[str, Sequence[str], Sequence[str]], str | None] = between
    known_triton: Sequence[str] = ()
    known_torch: Sequence[str] = ()
    advisories: Callable[[str, str], Sequence[Any]] = lambda triton, target: ()
    waives: Callable[[Observed], bool] = lambda cell: False
    fallbacks: Callable[[Sequence[Observed], FormsOf], Sequence[Fallback]] = lambda cells, forms: ()
    coverage: Sequence[Json] = ()


def forms_to_json(forms: FormsOf) -> Json:
    """The forms in the shape a run's `context` keeps them in."""
    return {"forms": [[*kernel, *form] for kernel, form in sorted(forms.items(), key=str)]}


def forms_from_json(context: Mapping[str, Any]) -> FormsOf:
    """The forms of a stored run's `context`; none when it has none."""
    return {
        (package, kernel): (operator, form)
        for package, kernel, operator, form in context.get("forms", ())
    }
