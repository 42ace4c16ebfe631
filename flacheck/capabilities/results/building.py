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
from typing import Any

from flacheck.analysis.order import count_noun
from flacheck.errors import EmptySelection, UsageError
from flacheck.inputs.expand import Selection
from flacheck.inputs.subject import Subject
from flacheck.model import RequestedPlace
from flacheck.packages.package import Package
from flacheck.pipeline import planning
from flacheck.pipeline.events import Event, Progress
from flacheck.pipeline.job import Job, RunOptions
from flacheck.pipeline.package_launches import CapturedPackage, PackageCapture
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import run_plan
from flacheck.published.combinations import Combination
from flacheck.published.form import (
    MOST_BYTES,
    CaptureFacts,
    FileEntry,
    decode_header,
    encode,
    file_name,
    manifest_text,
)
from flacheck.published.library import COMBINATIONS, MANIFEST
from flacheck.published.packing import ResultsOrigin, SubjectFacts, pack
from flacheck.store import Store, questions
from flacheck.version import __version__

# How a module asks for Python's version.
_READS_PYTHON = re.compile(rb"sys\.version_info|sys\.hexversion|python_version(?:_tuple)?\(")
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

    A combination whose files are there and of this flacheck is left out, so that an interrupted
    build goes on. Returns the entries of the folder's new manifest.
    """
    building.folder.mkdir(parents=True, exist_ok=True)
    for number, combination in enumerate(building.combinations, 1):
        of = f"{number} of {len(building.combinations)}"
        if not building.options.fresh and _is_built(building.folder, combination):
            yield Progress(f"{combination.name} is built ({of})")
            continue
        yield Progress(f"building {combination.name} ({of})")
        yield from _build_one(combination, building, store)
    entries = write_manifest(building.folder, building.file)
    size = sum(entry.bytes for entry in entries)
    yield Progress(f"{building.folder}: {count_noun(len(entries), 'file')}, {size:,} bytes")
    return entries


def _is_built(folder: Path, combination: Combination) -> bool:
    for toolchain, target in combination.places:
        name = combination.about.replace("==", "-")
        compiler = toolchain.replace("==", "-")
        path = folder / name / f"{combination.configs}-{compiler}-{target}.zst"
        if not path.is_file():
            return False
        if decode_header(path.read_bytes(), str(path)).flacheck != __version__:
            return False
    return True


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
    combination: Combination, building: Building, store: Store
) -> Generator[Event, None, None]:
    job = job_of(combination, building.options)
    with planning.capture(planning.resolve(job)) as captured:
        plan = planning.expand(job, captured)
    for warning in plan.warnings:
        yield Progress(warning)
    end = yield from run_plan(plan, store, building.options)
    run = store.run(end.run)
    now = datetime.now(timezone.utc).date().isoformat()
    origin = ResultsOrigin(__version__, now, ".".join(platform.python_version_tuple()[:2]))
    captures: Sequence[PackageCapture] = ()
    if isinstance(captured, CapturedPackage):
        captures = captured.captures
    for place in questions.of_runs(store, [run]):
        if place.keys is None:
            continue
        records = list(store.current(place.possible_keys))
        facts = _facts(plan, place, captures)
        header, body = pack(place, records, combination.configs, origin, facts)
        content = encode(header, body)
        if len(content) > MOST_BYTES:
            raise UsageError(f"{file_name(header)}: {len(content):,} bytes are too many for a file")
        path = building.folder / file_name(header)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(content)
        temporary.replace(path)


def _facts(plan: Plan, place: RequestedPlace, captures: Sequence[PackageCapture]) -> SubjectFacts:
    """Return the facts about a package on a place."""
    toolchain, target = place.request.place
    facts = SubjectFacts(forms=plan.forms)
    for capture in captures:
        if (capture.choice.identity, capture.target) != (toolchain, target):
            continue
        requirements = capture.package.requires(("torch", "triton"))
        coverage = [each for each in plan.coverage if each["toolchain"] == toolchain]
        return replace(
            facts,
            digest=capture.package.digest,
            reads_python_version=_reads_python_version(capture.package),
            requires=tuple((owner, str(requirement)) for owner, requirement in requirements),
            warnings=_warnings(capture),
            capture=_capture_facts(capture),
            coverage=tuple(coverage[:1]),
        )
    return facts


def _reads_python_version(package: Package) -> bool:
    """Return True if a module of the package asks for Python's version."""
    for name in package.own_modules:
        base = Path(package.path, *name.split("."))
        for file in (base.with_suffix(".py"), base / "__init__.py"):
            if file.is_file() and _READS_PYTHON.search(file.read_bytes()):
                return True
    return False


def _warnings(capture: PackageCapture) -> tuple[str, ...]:
    if capture.driven is None:
        return ()
    texts = [str(entry["text"]) for entry in capture.driven.report.get("said", ())]
    return tuple(dict.fromkeys(texts))


def _capture_facts(capture: PackageCapture) -> CaptureFacts:
    driven = capture.driven
    if driven is None:
        return CaptureFacts()
    if driven.import_error:
        return CaptureFacts(import_error=driven.import_error.strip().splitlines()[-1])
    report: Any = driven.report
    refused = {}
    for name, entry in report["operators"].items():
        if entry.get("failures"):
            refused[name] = tuple(sorted(entry.get("kernels", ())))
    return CaptureFacts(
        cut=len(report.get("cut", ())),
        is_late=bool(report.get("late")),
        launched=tuple(sorted(driven.kernels)),
        refused={name: kernels for name, kernels in sorted(refused.items()) if kernels},
    )


def write_manifest(folder: Path, combinations: Path | None = None) -> list[FileEntry]:
    """Write the manifest of all files in a folder; return its entries.

    Files that other machines built may have been copied into the folder. The file of combinations
    is copied beside it.
    """
    entries = []
    dates = []
    for path in sorted(folder.glob("*/*.zst")):
        content = path.read_bytes()
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
