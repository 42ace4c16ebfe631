"""Which toolchains are known good for which targets, and the specifiers that pin them."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from flacheck.analysis.context import Context
from flacheck.analysis.observed import Observed
from flacheck.analysis.order import by_target, by_version, split
from flacheck.model import Verdict

K = TypeVar("K", bound=Hashable)
Place = tuple[str, str]


@dataclass(frozen=True)
class KnownGood:
    """A Triton release with the torch releases that pin it and the targets it is known good for."""

    triton: str
    torch: tuple[str, ...]
    targets: tuple[str, ...]
    cells: int
    advisories: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Specifier:
    """What to pin for a target (`triton>=3.4.0,<3.9`); `torch` is None if none fits."""

    target: str
    triton: str
    torch: str | None


def is_good(cells: Sequence[Observed]) -> bool:
    """Whether a toolchain is "known good" (docs/concepts.md) on a target, by its cells there."""
    compiled = {cell.launch for cell in cells if cell.compiles}
    for cell in cells:
        # One that was stopped before its last stage is not known to compile.
        if cell.partial or cell.verdict is Verdict.UNKNOWN:
            return False
        if cell.launch not in compiled or (cell.fails and not cell.tolerated):
            return False
    return bool(compiled)


def unserved(cells: Sequence[Observed]) -> list[Observed]:
    """The failures that matter: untolerated, or of a launch that no configuration compiles."""
    served = {(cell.place, cell.launch) for cell in cells if cell.compiles}
    return [
        cell
        for cell in cells
        if cell.fails and not (cell.tolerated and (cell.place, cell.launch) in served)
    ]


def known_good(cells: Sequence[Observed], context: Context) -> list[KnownGood]:
    """The Triton releases that are known good for at least one target, oldest first."""
    places = {place: there for place, there in _triton_places(cells).items() if is_good(there)}
    targets = grouped((version, target) for version, target in places)
    releases = []
    for version in sorted(targets, key=by_version):
        on = sorted(targets[version], key=by_target)
        advisories = [
            said for target in targets[version] for said in context.advisories(version, target)
        ]
        there = [cell for target in on for cell in places[version, target]]
        count = sum(cell.verdict is not Verdict.SKIPPED for cell in there)
        torch: Sequence[str] = ()
        # No torch pins a local build, whatever its public version.
        if "+" not in version:
            torch = sorted(context.torch_for(version), key=by_version)
        releases.append(KnownGood(version, tuple(torch), tuple(on), count, tuple(advisories)))
    return releases


def specifiers(
    cells: Sequence[Observed], good: Sequence[KnownGood], context: Context
) -> list[Specifier]:
    """What to pin, for each target that has a known-good release from an index."""
    asked = sorted({version for version, _ in _triton_places(cells)}, key=by_version)
    # A requirement cannot name a local build: no index has it.
    known = [version for version in (context.known_triton or asked) if "+" not in version]
    known_torch = context.known_torch or sorted(
        {torch for version in known for torch in context.torch_for(version)}, key=by_version
    )
    specifiers = []
    for target in sorted({target for release in good for target in release.targets}, key=by_target):
        there = [release for release in good if target in release.targets]
        triton = [release.triton for release in there if "+" not in release.triton]
        torch = sorted({torch for release in there for torch in release.torch}, key=by_version)
        pinned, pinned_torch = None, None
        if triton:
            pinned = context.specifier("triton", triton, known)
        if torch:
            pinned_torch = context.specifier("torch", torch, known_torch)
        if pinned:
            specifiers.append(Specifier(target, pinned, pinned_torch))
    return specifiers


def grouped(pairs: Iterable[tuple[K, Any]]) -> Mapping[K, list[Any]]:
    """Values by key, in order of appearance."""
    out: defaultdict[K, list[Any]] = defaultdict(list)
    for key, value in pairs:
        out[key].append(value)
    return out


def _triton_places(cells: Iterable[Observed]) -> Mapping[Place, list[Observed]]:
    named = ((split(cell.toolchain), cell) for cell in cells)
    return grouped(
        ((version, cell.target), cell) for (name, version), cell in named if name == "triton"
    )
