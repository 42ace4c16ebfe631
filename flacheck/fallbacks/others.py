"""What else compiles where no settings help: another dtype, another form, another release."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from flacheck.analysis.fallbacks import Fallback
from flacheck.analysis.observation import ObservedCell
from flacheck.analysis.order import split
from flacheck.fallbacks.candidates import DTYPE, Candidate
from flacheck.fallbacks.exploration import Exploration, Oracle, compiled, explore
from flacheck.fallbacks.failing import REMOVED, Failing, Place, Scanned
from flacheck.fallbacks.seen import Alternatives
from flacheck.model import Cell
from flacheck.tables import targets
from flacheck.toolchains import triton_releases

# Of another dtype only the settings nearest to the failing ones are tried.
DTYPE_SHARE = 4
FORM, RELEASE = "form", "release"
# The form that needs the least of the compiler comes first.
FORMS = ("fused_recurrent", "chunk")
# A way out by its name, with the cells that all have to compile for it.
_Way = tuple[str, list[Cell]]


class Others:
    """Each answer is by the key of its failing cell; a cell without one has none."""

    def __init__(self, scanned: Scanned, oracle: Oracle, budget: int) -> None:
        self._scanned, self._oracle, self._budget = scanned, oracle, budget
        self._alternatives = Alternatives(scanned.observed, scanned.plan.forms)
        self._toolchains = list(dict.fromkeys(cell.toolchain for cell in scanned.plan.cells))

    def dtypes(self, failures: Sequence[Failing]) -> dict[str, Fallback]:
        """Another dtype alone, wherever the call was asked or here; else with other settings."""
        answers: dict[str, Fallback] = {}
        # What helps on every release asked is worth more than a nearer dtype that helps on one.
        for everywhere in (True, False):
            rest = [each for each in failures if each.key not in answers]
            alone = self._first(rest, partial(self._in_dtypes, everywhere))
            for each in rest:
                if each.key in alone:
                    places = self._places(each, everywhere)
                    use = {DTYPE: alone[each.key]}
                    answers[each.key] = self._scanned.fallback(each, use, DTYPE, places)
        rest = [each for each in failures if each.key not in answers]
        return answers | self._dtypes_and_settings(rest)

    def _in_dtypes(self, everywhere: bool, failing: Failing) -> Iterator[_Way]:
        """Each other dtype with the cells to compile for it: none where the scan saw it work."""
        for dtype in other_dtypes(failing.cell.dtype, failing.cell.target):
            calls = self._calls(failing, everywhere)
            unseen = [each for each in calls if dtype not in self._alternatives.dtypes(each)]
            change = Candidate({DTYPE: dtype})
            yield dtype, [change.of(self._scanned.cells[each.key]) for each in unseen]

    def _dtypes_and_settings(self, failures: Sequence[Failing]) -> dict[str, Fallback]:
        ways = []
        for each in failures:
            # Only the best: a search through another dtype's settings costs many compiles.
            for dtype in other_dtypes(each.cell.dtype, each.cell.target)[:1]:
                cell = Candidate({DTYPE: dtype}).of(each.cell)
                budget = self._budget // DTYPE_SHARE
                ways.append((each, dtype, Exploration([cell], each.signature, each.space, budget)))
        explore([way for _, _, way in ways], self._oracle)
        answers = {}
        for each, dtype, way in ways:
            if way.answer:
                both = replace(way.answer, use={**way.answer.use, DTYPE: dtype})
                answers[each.key] = self._scanned.other_settings(each, both, [each.place])
        return answers

    def forms(self, failures: Sequence[Failing]) -> dict[str, Fallback]:
        """Another form of the operator of which the scan saw every kernel compile."""
        answers: dict[str, Fallback] = {}
        for each, everywhere in product(failures, (True, False)):
            calls = self._calls(each, everywhere)
            forms = set.intersection(*(set(self._alternatives.forms(call)) for call in calls))
            if forms and each.key not in answers:
                best = [*(form for form in FORMS if form in forms), *sorted(forms)][0]
                places = self._places(each, everywhere)
                answers[each.key] = self._scanned.fallback(each, {FORM: best}, FORM, places)
        return answers

    def releases(self, failures: Sequence[Failing]) -> dict[str, Fallback]:
        """Another release that compiles the very cell."""
        first = self._first(failures, self._on_releases)
        known = triton_releases.known_releases()
        answers = {}
        for each in failures:
            if each.key in first:
                own, other = each.cell.toolchain, first[each.key]
                name, version = split(other)
                between = known.index(version) - known.index(split(own)[1])
                places, steps = [(other, each.cell.target)], float(abs(between))
                answers[each.key] = self._scanned.fallback(
                    each, {name: version}, RELEASE, places, steps
                )
        return answers

    def _on_releases(self, failing: Failing) -> Iterator[_Way]:
        own, here = failing.cell.toolchain, self._scanned.plan.choices
        for other in nearest_releases(own, self._toolchains, here):
            yield other, [replace(failing.cell, toolchain=other)]

    def _calls(self, failing: Failing, everywhere: bool) -> list[ObservedCell]:
        """The failing cell, and the same call elsewhere unless refused whatever its settings."""
        if not everywhere:
            return [failing.observed]
        tried = (each for each in self._scanned.elsewhere(failing) if each.compiles or each.fails)
        return [failing.observed, *(each for each in tried if each.code not in REMOVED)]

    def _places(self, failing: Failing, everywhere: bool) -> list[Place]:
        return [each.place for each in self._calls(failing, everywhere)]

    def _first(
        self, failures: Sequence[Failing], ways: Callable[[Failing], Iterator[_Way]]
    ) -> Mapping[str, str]:
        """For each failing cell the first way of which every cell compiles, asked step by step."""
        first: dict[str, str] = {}
        open_ = {each.key: ways(each) for each in failures}
        while step := {key: way for key, each in open_.items() if (way := next(each, None))}:
            records = self._oracle([cell for _, cells in step.values() for cell in cells])
            for key, (name, cells) in step.items():
                if all(compiled(records.get(cell.key)) for cell in cells):
                    first[key] = name
            open_ = {key: open_[key] for key in step if key not in first}
        return first


def other_dtypes(dtype: str | None, target: str) -> list[str]:
    """The dtypes to go to, best first (bf16 where the GPU has it); none for integers and fp8."""
    if dtype not in ("bf16", "fp16", "fp32"):
        return []
    # bf16 has the range of fp32 at half its bytes; fp16 overflows.
    best = ["fp32", "fp16"]
    if targets.find(target).bf16:
        best.insert(0, "bf16")
    return [other for other in best if other != dtype]


def nearest_releases(toolchain: str, asked: Iterable[str], here: Iterable[str]) -> list[str]:
    """Toolchains by how many releases lie between, those asked for before the others; at one
    distance the newer first.

    Empty for a compiler that is no plain release: a local build has no neighbours.
    """
    known = triton_releases.known_releases()
    wanted = [*dict.fromkeys(asked), *here]
    placed = {
        name: known.index(split(name)[1])
        for name in [toolchain, *wanted]
        if split(name)[1] in known
    }
    if toolchain not in placed:
        return []
    own, first = placed[toolchain], set(asked)
    # What was asked for is what the user has or plans to have.
    others = [name for name in dict.fromkeys(wanted) if name in placed and name != toolchain]
    return sorted(
        others, key=lambda name: (name not in first, abs(placed[name] - own), -placed[name])
    )
