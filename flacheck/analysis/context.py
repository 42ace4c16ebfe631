"""What an analysis must be told, because no record holds it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flacheck.analysis.fallbacks import Fallback
from flacheck.analysis.observation import ObservedCell
from flacheck.analysis.standing import Standing
from flacheck.model import Json

FormsOf = Mapping[tuple[str | None, str], tuple[str, str]]


@dataclass(frozen=True)
class Context:
    """`forms` maps (package, kernel) to (operator, form). `torch_for` gives the torch releases that
    pin a Triton release; `specifier(name, good, known)` the narrowest requirement that admits
    exactly the good of the known releases. `known_triton` and `known_torch` are all releases there
    are; empty, only those asked count, and the requirement may admit releases that nobody tried.
    `advisories(triton, target)` names known miscompiles; `waives(cell)` says whether a project lets
    a failing cell pass, `knows(cell)` whether a baseline does; `fallbacks(cells, forms)` what to
    use instead of the failing ones. `standings` say how the questions stand that the records belong
    to: without a question nothing is good. `made_up` are the keys of launches that flacheck
    invented; None to go by what is stored of each kernel."""

    forms: FormsOf = field(default_factory=dict)
    torch_for: Callable[[str], Sequence[str]] = lambda triton: ()
    specifier: Callable[[str, Sequence[str], Sequence[str]], str | None] = lambda *asked: None
    known_triton: Sequence[str] = ()
    known_torch: Sequence[str] = ()
    advisories: Callable[[str, str], Sequence[Any]] = lambda triton, target: ()
    waives: Callable[[ObservedCell], bool] = lambda cell: False
    knows: Callable[[ObservedCell], bool] = lambda cell: False
    fallbacks: Callable[[Sequence[ObservedCell], FormsOf], Sequence[Fallback]] = (
        lambda cells, forms: ()
    )
    coverage: Sequence[Json] = ()
    standings: Sequence[Standing] = ()
    made_up: frozenset[str] | None = None


def forms_from_json(context: Mapping[str, Any]) -> FormsOf:
    """The forms of a stored run's `context`; none when it has none."""
    return {
        (package, kernel): (operator, form)
        for package, kernel, operator, form in context.get("forms", ())
    }
