"""A gate's evidence, completed by published results where the store is incomplete."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flacheck.capabilities.gate.baseline import limit_to
from flacheck.capabilities.gate.compilers import TRITON
from flacheck.capabilities.gate.evidence import Evidence, RecordFilter
from flacheck.capabilities.gate.sources.package_pins import PackagePin
from flacheck.evidence.published.evidence import published_evidence
from flacheck.evidence.published.library import ResultsFolder, nearest
from flacheck.pipeline.package_launches import DEFAULT_TARGETS
from flacheck.source.packages import package


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
    kernels, which `abouts` names. About other subjects of the store they only add failures.
    """
    on = record_filter.targets or _targets(evidence) or DEFAULT_TARGETS
    others = {each.question.about for each in evidence.standings} - set(abouts)
    if record_filter.compiler is not TRITON:
        others = set()
    published = published_evidence(library, [*abouts, *others], on, evidence.own_records)
    notes = tuple(note for note in published.notes if abouts)
    if published.headers and record_filter.ops:
        return evidence, ("they hold no call paths, so they do not answer --op",)
    new_standings = []
    beside = []
    for standing in published.standings:
        part = limit_to(standing, record_filter)
        if part is not None and part.question.about in abouts:
            new_standings.append(part)
        elif part is not None:
            beside.append(part)
    completed = replace(
        evidence,
        standings=[*evidence.standings, *new_standings],
        baseline_standings=[*evidence.baseline_standings, *new_standings, *beside],
        beside=[*evidence.beside, *beside],
        published=published,
    )
    return completed, notes


def _targets(evidence: Evidence) -> list[str]:
    return list(dict.fromkeys(each.target for each in evidence.standings))
