"""Stored runs with their analysis, for reports."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import convert

from flacheck.capabilities.scan.run_facts import RunFacts, StaleKernel, run_question
from flacheck.evidence.analysis.context import Context, FormsOf, forms_from_json
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.analysis.judgement import judge
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.slow import SlowCompile, mark_slow
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standings import standings
from flacheck.evidence.analysis.summary import RunView, summarise
from flacheck.evidence.baseline.comparing import contains_failure
from flacheck.evidence.baseline.form import Baseline
from flacheck.evidence.measured.comparison import (
    CardComparison,
    beside_first,
    stored_measurements,
)
from flacheck.evidence.measured.results import MeasureDocument
from flacheck.evidence.published.answers import source
from flacheck.evidence.published.evidence import evidence_beside
from flacheck.evidence.published.library import ResultsFolder
from flacheck.evidence.published.packing import PublishedPlace
from flacheck.model import Purpose, Record, RequestedPlace
from flacheck.model.coverage import PackageCoverage
from flacheck.pipeline.fallbacks import alternatives
from flacheck.pipeline.run import Excuse
from flacheck.source.packages.kernel_locations import KernelLocator
from flacheck.store import Store, StoredRun, questions
from flacheck.tables import advisories
from flacheck.tables.settings import waivers
from flacheck.tables.settings.waivers import Waiver
from flacheck.toolchains import torch_pins, triton_releases

# The id and the source of a run that published results make.
PUBLISHED: Final = "published"


def excuse_of(waived: Sequence[Waiver], baseline: Baseline | None) -> Excuse:
    """Return the excuse for failures that a valid waiver or a baseline lists."""
    valid = waivers.in_force(waived, date.today())

    def is_excused(cell: ObservedCell) -> bool:
        if waivers.are_waived(valid, cell):
            return True
        return baseline is not None and contains_failure(baseline, cell)

    return is_excused


def view(
    store: Store,
    names: Sequence[str],
    waived: Sequence[Waiver] = (),
    baseline: Baseline | None = None,
    library: ResultsFolder | None = None,
) -> RunView:
    """Return stored runs with their analysis.

    Of several runs the newest record of each cell counts. Expired waivers excuse nothing; a
    baseline excuses its failures. Failures of the same subjects by other scans and by the published
    results of `library` count, too.
    """
    runs_by_id = {run.id: run for run in map(store.run, names)}
    runs = sorted(runs_by_id.values(), key=lambda run: run.started, reverse=True)
    forms: dict[tuple[str | None, str], tuple[str, str]] = {}
    for run in runs:
        forms.update(forms_from_json(run.context))
    kernels = [name for run in runs for name in run.context.get("kernels", ())]
    places = questions.of_runs(store, runs)
    own_standings = standings(places, store.current, questions.further_records(store))
    run_standings = judge(own_standings, evidence_beside(own_standings, store, library))
    coverage = [entry for run in runs for entry in run.context.get("coverage", ())]
    context = _context(forms, kernels, coverage, run_standings, places, waived, baseline)
    stored_fallbacks = [
        Fallback.from_json(plain, package)
        for package, plain in store.fallbacks([run.id for run in runs])
    ]
    summary = summarise(_records(store, runs), context).with_searched(stored_fallbacks)
    matrices = dict.fromkeys(run.matrix for run in runs if run.matrix)
    stale_kernels: dict[StaleKernel, None] = {}
    for run in runs:
        stale = convert(run.context.get("stale", ()), tuple[StaleKernel, ...])
        stale_kernels.update(dict.fromkeys(stale))
    newest = runs[0]
    facts = RunFacts(
        id=newest.id,
        started=newest.started,
        flacheck=newest.environment.get("flacheck"),
        python=newest.environment.get("python"),
        platform=newest.environment.get("platform"),
        matrix=", ".join(matrices) or None,
        purpose=newest.purpose,
        question=run_question(run_standings),
        stale=tuple(stale_kernels),
    )
    return RunView(
        run=facts.to_json(),
        records=partial(_records_again, store.path.parent, runs, summary.slow),
        summary=summary,
        mixed=tuple(questions.mixed_captures(places)),
        names=tuple(run.id for run in runs),
        locate=KernelLocator(Path.cwd()).find,
        measured=tuple(_measured(stored_measurements(store), run_standings)),
    )


def _measured(
    documents: Sequence[MeasureDocument], run_standings: Sequence[Standing]
) -> Iterator[CardComparison]:
    """Yield the comparison of each release with the first one of its newest measurement."""
    for standing in run_standings:
        here = [each for each in documents if each.target == standing.target]
        yield from beside_first(here, standing.toolchain, standing.question.about)


def published_view(
    places: Sequence[PublishedPlace],
    waived: Sequence[Waiver] = (),
    beside: Sequence[Standing] = (),
) -> RunView:
    """Return published results about one package or matrix as a run with its analysis.

    Failures of the standings `beside` count, too.
    """
    headers = [place.header for place in places]
    records = [record for place in places for record in place.records]
    forms: dict[tuple[str | None, str], tuple[str, str]] = {}
    coverage: list[PackageCoverage] = []
    fallbacks = []
    for place in places:
        forms.update(place.forms)
        coverage += place.coverage
        for each in place.header.fallbacks:
            fallbacks.append(Fallback.from_reported(each, place.header.package))
    place_standings = judge((place.standing() for place in places), beside)
    kernels = [name for header in headers for name in header.kernels]
    questions_with_keys = [place.place for place in places]
    context = _context(forms, kernels, coverage, place_standings, questions_with_keys, waived, None)
    # The fallbacks were chosen among the same records when the results were made.
    context = replace(context, fallbacks=lambda cells, forms: fallbacks)
    summary = summarise(records, context)
    origin = source(headers)
    facts = RunFacts(
        id=PUBLISHED,
        started=max(origin.dates),
        flacheck=", ".join(origin.flacheck),
        python=", ".join(dict.fromkeys(header.python for header in headers)),
        platform=None,
        matrix=headers[0].about,
        purpose=Purpose.SCAN,
        question=run_question(place_standings),
        stale=(),
        source=PUBLISHED,
        published=origin,
    )
    return RunView(
        run=facts.to_json(),
        records=lambda: mark_slow(records, summary.slow),
        summary=summary,
        locate=KernelLocator(Path.cwd()).find,
        measured=tuple(each for header in headers for each in header.measured),
    )


def _context(
    forms: FormsOf,
    kernels: Sequence[str],
    coverage: Sequence[PackageCoverage],
    all_standings: Sequence[Standing],
    places: Sequence[RequestedPlace],
    waived: Sequence[Waiver],
    baseline: Baseline | None,
) -> Context:
    """Return the context in which records are summarised."""
    valid = waivers.in_force(waived, date.today())
    packages = frozenset[str]().union(*(each.packages for each in all_standings))
    return Context(
        forms=forms,
        torch_for=torch_pins.torch_for,
        specifier=torch_pins.specifier,
        known_triton=triton_releases.known_releases(),
        known_torch=list(torch_pins.pins()),
        coverage=coverage,
        waives=lambda cell: waivers.are_waived(valid, cell),
        in_baseline=lambda cell: baseline is not None and contains_failure(baseline, cell),
        advisories=partial(advisories.of, kernels, packages=packages),
        fallbacks=alternatives.fallbacks,
        standings=all_standings,
        made_up=_made_up(places),
    )


def _made_up(places: Sequence[RequestedPlace]) -> frozenset[str] | None:
    """Return the keys of made-up launches; None if no question is stored."""
    places_with_keys = [place.keys for place in places if place.keys is not None]
    if not places_with_keys:
        return None
    made_up = frozenset[str]().union(*(keys.made_up for keys in places_with_keys))
    # A launch that one question marks as seen counts as seen in all of them.
    return made_up.difference(*(set(keys.possible) - keys.made_up for keys in places_with_keys))


def _records_again(
    folder: Path, runs: Sequence[StoredRun], slow: Mapping[str, SlowCompile]
) -> Iterator[Record]:
    """Yield the records of runs from the store in a folder, slow compiles marked."""
    with Store.open(folder, create=False) as store:
        yield from mark_slow(_records(store, runs), slow)


def _records(store: Store, runs: Sequence[StoredRun]) -> Iterator[Record]:
    """Yield the records of runs, newest first, each cell once."""
    keys: set[str] = set()
    for run in runs:
        for record in store.records(run.id):
            if record.key not in keys:
                # A single run holds each cell once already: nothing to remember.
                if len(runs) > 1:
                    keys.add(record.key)
                yield record
