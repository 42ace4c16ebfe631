"""Inputs of an analysis that records do not hold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.standing import Standing
from flacheck.model.coverage import PackageCoverage

FormsOf = Mapping[tuple[str | None, str], tuple[str, str]]


@dataclass(frozen=True)
class Context:
    """Inputs of an analysis beside its records.

    `forms` maps (package, kernel) to (operator, form). `torch_for` returns the torch releases that
    pin a Triton release; `specifier(name, good, known)` the narrowest requirement that admits
    exactly the good of the known releases. `known_triton` and `known_torch` are all published
    releases; if empty, only the requested releases count, and the requirement may admit untested
    ones. `advisories(triton, target)` returns known miscompiles; `waives(cell)` is true if the
    project waives a failing cell, `in_baseline(cell)` if a baseline contains it; `fallbacks(cells,
    forms)` returns replacements for the failing cells. `standings` are those of the questions to
    which the records belong: without a question nothing is good. `made_up` are the keys of launches
    that flacheck invented; None to use the stored kernels.
    """

    forms: FormsOf = field(default_factory=dict)
    torch_for: Callable[[str], Sequence[str]] = lambda triton: ()
    specifier: Callable[[str, Sequence[str], Sequence[str]], str | None] = lambda *releases: None
    known_triton: Sequence[str] = ()
    known_torch: Sequence[str] = ()
    advisories: Callable[[str, str], Sequence[Any]] = lambda triton, target: ()
    waives: Callable[[ObservedCell], bool] = lambda cell: False
    in_baseline: Callable[[ObservedCell], bool] = lambda cell: False
    fallbacks: Callable[[Sequence[ObservedCell], FormsOf], Sequence[Fallback]] = (
        lambda cells, forms: ()
    )
    coverage: Sequence[PackageCoverage] = ()
    standings: Sequence[Standing] = ()
    made_up: frozenset[str] | None = None


def forms_from_json(context: Mapping[str, Any]) -> FormsOf:
    """Return the forms of a stored run's `context`, empty if it has none."""
    forms = {}
    for package, kernel, operator, form in context.get("forms", ()):
        forms[package, kernel] = (operator, form)
    return forms
