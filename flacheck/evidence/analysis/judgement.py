"""The standing of a subject on each release and GPU by all evidence about it.

Every command passes its evidence through `judge` and shows the result: stored scans, published
results and baselines, whatever configurations they cover. A failure that any of them has counts.
A failure that every compiled release has says nothing about a release, so it is the package's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.order import by_target, by_version
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standing_state import StandingState
from flacheck.model.wire import Code, JsonStruct, NotEmpty, ToolchainName

# The widest question first; a question without a choice of configurations has all of them.
WIDEST = ("own", "edges", "usual")
_UNCLASSIFIED = "FC000"
# Inside the compiler the signature tells failures apart; other codes name one cause, which the
# releases may word differently.
_COMPILER_CODES = ("FC000", "FC2", "FC3", "FC4")
# The fewest minor series that must share a failure before it is the package's.
_MINORS, _COMPILER_MINORS = 2, 3
# The package's own code runs before a kernel is compiled.
_HOST_STAGES = ("import", "call")
_COMPLETE = (StandingState.GOOD, StandingState.SCREENED, StandingState.BAD)

# A kernel, and the cause of its failure: a code or a signature.
_Cause = tuple[str, str]


class PackageFailure(JsonStruct, frozen=True):
    """A kernel that fails for one cause under every compiled release; `line` is an example."""

    kernel: NotEmpty
    package: str | None
    code: Code
    line: str
    toolchains: tuple[ToolchainName, ...]
    targets: tuple[str, ...]


def judge(standings: Iterable[Standing], beside: Iterable[Standing] = ()) -> list[Standing]:
    """Return one standing for each subject, release and GPU of `standings`, in their order.

    Among `standings` the widest complete question gives the numbers, the first of several. The
    standings `beside` only add failures, and releases that are free of one.
    """
    own = list(standings)
    marked = _mark_package_failures([*own, *beside])
    own_marked, beside_marked = marked[: len(own)], marked[len(own) :]
    others = group_by_key((_place_of(each), each) for each in beside_marked)
    by_place = group_by_key((_place_of(each), each) for each in own_marked)
    return [_merge(group, others.get(place, [])) for place, group in by_place.items()]


def subject_of(standing: Standing) -> tuple[str, str]:
    """Return the identity of a question's subject and narrowing, whatever its configurations."""
    source, narrowing = standing.question.scope
    # A package's files are compared before its published results count.
    if "==" in standing.question.about:
        source = standing.question.about
    return source, narrowing


def package_failures(standings: Iterable[Standing]) -> tuple[PackageFailure, ...]:
    """Return the failures that every compiled release has, each kernel and cause once."""
    cells: dict[_Cause, list[ObservedCell]] = {}
    for standing in standings:
        for cell in standing.package_failures:
            cells.setdefault(_cause_of(cell), []).append(cell)
    failures = []
    for _, alike in sorted(cells.items()):
        first = alike[0]
        toolchains = sorted({cell.toolchain for cell in alike}, key=by_version)
        targets = sorted({cell.target for cell in alike}, key=by_target)
        code = first.code or _UNCLASSIFIED
        failures.append(
            PackageFailure(
                first.kernel, first.package, code, first.line, tuple(toolchains), tuple(targets)
            )
        )
    return tuple(failures)


def _place_of(standing: Standing) -> tuple[tuple[str, str], str, str]:
    return (subject_of(standing), *standing.place)


def _merge(group: Sequence[Standing], beside: Sequence[Standing]) -> Standing:
    """Return the deciding standing of one place with the failures of all others."""
    decisive = min(group, key=_weight)
    others = [each for each in (*group, *beside) if each is not decisive]
    added: list[ObservedCell] = []
    package_keys = set(decisive.package_keys)
    sources = dict.fromkeys(decisive.sources)
    for other in others:
        there = replace(
            decisive,
            further_cells=(*decisive.further_cells, *added),
            package_keys=frozenset(package_keys),
        )
        new = _missing_failures(there, other)
        if new:
            added += new
            package_keys |= other.package_keys
            sources.update(dict.fromkeys(other.sources))
    if not added:
        return decisive
    return replace(
        decisive,
        further_cells=(*decisive.further_cells, *added),
        package_keys=frozenset(package_keys),
        sources=tuple(sources),
    )


def _weight(standing: Standing) -> tuple[bool, int]:
    """Return the rank of a question: a complete one first, then the widest."""
    is_open = standing.is_partial or standing.state not in _COMPLETE
    return is_open, WIDEST.index(_configs(standing))


def _missing_failures(there: Standing, other: Standing) -> list[ObservedCell]:
    """Return the failures that only the other standing has.

    Cells that the deciding question answered are left out: its records come first.
    """
    keys = {cell.key for cell in (*there.cells, *there.untested_cells, *there.blocking)}
    failures = [cell for cell in other.blocking if cell.key not in keys]
    if other.stored_shares is None:
        return failures
    # A baseline or the header of a file holds counts, and its cells have keys of their own. A
    # failure of the release is another than one that all releases have.
    counts = Counter(_identity(cell, there) for cell in there.blocking)
    missing = []
    for cell in failures:
        identity = _identity(cell, other)
        if counts[identity]:
            counts[identity] -= 1
        else:
            missing.append(cell)
    return missing


def _identity(cell: ObservedCell, standing: Standing) -> tuple[str, str | None, bool]:
    return cell.kernel, cell.signature, cell.key in standing.package_keys


def _mark_package_failures(standings: Sequence[Standing]) -> list[Standing]:
    """Return the standings, each with the failures that every compiled release has."""
    groups = group_by_key(
        ((subject_of(each), each.target), index) for index, each in enumerate(standings)
    )
    marked = list(standings)
    for indices in groups.values():
        releases = _Releases([standings[index] for index in indices])
        for index in indices:
            keys = releases.package_keys(standings[index])
            if keys or standings[index].package_keys:
                marked[index] = replace(standings[index], package_keys=keys)
    return marked


class _Releases:
    """The standings of one subject on one GPU, to compare the failures of their releases."""

    def __init__(self, standings: Sequence[Standing]) -> None:
        self._standings = standings
        self._counts = [Counter(map(_cause_of, each.blocking)) for each in standings]
        self._compiled = [each.kernels_with_evidence for each in standings]

    def package_keys(self, standing: Standing) -> frozenset[str]:
        """Return the keys of a standing's failures that every compiled release has.

        Of each cause as many cells count as the release with the fewest has; further cells are this
        release's own failures.
        """
        cells: dict[_Cause, list[ObservedCell]] = {}
        for cell in sorted(standing.blocking, key=lambda cell: cell.key):
            cells.setdefault(_cause_of(cell), []).append(cell)
        keys: set[str] = set()
        for alike in cells.values():
            number = self._shared_number(alike[0], standing)
            keys.update(cell.key for cell in alike[:number])
        return frozenset(keys)

    def _shared_number(self, failing: ObservedCell, of: Standing) -> int:
        """Return the fewest failures like this one under any release that compiled its kernel.

        It is 0 if too few minor series have the failure: patch releases share their faults, and a
        fault of the compiler may live for some releases.
        """
        numbers = []
        failing_minors = set()
        for standing, counts, kernels in zip(self._standings, self._counts, self._compiled):
            if not (_is_comparable(failing, of, standing) and _was_tried(failing, kernels)):
                continue
            numbers.append(counts[_cause_of(failing)])
            failing_minors.add(_minor(standing.toolchain))
        if len(failing_minors) < (_COMPILER_MINORS if _is_of_compiler(failing) else _MINORS):
            return 0
        return min(numbers)


def _is_comparable(failing: ObservedCell, of: Standing, other: Standing) -> bool:
    """Return True if another question would show the failure too.

    A refused source or a lack of memory needs the same launches, so only the same configurations
    compare. A fault inside the compiler is compared with everything that is known of the kernel.
    """
    return _is_of_compiler(failing) or _configs(of) == _configs(other)


def _is_of_compiler(cell: ObservedCell) -> bool:
    """Return True for a failure inside the compiler, after its front end."""
    return (cell.code or _UNCLASSIFIED).startswith(_COMPILER_CODES)


def _configs(standing: Standing) -> str:
    configs = standing.question.selection.get("configs") or WIDEST[:1]
    return str(configs[0])


def _was_tried(failing: ObservedCell, kernels: frozenset[str]) -> bool:
    """Return True if a release tried what fails; an import or call has a cell only if it fails."""
    return failing.kernel in kernels or (failing.stage in _HOST_STAGES and bool(kernels))


def _cause_of(cell: ObservedCell) -> _Cause:
    code = cell.code or _UNCLASSIFIED
    if _is_of_compiler(cell):
        return cell.kernel, cell.signature or code
    return cell.kernel, code


def _minor(toolchain: str) -> tuple[str, tuple[int, ...]]:
    """Return the compiler and the minor series of a release."""
    name, version, _ = by_version(toolchain)
    return name, version.release[:2]
