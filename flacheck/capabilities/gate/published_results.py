"""A gate's evidence, completed by published results where the store is incomplete."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from flacheck.analysis.standing import Standing
from flacheck.baseline.form import Baseline, BaselineQuestion
from flacheck.baseline.standings import name_and_version, standings_of
from flacheck.capabilities.gate.baseline import limit_to
from flacheck.capabilities.gate.compilers import TRITON
from flacheck.capabilities.gate.evidence import Evidence, RecordFilter
from flacheck.capabilities.gate.sources.package_pins import PackagePin
from flacheck.packages import package
from flacheck.pipeline.package_launches import DEFAULT_TARGETS
from flacheck.published.answers import deciding, source, why_not_published
from flacheck.published.form import FileEntry, Header
from flacheck.published.library import ResultsFolder, nearest, why_not_valid
from flacheck.version import __version__


def published_subject(record_filter: RecordFilter) -> tuple[str, ...]:
    """Return the filter's package with its version, or its matrix; nothing for a checkout."""
    if record_filter.compiler is not TRITON or record_filter.is_of_checkout:
        return ()
    if record_filter.package is not None:
        name, version = package.parse(record_filter.package)
        return (f"{name}=={version}",)
    if record_filter.matrix is not None:
        return (record_filter.matrix,)
    return ()


@dataclass(frozen=True)
class PinnedPackages:
    """The packages among a project's pins that have published results.

    `notes` are about those that decide, if there are several, and about pins that do not.
    """

    pins: tuple[PackagePin, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def abouts(self) -> tuple[str, ...]:
        """Each as `name==version`."""
        return tuple(f"{pin.name}=={pin.version}" for pin in self.pins)

    @property
    def names(self) -> str:
        """Each with its version and place."""
        return " and ".join(pin.about for pin in self.pins)


def pinned_packages(library: ResultsFolder, pins: Sequence[PackagePin]) -> PinnedPackages:
    """Return the pinned packages whose versions are published."""
    with_results = []
    notes = []
    exact_names = {pin.name for pin in pins if pin.version is not None}
    for pin in pins:
        about = f"{pin.name}=={pin.version}"
        if pin.version is None and pin.name in exact_names:
            # A lock has the version of the project's range.
            continue
        if pin.version is None:
            notes.append(
                f"{pin.about} admits several versions; pin one, or name it with --package "
                f"{pin.name}==VERSION"
            )
        elif about in library.abouts:
            with_results.append(pin)
        else:
            near = nearest(about, library.abouts)
            notes.append(f"{pin.about} is not published; the nearest published version is {near}")
    packages = PinnedPackages(tuple(with_results))
    if len(with_results) > 1:
        notes.append(f"the published results of {packages.names} decide; --package chooses one")
    return replace(packages, notes=tuple(notes))


def with_published(
    evidence: Evidence,
    library: ResultsFolder,
    record_filter: RecordFilter,
    abouts: Sequence[str],
) -> tuple[Evidence, tuple[str, ...]]:
    """Return the evidence with published standings, and notes on results that were left out.

    Published are standings of packages at exact versions, and of matrices of flacheck's own
    kernels, which `abouts` names; they count on releases and GPUs without a complete standing in
    the store or in the baseline. A failure there always counts.
    """
    on = record_filter.targets or _targets(evidence) or DEFAULT_TARGETS
    settled_places = set()
    for answer in evidence.standings:
        if not answer.is_partial or answer.failing:
            settled_places.add((answer.question.about, *answer.place))
    headers = []
    notes: dict[str, None] = {}
    unpublished = why_not_published(library, abouts)
    if unpublished:
        notes[unpublished] = None
    for entry in library.entries(accepts=lambda entry: entry.about in abouts):
        if entry.target not in on:
            continue
        header = library.header(entry)
        why = why_not_valid(header) or _why_other_keys(library, entry, header)
        if why is not None:
            notes[why] = None
        elif (entry.about, entry.toolchain, entry.target) not in settled_places:
            headers.append(header)
    headers = deciding(headers)
    if headers and record_filter.ops:
        return evidence, ("they hold no call paths, so they do not answer --op",)
    new_standings = []
    for standing in _standings(headers):
        part = limit_to(standing, record_filter)
        if part is not None:
            new_standings.append(part)
    if not new_standings:
        return evidence, tuple(notes)
    places = {(standing.question.about, *standing.place) for standing in new_standings}
    kept = []
    for each in evidence.standings:
        if (each.question.about, *each.place) not in places:
            kept.append(each)
    used_headers = []
    for header in headers:
        if (header.about, *header.place.place) in places:
            used_headers.append(header)
    completed = replace(
        evidence,
        standings=[*kept, *new_standings],
        baseline_standings=[*evidence.baseline_standings, *new_standings],
        published=source(used_headers),
        published_toolchains=tuple(dict.fromkeys(each.toolchain for each in new_standings)),
    )
    return completed, tuple(notes)


def _why_other_keys(library: ResultsFolder, entry: FileEntry, header: Header) -> str | None:
    """Return the reason if this flacheck computes other keys; one of the same version does not."""
    if header.flacheck == __version__ or library.place(entry) is not None:
        return None
    return (
        f"{header.about} under {header.toolchain} on {header.target}: this flacheck computes other "
        "keys than the one that compiled it"
    )


def _targets(evidence: Evidence) -> list[str]:
    return list(dict.fromkeys(each.target for each in evidence.standings))


def _standings(headers: Sequence[Header]) -> Iterator[Standing]:
    """Yield the standing of each file, by its counts."""
    for header in headers:
        name, _ = name_and_version(header.about)
        question = BaselineQuestion(
            about=name,
            selection={"configs": [header.configs]},
            packages=(),
            kernels=header.kernels,
            places=(header.place,),
        )
        baseline = Baseline(flacheck=__version__, accepted_releases=(), questions=(question,))
        yield from standings_of(baseline)
