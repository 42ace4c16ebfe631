"""The look-up of published results; nothing is compiled and nothing is fetched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

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
from flacheck.errors import UsageError, did_you_mean
from flacheck.evidence.analysis.groups import UNCLASSIFIED
from flacheck.evidence.analysis.judgement import WIDEST, judge, package_failures
from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.order import by_target, by_version, count_noun, split
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standing_state import StandingState, add_shares
from flacheck.evidence.baseline.standings import signature_of
from flacheck.evidence.published.answers import source
from flacheck.evidence.published.combinations import Combination
from flacheck.evidence.published.evidence import standing_of
from flacheck.evidence.published.form import FileEntry, Header, file_name
from flacheck.evidence.published.library import ResultsFolder, nearest, why_not_valid
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

    @property
    def toolchains(self) -> list[str]:
        """The releases as toolchains."""
        return [f"triton=={release}" for release in self.triton]

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
    library: ResultsFolder, request: KnownRequest, beside: Sequence[Standing] = ()
) -> Known:
    """Return what is published about a package, with the failures of other evidence `beside`.

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
    published = [standing_of(library.header(entry)) for entry in others]
    own = [each for each in published if not request.triton or each.toolchain in request.toolchains]
    judged = judge(own, [*published, *beside])
    places = []
    for standing in sorted(judged, key=_in_order):
        answers = [header for header in headers if _is_about(header, standing)]
        places.append(_place(standing, answers))
    pairs = tuple(_pairs(places))
    return Known(
        schema="flacheck.known/1",
        source="published",
        package=request.package,
        answer=_answer(request, headers, places, pairs, gaps),
        places=tuple(places),
        known_good=pairs,
        pins=tuple(_pins(places)),
        package_failures=package_failures(judged),
        not_built=tuple(gaps),
    )


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
        return not request.triton or split(entry.toolchain)[1] in request.triton

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
            is_selected = not request.triton or split(toolchain)[1] in request.triton
            if is_selected and (each.about, each.configs, toolchain, each.target) not in there:
                missing.append(toolchain)
        if missing:
            gaps.append(
                KnownGap(
                    about=each.about,
                    configs=each.configs,
                    target=each.target,
                    toolchains=tuple(missing),
                )
            )
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


def _place(standing: Standing, headers: Sequence[Header]) -> KnownPlace:
    """Return the answer of a place; its files are the headers."""
    first = next(each for each in headers if file_name(each) in standing.sources)
    release = split(standing.toolchain)[1]
    torch: Sequence[str] = ()
    against: Sequence[str] = ()
    kernels = dict.fromkeys(kernel for header in headers for kernel in header.kernels)
    if standing.toolchain.startswith("triton=="):
        torch = torch_pins.torch_for(release)
        packages = [first.about] if first.version else []
        against = advisories.of(list(kernels), release, standing.target, packages)
    return KnownPlace(
        about=first.about,
        configs=" and ".join(sorted({header.configs for header in headers}, key=WIDEST.index)),
        toolchain=standing.toolchain,
        torch=tuple(torch),
        target=standing.target,
        standing=standing.state,
        cells=standing.answered_count,
        configurations=standing.configurations,
        kernels=standing.kernel_share,
        sizes=standing.sizes,
        older_launches=any(header.has_older_launches for header in headers),
        untested_kernels=tuple(sorted(standing.untested_kernels)),
        failing_kernels=tuple(sorted({cell.kernel for cell in standing.failing})),
        causes=tuple(_causes(standing.failing)),
        advisories=tuple(against),
        fallbacks=_each_once(each for header in headers for each in header.fallbacks),
        highlights=_each_once(each for header in headers for each in header.highlights),
        date=first.date,
        flacheck=first.flacheck,
        python=first.python,
        reason=why_not_valid(first),
    )


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
    known_places: Sequence[KnownPlace],
    pairs: Sequence[KnownPair],
    gaps: Sequence[KnownGap],
) -> str:
    """Return the answer in one sentence."""
    if not headers:
        return f"{request.package}: not built; the project lists {_list_gaps(gaps)}"
    origin = source(headers).origin
    is_matrix = headers[0].version is None
    if request.version is None and request.triton and not is_matrix:
        return f"{_fitting(request, known_places, pairs)} ({origin})"
    name = request.package
    if is_matrix:
        name = f"flacheck's own kernels (matrix {request.package})"
    releases = sorted({pair.toolchain for pair in pairs}, key=by_version)
    versions = sorted({pair.about for pair in pairs}, key=lambda about: by_version(about))
    places = count_noun(len(known_places), "pair of release and GPU", "pairs of release and GPU")
    if not releases:
        return f"{name}: none of {places} is good or screened ({origin})"
    passing = sum(len(pair.targets) for pair in pairs)
    verb = "is" if passing == 1 else "are"
    text = f"{name}: {passing} of {places} {verb} good or screened"
    if request.version is None and len({header.about for header in headers}) > 1:
        text += f", of {', '.join(about.partition('==')[2] for about in versions)}"
    return f"{text} ({origin})"


def _fitting(
    request: KnownRequest, places: Sequence[KnownPlace], pairs: Sequence[KnownPair]
) -> str:
    """Return the versions of a package that fit some releases: they pass on every published GPU."""
    of_releases = f"torch {request.torch}"
    if not request.torch:
        of_releases = f"Triton {', '.join(request.triton)}"
    passing_places = set()
    for pair in pairs:
        for target in pair.targets:
            passing_places.add((pair.about, pair.toolchain, target))
    failing_releases = set()
    for place in places:
        if (place.about, place.toolchain, place.target) not in passing_places:
            failing_releases.add((place.about, place.toolchain))
    on = sorted({place.target for place in places}, key=by_target)
    fitting = []
    others = []
    for about in sorted({place.about for place in places}, key=by_version):
        version = about.partition("==")[2]
        own = [place for place in places if place.about == about]
        own_targets = sorted({place.target for place in own}, key=by_target)
        releases = []
        for toolchain in sorted({place.toolchain for place in own}, key=by_version):
            if (about, toolchain) not in failing_releases:
                releases.append(split(toolchain)[1])
        if not releases:
            others.append(version)
            continue
        part = f"{version} (Triton {', '.join(releases)}"
        if own_targets != on:
            part += f"; published for {', '.join(own_targets)}"
        fitting.append(f"{part})")
    where = f"{of_releases} on {', '.join(on)}"
    if not fitting:
        text = f"{request.package}: none of {', '.join(others)} fits {where}"
        return f"{text}; {_nearest_version(places)}"
    verb = "fits" if len(fitting) == 1 else "fit"
    text = f"{request.package}: {', '.join(fitting)} {verb} {where}"
    if others:
        text += f", and not {', '.join(others)}"
    return text


def _nearest_version(places: Sequence[KnownPlace]) -> str:
    """Return the version, release and GPU with the fewest failing kernels, the newest of several.

    The text is `0.6.0 comes nearest: 2 kernels fail under Triton 3.7.1 (torch 2.12.1) on sm90`.
    """
    best = None
    fewest = 0
    for place in sorted(places, key=lambda each: by_version(each.about), reverse=True):
        failing = place.failing_kernels
        if best is None or len(failing) < fewest:
            best, fewest = place, len(failing)
    assert best is not None
    release = split(best.toolchain)[1]
    under = f"Triton {release}"
    torches = torch_pins.torch_for(release)
    if torches:
        under += f" (torch {', '.join(torches)})"
    version = best.about.partition("==")[2]
    number = count_noun(fewest, "kernel fails", "kernels fail")
    return f"{version} comes nearest: {number} under {under} on {best.target}"


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
