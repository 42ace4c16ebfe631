"""Published results and stored scans about a subject as standings, for every command alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from flacheck.evidence.analysis.judgement import judge, subject_of
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standings import standings
from flacheck.evidence.baseline.form import Baseline, BaselineQuestion
from flacheck.evidence.baseline.standings import name_and_version, standings_of
from flacheck.evidence.measured.comparison import CardComparison, beside_first
from flacheck.evidence.measured.results import MeasureDocument
from flacheck.evidence.published.answers import why_not_published
from flacheck.evidence.published.failure_details import with_details
from flacheck.evidence.published.form import FileEntry, Header, file_name
from flacheck.evidence.published.library import ResultsFolder, why_not_valid
from flacheck.model import Record
from flacheck.store import Store, questions
from flacheck.version import __version__

# Returns the stored records of keys, by key.
OwnRecords = Callable[[Iterable[str]], Mapping[str, Record]]


@dataclass(frozen=True)
class PublishedEvidence:
    """Standings by published results, the headers of their files, and reasons for absent ones."""

    standings: tuple[Standing, ...] = ()
    headers: tuple[Header, ...] = ()
    notes: tuple[str, ...] = ()

    def deciding(self, judged: Iterable[Standing]) -> list[Header]:
        """Return the headers of the files behind some judged standings."""
        files = {source for standing in judged for source in standing.sources}
        return [header for header in self.headers if file_name(header) in files]


def published_evidence(
    library: ResultsFolder,
    abouts: Collection[str],
    targets: Collection[str] = (),
    own_records: OwnRecords | None = None,
) -> PublishedEvidence:
    """Return the standings of packages at exact versions, and of matrices.

    Without `targets` every GPU counts. A failure that a record of the user's own contradicts does
    not count.
    """
    evidence: list[Standing] = []
    headers = []
    notes: dict[str, None] = {}
    unpublished = why_not_published(library, abouts)
    if unpublished:
        notes[unpublished] = None
    for entry in library.entries(accepts=lambda entry: entry.about in abouts):
        if targets and entry.target not in targets:
            continue
        header = library.header(entry)
        why = why_not_valid(header) or _why_other_keys(library, entry, header)
        if why is not None:
            notes[why] = None
            continue
        headers.append(header)
        evidence.append(_standing(library, entry, header, own_records))
    return PublishedEvidence(tuple(evidence), tuple(headers), tuple(notes))


def evidence_beside(
    answers: Sequence[Standing], store: Store | None, library: ResultsFolder | None
) -> list[Standing]:
    """Return all other evidence about the subjects of some standings, on their GPUs."""
    subjects = set(map(subject_of, answers))
    abouts = {standing.question.about for standing in answers}
    targets = {standing.target for standing in answers}
    own_records: OwnRecords | None = None
    evidence: list[Standing] = []
    if store is not None:
        own_records = store.latest_records
        evidence += stored_evidence(store, abouts.__contains__, targets)
    if library is not None:
        evidence += published_evidence(library, abouts, targets, own_records).standings
    return [standing for standing in evidence if subject_of(standing) in subjects]


def stored_evidence(
    store: Store, is_about: Callable[[str], bool], targets: Collection[str] = ()
) -> list[Standing]:
    """Return the standings of a store's questions in force; without `targets` on every GPU."""
    places = []
    for place in questions.in_force(store):
        if is_about(place.question.about) and (not targets or place.request.target in targets):
            places.append(place)
    return standings(places, store.current, questions.further_records(store))


def judged_evidence(
    about: str, targets: Collection[str], store: Store | None, library: ResultsFolder | None
) -> list[Standing]:
    """Return the standing of a package or matrix on each release and GPU with any evidence."""
    evidence: list[Standing] = []
    own_records: OwnRecords | None = None
    if store is not None:
        own_records = store.latest_records
        for standing in stored_evidence(store, about.__eq__, targets):
            if not standing.question.narrowing:
                evidence.append(standing)
    if library is not None:
        evidence += published_evidence(library, [about], targets, own_records).standings
    return judge(evidence)


def card_comparisons(
    headers: Iterable[Header],
    documents: Iterable[MeasureDocument],
    about: str,
    place: tuple[str, str],
) -> tuple[CardComparison, ...]:
    """Return a release beside another one on each GPU; the user's own comparison counts first.

    Args:
        headers: The headers of published files about the place.
        documents: The user's own measurements.
        about: The package.
        place: The release and the target.
    """
    toolchain, target = place
    by_card = {each.card: each for header in headers for each in header.measured}
    here = [each for each in documents if each.target == target]
    for own in beside_first(here, toolchain, about):
        by_card[own.card] = own
    return tuple(by_card.values())


def standing_of(header: Header) -> Standing:
    """Return the standing of a file by the counts of its header."""
    name, _ = name_and_version(header.about)
    question = BaselineQuestion(
        about=name,
        selection={"configs": [header.configs]},
        packages=(),
        kernels=header.kernels,
        places=(header.place,),
    )
    baseline = Baseline(flacheck=__version__, accepted_releases=(), questions=(question,))
    (standing,) = standings_of(baseline)
    return replace(standing, sources=(file_name(header),), stored_sizes=header.sizes)


def detailed_standing(library: ResultsFolder, entry: FileEntry, header: Header) -> Standing:
    """Return the standing of a file; its failures have dtypes, head sizes and operators."""
    plain = standing_of(header)
    return with_details(plain, library.body(entry)) if header.place.failures else plain


def _standing(
    library: ResultsFolder, entry: FileEntry, header: Header, own_records: OwnRecords | None
) -> Standing:
    """Return the standing of a file; failures are compared with the user's own records."""
    plain = detailed_standing(library, entry, header)
    if not header.place.failures:
        return plain
    place = library.place(entry) if own_records is not None else None
    if own_records is None or place is None:
        return plain
    records = {record.key: record for record in place.records}
    own = own_records(records)
    if not own:
        return plain
    standing = place.standing({**records, **own}.values())
    return replace(standing, sources=(file_name(header),))


def _why_other_keys(library: ResultsFolder, entry: FileEntry, header: Header) -> str | None:
    """Return the reason if this flacheck computes other keys than the file's.

    A file of the same version has the same keys.
    """
    if header.flacheck == __version__ or library.place(entry) is not None:
        return None
    return (
        f"{header.about} under {header.toolchain} on {header.target}: this flacheck computes other "
        "keys than the one that compiled it"
    )
