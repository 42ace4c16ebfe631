"""Building published results: each combination is scanned, and every place becomes a file."""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from flacheck import files, rules
from flacheck.errors import EmptySelection, FlacheckError, IncompleteError, UsageError
from flacheck.evidence.analysis.fallbacks import ReportedFallback
from flacheck.evidence.analysis.observation import observe
from flacheck.evidence.analysis.order import count_noun
from flacheck.evidence.analysis.untested_cells import separate_untested
from flacheck.evidence.measured.comparison import beside_first, stored_measurements
from flacheck.evidence.published.combinations import Combination
from flacheck.evidence.published.form import (
    MOST_BYTES,
    CaptureFacts,
    FileEntry,
    decode_body,
    decode_header,
    encode,
    file_name,
    manifest_text,
)
from flacheck.evidence.published.library import COMBINATIONS, MANIFEST, matrix_digest
from flacheck.evidence.published.packing import ResultsOrigin, SubjectFacts, pack
from flacheck.model import Record, RequestedPlace
from flacheck.pipeline import planning
from flacheck.pipeline.capture_facts import facts_of, warnings_of
from flacheck.pipeline.events import Event, Progress
from flacheck.pipeline.fallbacks import alternatives
from flacheck.pipeline.job import Job, RunOptions
from flacheck.pipeline.package_launches import CapturedPackage, PackageCapture
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import run_plan
from flacheck.source import modules, python_versions, syntax
from flacheck.source.packages.package import Package
from flacheck.source.python_versions import PythonVersions
from flacheck.store import Store, questions
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from flacheck.version import __version__

_SHARD = re.compile(r"(\d+)/(\d+)")


@dataclass(frozen=True)
class Building:
    """A build of results.

    Attributes:
        file: The YAML file of combinations.
        combinations: What to build.
        folder: Where the files go.
        options: How the cells are compiled.
    """

    file: Path
    combinations: Sequence[Combination]
    folder: Path
    options: RunOptions

    def missing(self, combination: Combination) -> list[str]:
        """Return the releases of a combination without a file of this flacheck's launches."""
        toolchains = []
        for toolchain in combination.toolchains:
            path = self.folder / combination.file_of(toolchain)
            if self.options.fresh or not _is_current(path):
                toolchains.append(toolchain)
        return toolchains


def _is_current(path: Path) -> bool:
    if not path.is_file():
        return False
    header = decode_header(files.read_bytes(path, MOST_BYTES), str(path))
    return header.flacheck == __version__ and not header.has_older_launches


def select(
    combinations: Iterable[Combination], shard: str | None, names: Sequence[str], all_: bool
) -> list[Combination]:
    """Return the combinations to build: those that are shipped, or all, or a part of them.

    Raises:
        UsageError: If the shard is malformed.
        EmptySelection: If nothing is left.
    """
    selection = []
    for each in combinations:
        is_named = each.about in names or each.about.partition("==")[0] in names
        if is_named or (not names and (all_ or each.is_shipped)):
            selection.append(each)
    if not selection:
        raise EmptySelection(
            f"no combination is about {', '.join(names)}" if names else "no combination is shipped"
        )
    if shard is None:
        return selection
    match = _SHARD.fullmatch(shard)
    index, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= index <= count:
        raise UsageError(f"--shard {shard}: expected I/N with 1 ≤ I ≤ N, for example 2/8")
    return selection[index - 1 :: count]


def build(building: Building, store: Store) -> Generator[Event, None, list[FileEntry]]:
    """Compile the cells that lack a record, and write a file for each place.

    A release whose file exists and was written by this flacheck version is left out, so that an
    interrupted build continues. Returns the entries of the folder's new manifest.

    Raises:
        IncompleteError: If a combination could not be built, or has a failure without a rule; the
            others are built.
    """
    building.folder.mkdir(parents=True, exist_ok=True)
    failures = []
    for number, combination in enumerate(building.combinations, 1):
        of = f"{number} of {len(building.combinations)}"
        toolchains = building.missing(combination)
        _add_measurements(combination, building, store)
        if not toolchains:
            yield Progress(f"{combination.name} is built ({of})")
            continue
        yield Progress(f"building {combination.name} ({of})")
        # One that cannot be built, for want of a release say, leaves the others possible.
        try:
            yield from _build_one(combination, toolchains, building, store)
        except FlacheckError as error:
            failures.append(f"{combination.name}: {error}")
            yield Progress(f"not built: {failures[-1]}")
    entries = write_manifest(building.folder, building.file)
    size = sum(entry.bytes for entry in entries)
    yield Progress(f"{building.folder}: {count_noun(len(entries), 'file')}, {size:,} bytes")
    if failures:
        number_of = count_noun(len(failures), "combination is", "combinations are")
        raise IncompleteError(
            f"{number_of} not built; the same command tries again: {'; '.join(failures)}"
        )
    return entries


def job_of(combination: Combination, options: RunOptions, toolchains: Sequence[str] = ()) -> Job:
    """Return the scan of a combination, or of some of its releases."""
    subject = Subject(matrix=combination.about, configs=combination.configs)
    if combination.is_package:
        subject = Subject(package=combination.about, configs=combination.configs)
    selection = Selection(
        targets=(combination.target,), toolchains=tuple(toolchains or combination.toolchains)
    )
    return Job(subject, selection, options)


def _build_one(
    combination: Combination, toolchains: Sequence[str], building: Building, store: Store
) -> Generator[Event, None, None]:
    """Build a combination release by release, so that each file is there as soon as it can be."""
    if len(toolchains) > 1:
        # The captures are made side by side, and each release then has its own in the cache.
        job = job_of(combination, building.options, toolchains)
        with planning.capture(planning.resolve(job)):
            yield Progress(f"{combination.name}: captured")
    for toolchain in toolchains:
        yield Progress(f"{combination.name}: {toolchain}")
        yield from _build_release(combination, toolchain, building, store)
        # After each, so that an interrupted build leaves a folder that can be read.
        write_manifest(building.folder, building.file)


def _add_measurements(combination: Combination, building: Building, store: Store) -> None:
    """Write the store's measurements into the files that a combination has."""
    documents = [each for each in stored_measurements(store) if each.target == combination.target]
    paths = {each: building.folder / combination.file_of(each) for each in combination.toolchains}
    for toolchain, path in paths.items() if documents else ():
        if not path.is_file():
            continue
        content = files.read_bytes(path, MOST_BYTES)
        header = decode_header(content, str(path))
        measured = tuple(beside_first(documents, toolchain, header.about))
        if measured and measured != header.measured:
            header = msgspec.structs.replace(header, measured=measured)
            files.write_whole(path, encode(header, decode_body(content, str(path))))


def _build_release(
    combination: Combination, toolchain: str, building: Building, store: Store
) -> Generator[Event, None, None]:
    job = job_of(combination, building.options, [toolchain])
    with planning.capture(planning.resolve(job)) as captured:
        plan = planning.expand(job, captured)
    for warning in plan.warnings:
        yield Progress(warning)
    end = yield from run_plan(plan, store, building.options)
    run = store.run(end.run)
    now = datetime.now(timezone.utc).date().isoformat()
    origin = ResultsOrigin(__version__, now, ".".join(platform.python_version_tuple()[:2]))
    documents = stored_measurements(store)
    captures: Sequence[PackageCapture] = ()
    if isinstance(captured, CapturedPackage):
        captures = captured.captures
    for place in questions.of_runs(store, [run]):
        if place.keys is None:
            continue
        records = list(store.current(place.possible_keys))
        _refuse_unclassified(records, combination)
        facts = _facts(plan, place, captures)
        request = place.request
        here = [each for each in documents if each.target == request.target]
        measured = beside_first(here, request.toolchain, place.question.about)
        facts = replace(facts, fallbacks=_fallbacks(place, records, plan), measured=tuple(measured))
        header, body = pack(place, records, combination.configs, origin, facts)
        content = encode(header, body)
        if len(content) > MOST_BYTES:
            raise UsageError(f"{file_name(header)}: {len(content):,} bytes are too many for a file")
        path = building.folder / file_name(header)
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(path, content)


def _refuse_unclassified(records: Iterable[Record], combination: Combination) -> None:
    """Raise IncompleteError for a failure without a rule: it may be flacheck's own."""
    for record in unclassified_failures(records):
        line = record.message.partition("\n")[0]
        raise IncompleteError(
            f"{record.kernel} fails under {record.toolchain} on {record.target} in a way that no "
            f"rule names ({rules.UNCLASSIFIED}: {line}); a failure is published only with a rule: "
            f"add one to flacheck/rules/families/, then build {combination.about} again"
        )


def unclassified_failures(records: Iterable[Record]) -> list[Record]:
    """Return the failures without a rule."""
    return [each for each in records if each.code == rules.UNCLASSIFIED]


def _fallbacks(
    place: RequestedPlace, records: Sequence[Record], plan: Plan
) -> tuple[ReportedFallback, ...]:
    """Return the fallbacks among a place's records."""
    assert place.keys is not None
    cells, _ = separate_untested(observe(records, place.keys.made_up))
    return tuple(each.reported() for each in alternatives.fallbacks(cells, plan.forms))


def _facts(plan: Plan, place: RequestedPlace, captures: Sequence[PackageCapture]) -> SubjectFacts:
    """Return the facts about a package, or a matrix, on a place."""
    toolchain, target = place.request.place
    facts = SubjectFacts(
        forms=plan.forms,
        digest=matrix_digest(place.question.about),
        usual_keys=frozenset(plan.usual_keys),
    )
    for capture in captures:
        if (capture.choice.identity, capture.target) != (toolchain, target):
            continue
        requirements = capture.package.requires(("torch", "triton"))
        coverage = [each for each in plan.coverage if each["toolchain"] == toolchain]
        return replace(
            facts,
            digest=capture.package.digest,
            python_versions=_python_versions(capture.package),
            requires=tuple((owner, str(requirement)) for owner, requirement in requirements),
            warnings=warnings_of(capture),
            capture=facts_of(capture) or CaptureFacts(),
            coverage=tuple(coverage[:1]),
        )
    return facts


def _python_versions(package: Package) -> PythonVersions:
    """Return the dependence of a package's modules on Python's version."""
    dependence = PythonVersions()
    for name in package.own_modules:
        file = modules.file_of(Path(package.path), name)
        if file is not None:
            dependence = dependence.join(python_versions.read(syntax.content(file)))
    return dependence


def write_manifest(folder: Path, combinations: Path | None = None) -> list[FileEntry]:
    """Write the manifest of all files in a folder; return its entries.

    Files that other machines built may have been copied into the folder. The file of combinations
    is copied beside it.
    """
    entries = []
    dates = []
    for path in sorted(folder.glob("*/*.zst")):
        content = files.read_bytes(path, MOST_BYTES)
        header = decode_header(content, str(path))
        dates.append(header.date)
        entries.append(
            FileEntry(
                file=f"{path.parent.name}/{path.name}",
                sha256=hashlib.sha256(content).hexdigest(),
                bytes=len(content),
                about=header.about,
                configs=header.configs,
                toolchain=header.toolchain,
                target=header.target,
            )
        )
    today = datetime.now(timezone.utc).date().isoformat()
    text = manifest_text(__version__, max(dates, default=today), entries)
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    own = folder / COMBINATIONS
    if combinations is not None and not (own.exists() and own.samefile(combinations)):
        shutil.copyfile(combinations, own)
    return entries
