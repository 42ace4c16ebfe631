"""The published part of a question, and the source of an answer in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from flacheck.evidence.analysis.judgement import WIDEST
from flacheck.evidence.analysis.order import by_version
from flacheck.evidence.published.form import FileEntry, Header
from flacheck.evidence.published.library import ResultsFolder, nearest, why_not_valid
from flacheck.evidence.published.packing import PublishedPlace
from flacheck.model.wire import JsonStruct, Natural

_REMEDY = "--fresh compiles here"


class PublishedSource(JsonStruct, frozen=True, kw_only=True):
    """The published results behind an answer.

    `dates` are the days on which they were compiled, `flacheck` the versions that did; `configs`
    are the configurations that they cover. `places` counts releases × GPUs. Of `cells`, `own_cells`
    have a record in the user's store, which comes first. `older_launches` is true if a capture of
    today would make other launches than those of some file.
    """

    dates: Annotated[tuple[str, ...], Meta(min_length=1)]
    flacheck: tuple[str, ...]
    configs: tuple[str, ...]
    places: Natural
    cells: Natural
    own_cells: Natural = 0
    older_launches: bool = False

    @property
    def sentence(self) -> str:
        """`published results of 2026-11-24, flacheck 0.4.0; --fresh compiles here; …`."""
        text = f"{self.origin}; {_REMEDY}"
        if self.configs != ("own",):
            text += f"; they cover --configs {' and '.join(self.configs)}"
        if self.own_cells:
            text += f"; {self.own_cells} of {self.cells} cells are by records of this store"
        return text

    @property
    def origin(self) -> str:
        """`published results of 2026-11-24, flacheck 0.4.0`."""
        text = f"published results of {', '.join(self.dates)}, flacheck {', '.join(self.flacheck)}"
        return f"{text}, by older launches" if self.older_launches else text


def source(headers: Iterable[Header], own_cells: int = 0) -> PublishedSource:
    """Return the source of an answer by some files."""
    all_headers = list(headers)
    return PublishedSource(
        dates=tuple(sorted({header.date for header in all_headers})),
        flacheck=tuple(sorted({header.flacheck for header in all_headers}, key=by_version)),
        configs=tuple(dict.fromkeys(header.configs for header in all_headers)),
        places=len(all_headers),
        cells=sum(header.cells for header in all_headers),
        own_cells=own_cells,
        older_launches=any(header.has_older_launches for header in all_headers),
    )


@dataclass(frozen=True)
class PublishedPart:
    """The published places of a question; `missing` is the reason if some are absent."""

    places: tuple[PublishedPlace, ...]
    missing: str = ""


def widest_entries(
    library: ResultsFolder, about: str, targets: Collection[str] = ()
) -> list[FileEntry]:
    """Return the file with the most configurations of each release and GPU."""
    by_place: dict[tuple[str, str], FileEntry] = {}
    for configs in reversed(WIDEST):
        for entry in library.entries(about, configs):
            if not targets or entry.target in targets:
                by_place[entry.toolchain, entry.target] = entry
    return list(by_place.values())


def widest_configs(library: ResultsFolder, questions: Sequence[tuple[str, str, str]]) -> str:
    """Return the most configurations that are published for every question; `usual` for none."""
    for configs in WIDEST:
        if all(_entry(library, *question, configs) for question in questions):
            return configs
    return "usual"


def places_of(
    library: ResultsFolder, questions: Sequence[tuple[str, str, str]], configs: str
) -> PublishedPart:
    """Return the results of several (package, toolchain, target), or the reason for their absence.

    The reason is empty for a package without any results.
    """
    places: list[PublishedPlace] = []
    absent = []
    present = []
    for question in questions:
        about, toolchain, target = question
        entry = _entry(library, about, toolchain, target, configs)
        if entry is None:
            absent.append(question)
            continue
        present.append(question)
        why = why_not_valid(library.header(entry))
        if why is not None:
            return PublishedPart((), why)
        place = library.place(entry)
        if place is None:
            name = _list_places([question])
            return PublishedPart(
                (), f"{name}: this flacheck computes other keys than the one that compiled it"
            )
        places.append(place)
    if not absent:
        return PublishedPart(tuple(places))
    return PublishedPart((), _absence(library, absent, present, questions, configs))


def _entry(
    library: ResultsFolder, about: str, toolchain: str, target: str, configs: str
) -> FileEntry | None:
    for entry in library.entries(about, configs):
        if (entry.toolchain, entry.target) == (toolchain, target):
            return entry
    return None


def _absence(
    library: ResultsFolder,
    absent: Sequence[tuple[str, str, str]],
    present: Sequence[tuple[str, str, str]],
    questions: Sequence[tuple[str, str, str]],
    configs: str,
) -> str:
    """Return which part of a question is not published, and why."""
    unpublished = why_not_published(library, [about for about, *_ in questions])
    if unpublished or not {about for about, *_ in questions} & set(library.abouts):
        return unpublished
    text = f"{_list_places(absent)} with --configs {configs} is not published"
    if present:
        return f"{text}; {_list_places(present)} is"
    narrower = []
    for other in WIDEST:
        if other == configs:
            continue
        answers = [_entry(library, *question, other) for question in questions]
        if all(answers):
            narrower.append(f"--configs {other}")
    if narrower:
        return f"{text}; {' and '.join(narrower)} is"
    published = []
    for about in dict.fromkeys(about for about, *_ in questions):
        for entry in library.entries(about):
            published.append((about, entry.toolchain, entry.target))
    return f"{text}; {_list_places(published)} is"


def why_not_published(library: ResultsFolder, abouts: Iterable[str]) -> str:
    """Return the nearest published version of each package of which other versions are published.

    The text is empty if there is none.
    """
    reasons = []
    for about in dict.fromkeys(abouts):
        near = nearest(about, library.abouts)
        if about not in library.abouts and near is not None:
            reasons.append(f"{about} is not published; the nearest published version is {near}")
    return "; ".join(reasons)


def _list_places(questions: Iterable[tuple[str, str, str]]) -> str:
    """Return `NAME==VERSION under triton==3.7.1 and triton==3.8.0 on sm90`."""
    by_subject: dict[tuple[str, str], dict[str, None]] = {}
    for about, toolchain, target in questions:
        by_subject.setdefault((about, target), {})[toolchain] = None
    parts = []
    for (about, target), toolchains in by_subject.items():
        parts.append(f"{about} under {', '.join(toolchains)} on {target}")
    return "; ".join(parts)
