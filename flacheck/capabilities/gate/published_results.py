"""A gate's evidence, completed by published results where the store is incomplete."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from flacheck.analysis.standing import Standing
from flacheck.baseline.form import Baseline, BaselineQuestion
from flacheck.baseline.standings import name_and_version, standings_of
from flacheck.capabilities.gate.baseline import limit_to
from flacheck.capabilities.gate.compilers import TRITON
from flacheck.capabilities.gate.evidence import Evidence, RecordFilter
from flacheck.packages import package
from flacheck.pipeline.package_launches import DEFAULT_TARGETS
from flacheck.published.answers import deciding, source
from flacheck.published.form import FileEntry, Header
from flacheck.published.library import ResultsFolder, why_not_valid
from flacheck.version import __version__


def with_published(
    evidence: Evidence, library: ResultsFolder, record_filter: RecordFilter
) -> tuple[Evidence, tuple[str, ...]]:
    """Return the evidence with published standings, and notes on results that were left out.

    Published are standings of a package at an exact version, or of a matrix of flacheck's own
    kernels; they count on releases and GPUs without a complete standing in the store or in the
    baseline. A failure there always counts.
    """
    about = _about(record_filter)
    if record_filter.compiler is not TRITON or about is None:
        return evidence, ()
    on = record_filter.targets or _targets(evidence) or DEFAULT_TARGETS
    settled_places = set()
    for answer in evidence.standings:
        if answer.question.about == about and (not answer.is_partial or answer.failing):
            settled_places.add(answer.place)
    headers = []
    notes: dict[str, None] = {}
    for entry in library.entries(about, accepts=lambda entry: entry.target in on):
        header = library.header(entry)
        why = why_not_valid(header) or _why_other_keys(library, entry, header)
        if why is not None:
            notes[why] = None
        elif (entry.toolchain, entry.target) not in settled_places:
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
    places = {standing.place for standing in new_standings}
    kept = [
        each
        for each in evidence.standings
        if each.place not in places or each.question.about != about
    ]
    completed = replace(
        evidence,
        standings=[*kept, *new_standings],
        baseline_standings=[*evidence.baseline_standings, *new_standings],
        published=source(header for header in headers if header.place.place in places),
        published_toolchains=tuple(dict.fromkeys(each.toolchain for each in new_standings)),
    )
    return completed, tuple(notes)


def _about(record_filter: RecordFilter) -> str | None:
    """Return the package with its version, or the matrix; None for a checkout and for neither."""
    if record_filter.package is None:
        return record_filter.matrix
    if record_filter.is_of_checkout:
        return None
    name, version = package.parse(record_filter.package)
    return f"{name}=={version}"


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
