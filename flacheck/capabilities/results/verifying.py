"""Verification of published results: drawn cells are compiled again and compared."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from flacheck.capabilities.results.building import job_of, unclassified_failures
from flacheck.engine.judge import judge
from flacheck.errors import EmptySelection, Exit
from flacheck.evidence.published.combinations import Combination
from flacheck.evidence.published.form import FileEntry
from flacheck.evidence.published.library import ResultsFolder
from flacheck.evidence.published.packing import PublishedPlace, digest_of_keys
from flacheck.model import Cell, Record, Verdict
from flacheck.pipeline import planning
from flacheck.pipeline.events import Event, Progress, RecordSettled
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import run_plan
from flacheck.store import Store

# Combinations that the cells are drawn from.
PLACES = 6
_RESOURCES = ("shared", "registers", "stack", "spills")


@dataclass(frozen=True)
class BrokenResult:
    """A published result that does not hold: where, which cell, what was published and what is."""

    file: str
    kernel: str
    what: str
    published: str
    now: str


@dataclass(frozen=True)
class Verification:
    """The outcome of a verification.

    Attributes:
        cells: The number of cells that were compiled again.
        files: The files that they come from.
        broken: The results that do not hold.
        notes: Cells that could not be compiled here, for example.
    """

    cells: int
    files: tuple[str, ...]
    broken: tuple[BrokenResult, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> Exit:
        """FINDINGS if a result does not hold."""
        if self.broken:
            return Exit.FINDINGS
        if not self.cells:
            return Exit.INCOMPLETE
        return Exit.OK


def verify(
    library: ResultsFolder,
    store: Store,
    sample: int,
    seed: int,
    options: RunOptions,
    places: int = PLACES,
) -> Generator[Event, None, Verification]:
    """Compile drawn cells of drawn places again; compare verdict, signature and resources.

    Args:
        library: The results.
        store: An empty store for the new records.
        sample: The number of cells.
        seed: The seed of the draw.
        options: How the cells are compiled.
        places: The number of files to draw from.

    Raises:
        EmptySelection: If nothing is published.
    """
    drawing = random.Random(seed)
    entries = library.entries()
    if not entries:
        raise EmptySelection(f"{library.folder} holds no results to verify")
    drawn = sorted(drawing.sample(entries, min(places, len(entries))), key=lambda each: each.file)
    broken = list(find_unclassified(library, entries))
    notes: list[str] = []
    published: list[tuple[FileEntry, PublishedPlace]] = []
    for entry in drawn:
        place = library.place(entry)
        if place is None:
            broken.append(BrokenResult(entry.file, "", "keys", "its own", "another form of key"))
        else:
            published.append((entry, place))
    count = 0
    left = sample
    for number, (entry, place) in enumerate(published):
        share = -(-left // (len(published) - number))
        left -= share
        yield Progress(f"verifying {entry.file}")
        records = sorted(_verifiable(place), key=lambda record: record.key)
        chosen = {each.key: each for each in drawing.sample(records, min(share, len(records)))}
        outcome = yield from _verify_place(entry, place, chosen, store, options)
        broken += outcome.broken
        notes += outcome.notes
        count += outcome.cells
    files = tuple(entry.file for entry, _ in published)
    return Verification(count, files, tuple(broken), tuple(notes))


def find_unclassified(
    library: ResultsFolder, entries: Sequence[FileEntry]
) -> Iterator[BrokenResult]:
    """Yield the published failures without a rule, of all files: each may be flacheck's own."""
    for entry in entries:
        place = library.place(entry)
        for record in unclassified_failures(place.records if place else ()):
            line = record.message.partition("\n")[0]
            published = f"{record.code}: {line}"
            yield BrokenResult(entry.file, record.kernel, "code", published, "a rule's code")


def _verifiable(place: PublishedPlace) -> list[Record]:
    """Return the requested records with a verdict that a compile makes, not the capture."""
    records = []
    for record in place.records:
        has_verdict = record.verdict in (Verdict.COMPILES, Verdict.FAILS)
        is_compiled = record.cell.stage in ("compile", "autotune")
        if has_verdict and is_compiled and record.key in place.keys.kernels:
            records.append(record)
    return records


def _verify_place(
    entry: FileEntry,
    place: PublishedPlace,
    chosen: Mapping[str, Record],
    store: Store,
    options: RunOptions,
) -> Generator[Event, None, Verification]:
    header = place.header
    combination = Combination(
        header.about,
        header.configs,
        (header.toolchain,),
        header.target,
        header.version is not None,
        True,
    )
    plan = planning.plan_job(job_of(combination, options))
    broken = []
    cells = {cell.key: cell for cell in plan.cells}
    if digest_of_keys(cells) != header.keys:
        missing = sum(key not in cells for key in place.keys.kernels)
        extra = len(cells) - len(place.keys.kernels) + missing
        now = f"{len(cells)} cells, {missing} published ones missing, {extra} new"
        was = f"{len(place.keys.kernels)} cells"
        broken.append(BrokenResult(entry.file, "", "keys", was, now))
    # The capture has made the records of imports again, so all of them are compared.
    for record in place.records:
        attempt = plan.attempts.get(record.key)
        if attempt is not None and record.key in cells:
            new_record = judge(cells[record.key], attempt)
            for what, was, now in _differences(record, new_record):
                broken.append(BrokenResult(entry.file, record.kernel, what, was, now))
    drawn_cells = [cells[key] for key in sorted(chosen) if key in cells]
    if not drawn_cells:
        return Verification(0, (entry.file,), tuple(broken))
    new = yield from _compile(drawn_cells, plan, store, options)
    notes = []
    for key, record in sorted(new.items()):
        if record.verdict is Verdict.UNKNOWN:
            notes.append(f"{entry.file}: {record.kernel} has no verdict here: {record.reason}")
            continue
        for what, was, now in _differences(chosen[key], record):
            broken.append(BrokenResult(entry.file, record.kernel, what, was, now))
    return Verification(len(new), (entry.file,), tuple(broken), tuple(notes))


def _compile(
    cells: Sequence[Cell], plan: Plan, store: Store, options: RunOptions
) -> Generator[Event, None, dict[str, Record]]:
    """Compile cells of a plan; return their records by key."""
    own_cells = [replace(cell, alternatives=()).with_key(cell.key) for cell in cells]
    part = replace(plan, cells=own_cells, whole=None)
    keys = {cell.key for cell in own_cells}
    records = {}
    events = run_plan(part, store, replace(options, fresh=True))
    for event in events:
        if isinstance(event, RecordSettled) and event.record.key in keys:
            records[event.record.key] = event.record
        yield event
    return records


def _differences(before: Record, after: Record) -> list[tuple[str, str, str]]:
    """Return what differs between two records of a cell: verdict, signature, resources."""
    pairs = [
        ("verdict", before.verdict.value, after.verdict.value),
        ("signature", before.signature, after.signature),
    ]
    for name in _RESOURCES:
        pairs.append((name, before.resources.get(name), after.resources.get(name)))
    return [(what, str(was), str(now)) for what, was, now in pairs if was != now]
