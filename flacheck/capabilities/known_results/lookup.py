"""The look-up of published results; nothing is compiled and nothing is fetched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from msgspec import structs
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from flacheck.capabilities.known_results.document import (
    Known,
    KnownCause,
    KnownGap,
    KnownPair,
    KnownPin,
    KnownPlace,
)
from flacheck.errors import EmptySelection, UsageError, did_you_mean
from flacheck.evidence.analysis.groups import UNCLASSIFIED
from flacheck.evidence.analysis.judgement import WIDEST, judge, package_failures
from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.order import by_target, by_version, split
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standing_state import StandingState, add_shares
from flacheck.evidence.analysis.weight import Reach, weigh
from flacheck.evidence.answers import (
    RankedRelease,
    best_answer,
    candidates,
    look_at,
    scan_command,
)
from flacheck.evidence.baseline.standings import signature_of
from flacheck.evidence.measured.comparison import CardComparison, slow_operators, slow_points
from flacheck.evidence.measured.results import MeasureDocument
from flacheck.evidence.published.combinations import Combination
from flacheck.evidence.published.evidence import card_comparisons, detailed_standing
from flacheck.evidence.published.form import FileEntry, Header, file_name
from flacheck.evidence.published.library import ResultsFolder, nearest, why_not_valid
from flacheck.model.answer import Answer, Point, VerdictWord, make_answer
from flacheck.subjects.inputs import call_paths
from flacheck.subjects.inputs.expand import matches_kernel
from flacheck.tables import advisories, targets
from flacheck.toolchains import torch_pins, triton_releases

_PASSING = (StandingState.GOOD, StandingState.SCREENED)
_T = TypeVar("_T")


@dataclass(frozen=True)
class KnownRequest:
    """A look-up: a package with or without its version, GPUs and releases; empty for all.

    `triton` are the releases, also those of the torch releases that `torch` names. `versions` is
    the range of versions at the end of `package`, if it ends in one.
    """

    package: str
    targets: tuple[str, ...] = ()
    triton: tuple[str, ...] = ()
    torch: str = ""
    versions: SpecifierSet | None = None
    ops: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()

    @property
    def narrowing(self) -> str:
        """The options that select kernels; empty without any."""
        options = {"--op": self.ops, "--kernel": self.kernels, "--dtype": self.dtypes}
        return " ".join(f"{name} {','.join(globs)}" for name, globs in options.items() if globs)

    def narrow(self, standings: Iterable[Standing]) -> Iterator[Standing]:
        """Yield the selected part of each standing that has one."""
        for standing in standings:
            part: Standing | None = standing
            if self.ops:
                part = standing.of_operators(partial(call_paths.matches, self.ops))
            if part is not None and (self.kernels or self.dtypes):
                part = part.of_cells(self._selects)
            if part is not None:
                yield part

    def _selects(self, cell: ObservedCell) -> bool:
        if self.kernels and not matches_kernel(self.kernels, cell.kernel):
            return False
        return not self.dtypes or cell.dtype in self.dtypes

    @property
    def toolchains(self) -> list[str]:
        """The releases as toolchains."""
        return [f"triton=={release}" for release in self.triton]

    def admits(self, toolchain: str) -> bool:
        """Return True for a selected release, or for any if none is selected."""
        return not self.triton or toolchain in self.toolchains

    @cached_property
    def name(self) -> str:
        """The package's or matrix's name."""
        if self.versions is not None:
            return self.package.removesuffix(str(self.versions))
        return self.package.partition("==")[0]

    @property
    def version(self) -> str | None:
        """The package's version; None for all versions or a range of them."""
        if self.versions is not None:
            return None
        return self.package.partition("==")[2] or None

    def is_about(self, about: str) -> bool:
        """Return True for a version of the package that is selected, or for the matrix."""
        name, _, version = about.partition("==")
        if name != self.name or self.version not in (None, version):
            return False
        return self.versions is None or self.versions.contains(version, prereleases=True)


def look_up(
    library: ResultsFolder,
    request: KnownRequest,
    beside: Sequence[Standing] = (),
    documents: Sequence[MeasureDocument] = (),
) -> Known:
    """Return what is published about a package, with the failures of other evidence `beside`.

    The `documents` are the user's own measurements.

    Raises:
        UsageError: If nothing is published about it; the nearest version is named.
    """
    target_names = {targets.find(target).name for target in request.targets}
    accepts = _filter(request, target_names)
    listed = library.combinations()
    entries = library.entries(accepts=accepts)
    gaps = _not_built(listed, library, request, target_names)
    if not entries and not gaps:
        raise UsageError(_unknown(library, listed, request))
    headers = [library.header(entry) for entry in entries]
    # Releases that were not asked for show whose a failure is.
    others = library.entries(accepts=_filter(replace(request, triton=()), target_names))
    published = list(_standings(library, others, request))
    own = [each for each in published if request.admits(each.toolchain)]
    if entries and not own:
        raise EmptySelection(f"{request.package}: no published cell has {request.narrowing}")
    stored = list(request.narrow(beside))
    whole = [each for each in stored if not each.question.narrowing]
    judged, places = [], []
    for standing in sorted(judge([*own, *whole], [*published, *stored]), key=_in_order):
        answers = [header for header in headers if _is_about(header, standing)]
        # Releases and GPUs of the store alone are not published.
        if answers:
            judged.append(standing)
            places.append(_place(standing, answers, documents))
    pairs = tuple(_pairs(places))
    return Known(
        **structs.asdict(_answer(request, headers, judged, gaps, places)),
        schema="flacheck.known/1",
        source="published",
        package=request.package,
        places=tuple(places),
        known_good=pairs,
        pins=tuple(_pins(places)),
        package_failures=package_failures(judged),
        not_built=tuple(gaps),
    )


def _standings(
    library: ResultsFolder, entries: Iterable[FileEntry], request: KnownRequest
) -> Iterator[Standing]:
    """Yield the standing of each file, narrowed to the request's kernels."""
    for entry in entries:
        if not request.narrowing:
            yield detailed_standing(library, entry, library.header(entry))
            continue
        place = library.place(entry)
        if place is not None:
            standing = replace(place.standing(), sources=(entry.file,))
            yield from request.narrow([standing])


def _in_order(standing: Standing) -> tuple[object, ...]:
    return (
        by_version(standing.question.about),
        by_version(standing.toolchain),
        by_target(standing.target),
    )


def _is_about(header: Header, standing: Standing) -> bool:
    place = (header.about, header.toolchain, header.target)
    return place == (standing.question.about, *standing.place)


def _filter(request: KnownRequest, target_names: set[str]) -> Callable[[FileEntry], bool]:
    def accepts(entry: FileEntry) -> bool:
        if not request.is_about(entry.about):
            return False
        if target_names and entry.target not in target_names:
            return False
        return request.admits(entry.toolchain)

    return accepts


def _not_built(
    listed: Iterable[Combination],
    library: ResultsFolder,
    request: KnownRequest,
    target_names: set[str],
) -> list[KnownGap]:
    """Return the listed combinations without a file."""
    there = set()
    for entry in library.manifest.files:
        there.add((entry.about, entry.configs, entry.toolchain, entry.target))
    gaps = []
    for each in listed:
        if not request.is_about(each.about):
            continue
        if target_names and each.target not in target_names:
            continue
        missing = []
        for toolchain in each.toolchains:
            is_selected = request.admits(toolchain)
            if is_selected and (each.about, each.configs, toolchain, each.target) not in there:
                missing.append(toolchain)
        if missing:
            gaps.append(KnownGap.from_value(each, toolchains=tuple(missing)))
    return gaps


def _unknown(library: ResultsFolder, listed: Sequence[Combination], request: KnownRequest) -> str:
    """Return why nothing is published about a request, and what is nearest."""
    abouts = library.abouts + [each.about for each in listed]
    names = sorted({about.partition("==")[0] for about in abouts})
    if request.name not in names:
        hint = did_you_mean(request.name, names)
        return f"nothing is published about {request.name!r}{hint}; there are {', '.join(names)}"
    own = {about for about in abouts if about.partition("==")[0] == request.name}
    if request.version is not None and request.package not in own:
        try:
            near = nearest(str(Version(request.version)) and request.package, own)
        except InvalidVersion:
            raise UsageError(f"{request.package!r}: {request.version!r} is not a version") from None
        return f"{request.package} is not published; the nearest published version is {near}"
    if request.versions is not None and not any(map(request.is_about, own)):
        own = own & set(library.abouts) or own
        there = sorted((about.partition("==")[2] for about in own), key=by_version)
        return (
            f"no published version of {request.name} is {request.versions}; there are "
            f"{', '.join(there)}"
        )
    on = ", ".join(filter(None, [*request.targets, *request.triton]))
    return f"nothing is published about {request.package} on {on}"


def _place(
    standing: Standing, headers: Sequence[Header], documents: Sequence[MeasureDocument]
) -> KnownPlace:
    """Return the answer of a place; its files are the headers."""
    sources = [each for each in headers if file_name(each) in standing.sources]
    first = (sources or headers)[0]
    release = split(standing.toolchain)[1]
    torch: Sequence[str] = ()
    against: Sequence[str] = ()
    if standing.toolchain.startswith("triton=="):
        torch = torch_pins.torch_for(release)
        packages = [first.about] if first.version else []
        against = advisories.of(sorted(standing.kernels), release, standing.target, packages)
    deciding = [each.kernel for each in weigh(standing) if each.reach is Reach.MODELS]
    return KnownPlace.from_value(
        first,
        configs=" and ".join(sorted({header.configs for header in headers}, key=WIDEST.index)),
        torch=tuple(torch),
        standing=standing.state,
        cells=standing.answered_count,
        configurations=standing.configurations,
        kernels=standing.kernel_share,
        sizes=standing.sizes,
        older_launches=any(header.has_older_launches for header in headers),
        untested_kernels=tuple(sorted(standing.untested_kernels)),
        failing_kernels=tuple(sorted({cell.kernel for cell in standing.failing})),
        deciding_kernels=tuple(deciding),
        causes=tuple(_causes(standing.failing)),
        advisories=tuple(against),
        fallbacks=_each_once(_of_kernels(standing, headers, "fallbacks")),
        highlights=_each_once(_of_kernels(standing, headers, "highlights")),
        measured=card_comparisons(headers, documents, standing.question.about, standing.place),
        reason=why_not_valid(first),
    )


def _of_kernels(standing: Standing, headers: Iterable[Header], name: str) -> Iterator[Any]:
    for header in headers:
        for each in getattr(header, name):
            if each.kernel in standing.kernels:
                yield each


def _each_once(items: Iterable[_T]) -> tuple[_T, ...]:
    """Return items without repetition; a kernel may be in the files of several configurations."""
    different: list[_T] = []
    for item in items:
        if item not in different:
            different.append(item)
    return tuple(different)


def _causes(failing: Iterable[ObservedCell]) -> Iterator[KnownCause]:
    """Yield each cause of failures with its kernels."""
    by_signature = group_by_key((signature_of(cell), cell) for cell in failing)
    for signature, cells in sorted(by_signature.items()):
        yield KnownCause(
            code=cells[0].code or UNCLASSIFIED,
            signature=signature,
            line=cells[0].line,
            kernels=dict(sorted(Counter(cell.kernel for cell in cells).items())),
        )


def _pairs(places: Iterable[KnownPlace]) -> list[KnownPair]:
    """Return the releases that are good or screened, each with its GPUs."""
    groups: dict[tuple[str, str, str, str], list[KnownPlace]] = {}
    for place in places:
        if place.standing in _PASSING:
            key = (place.about, place.configs, place.toolchain, place.standing.value)
            groups.setdefault(key, []).append(place)
    pairs = []
    for (about, configs, toolchain, standing), own in groups.items():
        against = dict.fromkeys(text for place in own for text in place.advisories)
        pairs.append(
            KnownPair(
                about=about,
                configs=configs,
                toolchain=toolchain,
                torch=own[0].torch,
                targets=tuple(sorted((place.target for place in own), key=by_target)),
                standing="good" if standing == "good" else "screened",
                configurations=add_shares(place.configurations for place in own),
                kernels=add_shares(place.kernels for place in own),
                advisories=tuple(against),
            )
        )
    return pairs


def _pins(places: Sequence[KnownPlace]) -> list[KnownPin]:
    """Return the narrowest requirements on each GPU that admit the passing releases alone."""
    pins = []
    questions = dict.fromkeys((place.about, place.target) for place in places)
    for about, target in questions:
        own = [place for place in places if (place.about, place.target) == (about, target)]
        good = []
        for place in own:
            if place.standing in _PASSING and not place.advisories:
                good.append(split(place.toolchain)[1])
        triton = torch_pins.specifier("triton", good, triton_releases.known_releases())
        if triton is None:
            continue
        torches = [torch for release in good for torch in torch_pins.torch_for(release)]
        torch = torch_pins.specifier("torch", torches, list(torch_pins.pins()))
        pins.append(KnownPin(about=about, target=target, triton=triton, torch=torch))
    return pins


def _answer(
    request: KnownRequest,
    headers: Sequence[Header],
    judged: Sequence[Standing],
    gaps: Sequence[KnownGap],
    places: Sequence[KnownPlace],
) -> Answer:
    """Return the best version and release, or what the project lists."""
    if not headers:
        text = f"nothing is published about {request.package} on these GPUs and releases"
        (first, *_) = gaps
        command = scan_command(first.about, first.toolchains[-1], first.target)
        listed = Point(f"the project lists, and has not built, {_list_gaps(gaps)}")
        return make_answer(
            VerdictWord.UNKNOWN, text, (listed,), f"scan it here: {command}", (command,)
        )
    remedies: dict[str, str] = {}
    for header in headers:
        for each in header.fallbacks:
            use = ", ".join(f"{name}={value}" for name, value in each.use.items())
            remedies.setdefault(each.kernel, f"use {use}")
    best, *others = candidates(judged, remedies)
    measured: dict[str, list[CardComparison]] = {}
    for place in places:
        if place.about == best.about:
            measured.setdefault(place.toolchain, []).extend(place.measured)
    slow = slow_operators(measured, best.toolchain)
    ranked = [replace(best, further=tuple(slow_points(slow))), *others]
    return best_answer(ranked, tuple(_next_commands(ranked[0])))


def _next_commands(best: RankedRelease) -> Iterator[str]:
    """Yield the commands that look at the best release and its first failure."""
    target = best.targets[0]
    if "==" not in best.about:
        yield scan_command(best.about, best.toolchain, target)
        return
    yield from look_at(best, best.failures)
    release = split(best.toolchain)[1]
    yield f"flacheck check --package {best.about} --target {target} --triton {release}"


def _list_gaps(gaps: Sequence[KnownGap]) -> str:
    parts = []
    for gap in gaps[:4]:
        names = ", ".join(split(each)[1] for each in gap.toolchains)
        parts.append(f"{gap.about} on {gap.target} under {names}")
    return "; ".join(parts)


def releases_of_torch(requirement: str) -> tuple[str, ...]:
    """Return every Triton release that the torch releases of a requirement admit.

    Raises:
        UsageError: If the requirement is malformed, or no release of torch matches it.
    """
    text = requirement.removeprefix("torch")
    try:
        specifiers = SpecifierSet(text)
    except InvalidSpecifier:
        raise UsageError(f"--torch {requirement}: not a requirement; write 2.12 or >=2.9") from None
    pins = {torch: pin for torch, pin in torch_pins.pins().items() if torch in specifiers}
    if not pins:
        newest = max(torch_pins.pins(), key=Version)
        raise UsageError(f"--torch {text}: no known release matches; the newest is {newest}")
    releases: dict[str, None] = {}
    known = list(map(Version, triton_releases.known_releases()))
    for pin in pins.values():
        for version in SpecifierSet(pin).filter(known):
            releases[str(version)] = None
    return tuple(releases)
