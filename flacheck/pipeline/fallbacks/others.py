"""Fallbacks for cells that no settings help: another dtype, another form, another release."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.order import split
from flacheck.model import Cell
from flacheck.pipeline.fallbacks.alternatives import Alternatives
from flacheck.pipeline.fallbacks.candidates import DTYPE, Candidate
from flacheck.pipeline.fallbacks.exploration import Exploration, Oracle, compiles_fully, explore
from flacheck.pipeline.fallbacks.failing import REMOVED_FEATURES, Failing, Place, ScanResult
from flacheck.tables import targets
from flacheck.toolchains import triton_releases

# A search in another dtype has this fraction of the budget.
DTYPE_SHARE = 4
FORM, RELEASE = "form", "release"
# The form that requires the least of the compiler comes first.
FORMS = ("fused_recurrent", "chunk")
# The name of a fallback, with the cells that all have to compile for it.
_Way = tuple[str, list[Cell]]


class Others:
    """A search for other dtypes, forms and releases.

    Each method returns fallbacks by the key of the failing cell, without the cells that have none.
    """

    def __init__(self, scan: ScanResult, oracle: Oracle, budget: int) -> None:
        self._scan, self._oracle, self._budget = scan, oracle, budget
        self._alternatives = Alternatives(scan.observations, scan.plan.forms)
        self._toolchains = list(dict.fromkeys(cell.toolchain for cell in scan.plan.cells))

    def dtypes(self, failures: Sequence[Failing]) -> dict[str, Fallback]:
        """Return fallbacks to another dtype: alone everywhere, alone here, or with settings."""
        answers: dict[str, Fallback] = {}
        # A dtype that helps on every release of the scan is better than a nearer one that helps on
        # one release.
        for everywhere in (True, False):
            rest = [failing for failing in failures if failing.key not in answers]
            first = self._first(rest, partial(self._in_dtypes, everywhere))
            for failing in rest:
                if failing.key in first:
                    places = self._places(failing, everywhere)
                    use = {DTYPE: first[failing.key]}
                    answers[failing.key] = self._scan.fallback(failing, use, DTYPE, places)
        rest = [failing for failing in failures if failing.key not in answers]
        return answers | self._dtypes_and_settings(rest)

    def _in_dtypes(self, everywhere: bool, failing: Failing) -> Iterator[_Way]:
        """Yield each other dtype with the cells to compile for it.

        A call that compiles in the dtype in a record of the scan needs no cell.
        """
        for dtype in other_dtypes(failing.cell.dtype, failing.cell.target):
            change = Candidate({DTYPE: dtype})
            cells = []
            for call in self._calls(failing, everywhere):
                if dtype not in self._alternatives.dtypes(call):
                    cells.append(change.of(self._scan.cells[call.key]))
            yield dtype, cells

    def _dtypes_and_settings(self, failures: Sequence[Failing]) -> dict[str, Fallback]:
        ways = []
        for failing in failures:
            # Only the best dtype: a search through its settings costs many compiles.
            dtypes = other_dtypes(failing.cell.dtype, failing.cell.target)
            if not dtypes:
                continue
            cell = Candidate({DTYPE: dtypes[0]}).of(failing.cell)
            budget = self._budget // DTYPE_SHARE
            exploration = Exploration([cell], failing.signature, failing.space, budget)
            ways.append((failing, dtypes[0], exploration))
        explore([exploration for _, _, exploration in ways], self._oracle)
        answers = {}
        for failing, dtype, exploration in ways:
            answer = exploration.answer
            if answer:
                both = replace(answer, use={**answer.use, DTYPE: dtype})
                answers[failing.key] = self._scan.other_settings(failing, both, [failing.place])
        return answers

    def forms(self, failures: Sequence[Failing]) -> dict[str, Fallback]:
        """Return fallbacks to another form of the operator whose kernels all compile."""
        answers: dict[str, Fallback] = {}
        for failing, everywhere in product(failures, (True, False)):
            form = self._form(failing, everywhere)
            if form and failing.key not in answers:
                places = self._places(failing, everywhere)
                answers[failing.key] = self._scan.fallback(failing, {FORM: form}, FORM, places)
        return answers

    def _form(self, failing: Failing, everywhere: bool) -> str | None:
        """Return the best form that works for every call; None if no form does."""
        first, *others = self._calls(failing, everywhere)
        forms = set(self._alternatives.forms(first))
        for call in others:
            forms &= set(self._alternatives.forms(call))
        for form in (*FORMS, *sorted(forms)):
            if form in forms:
                return form
        return None

    def releases(self, failures: Sequence[Failing]) -> dict[str, Fallback]:
        """Return fallbacks to another release that compiles the unchanged cell."""
        first = self._first(failures, self._on_releases)
        versions = triton_releases.known_releases()
        answers = {}
        for failing in failures:
            if failing.key not in first:
                continue
            other = first[failing.key]
            name, version = split(other)
            own_version = split(failing.cell.toolchain)[1]
            steps = abs(versions.index(version) - versions.index(own_version))
            places = [(other, failing.cell.target)]
            use = {name: version}
            fallback = self._scan.fallback(failing, use, RELEASE, places, float(steps))
            answers[failing.key] = fallback
        return answers

    def _on_releases(self, failing: Failing) -> Iterator[_Way]:
        own, available = failing.cell.toolchain, self._scan.plan.choices
        for other in nearest_releases(own, self._toolchains, available):
            yield other, [replace(failing.cell, toolchain=other)]

    def _calls(self, failing: Failing, everywhere: bool) -> list[ObservedCell]:
        """Return the failing cell and its call elsewhere.

        Releases without a feature of the kernel are left out: no settings help there.
        """
        calls = [failing.observation]
        if everywhere:
            for other in self._scan.elsewhere(failing):
                has_verdict = other.compiles or other.fails
                if has_verdict and other.code not in REMOVED_FEATURES:
                    calls.append(other)
        return calls

    def _places(self, failing: Failing, everywhere: bool) -> list[Place]:
        return [call.place for call in self._calls(failing, everywhere)]

    def _first(
        self, failures: Sequence[Failing], ways: Callable[[Failing], Iterator[_Way]]
    ) -> Mapping[str, str]:
        """Return the first way of each failing cell whose cells all compile.

        The next ways of all cells are compiled together, step by step.
        """
        first: dict[str, str] = {}
        open_ways = {failing.key: ways(failing) for failing in failures}
        while open_ways:
            step: dict[str, _Way] = {}
            cells: list[Cell] = []
            for key, remaining in open_ways.items():
                way = next(remaining, None)
                if way:
                    step[key] = way
                    cells += way[1]
            if not step:
                break
            records = self._oracle(cells)
            for key, (name, own_cells) in step.items():
                own_records = [records.get(cell.key) for cell in own_cells]
                if all(map(compiles_fully, own_records)):
                    first[key] = name
            open_ways = {key: open_ways[key] for key in step if key not in first}
        return first


def other_dtypes(dtype: str | None, target: str) -> list[str]:
    """Return the alternative dtypes, best first (bf16 if the GPU has it); none for int and fp8."""
    if dtype not in ("bf16", "fp16", "fp32"):
        return []
    # bf16 has the range of fp32 in half its bytes; fp16 overflows.
    best = ["fp32", "fp16"]
    if targets.find(target).bf16:
        best.insert(0, "bf16")
    return [other for other in best if other != dtype]


def nearest_releases(
    toolchain: str, requested: Iterable[str], available: Iterable[str]
) -> list[str]:
    """Return toolchains by the number of releases between, the requested ones first.

    At equal distance the newer release comes first. A compiler that is not a plain release, such as
    a local build, lacks neighbours.
    """
    versions = triton_releases.known_releases()
    # A requested release is one that the user has or plans to have.
    first = set(requested)
    position = {}
    for name in (*dict.fromkeys(requested), *available, toolchain):
        version = split(name)[1]
        if version in versions:
            position[name] = versions.index(version)
    if toolchain not in position:
        return []
    own = position.pop(toolchain)

    def distance(name: str) -> tuple[bool, int, int]:
        return name not in first, abs(position[name] - own), -position[name]

    return sorted(position, key=distance)
