"""The one planner: from what a command is about to the cells of a run, with compilers and packages.

A command is about a matrix (flacheck's own kernels without one), a launches file or one line of it,
or a package. `cell` finds one cell by its key instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from flacheck.capture.cards import target_of
from flacheck.engine.plan import Plan
from flacheck.errors import EmptySelection, UsageError
from flacheck.inputs import captured, corpus, launches, matrix, replay
from flacheck.inputs.expand import (
    DEFAULT_TARGETS,
    Selection,
    Source,
    check_kernels,
    expand,
)
from flacheck.inputs.launches import Launches, RecordedLaunch
from flacheck.inputs.matrix import Block, DeclaredLaunch, Matrix
from flacheck.model import Cell, Kernel, Launch, Purpose, Stubbed, digest
from flacheck.packages import package as packages
from flacheck.packages.package import Package
from flacheck.tables import targets
from flacheck.toolchains import Resolver
from flacheck.toolchains.base import Progress, silent

DEFAULT_MATRIX = "quick"
_SHARD = re.compile(r"(\d+)/(\d+)")
_LINE = re.compile(r"(.+\.jsonl):(\d+)")


@dataclass(frozen=True)
class Subject:
    """What a command is about, as the user names it.

    `matrix` is a matrix's name, a YAML file, a launches file or `FILE.jsonl:LINE`; a `package`
    comes before it. `trust` lets a launches file name packages to install. `configs` is `own` for
    every configuration of every distinct launch, `usual` for one of each kernel and dtype; None
    for the default: `usual` of a package, `own` of anything else.
    """

    matrix: str | None = None
    package: str | None = None
    trust: bool = False
    configs: str | None = None


@dataclass(frozen=True)
class Kernels:
    """What a subject holds: kernels with their launches, and how they are to be expanded."""

    matrix: Matrix
    sources: Sequence[Source]
    packages: Mapping[str, Package]
    warnings: tuple[str, ...] = ()


def plan(
    subject: Subject,
    selection: Selection,
    until: str | None = None,
    shard: str | None = None,
    progress: Progress = silent,
    purpose: Purpose = Purpose.SCAN,
) -> Plan:
    """The cells that a command asks.

    Raises UsageError for unknown names and malformed files, EmptySelection when no cell is left.
    """
    for target in selection.targets:
        targets.find(target)
    if subject.package is not None:
        configs = subject.configs or "usual"
        made = captured.plan(subject.package, selection, configs, until, progress)
    else:
        made = _plan_of_kernels(subject, selection, until, progress)
    cells = _shard(made.cells, shard)
    if not cells and subject.package is not None:
        raise EmptySelection(f"{subject.package}: nothing that it launches matches the selection")
    if not cells:
        raise EmptySelection(
            f"nothing in {made.name} matches the selection; `flacheck list matrices` shows what is "
            "in it"
        )
    return replace(made, cells=cells, selection=selection.to_json(), purpose=purpose)


def _plan_of_kernels(
    subject: Subject, selection: Selection, until: str | None, progress: Progress
) -> Plan:
    kernels = kernels_of(subject, selection, progress)
    resolver = Resolver()
    cells = list(expand(kernels.matrix, kernels.sources, selection, resolver, until))
    return Plan(
        name=kernels.matrix.name,
        cells=cells,
        choices=resolver.choices,
        packages=kernels.packages,
        forms=_forms(kernels.sources),
        warnings=(*kernels.warnings, *dict.fromkeys(resolver.warnings)),
    )


def kernels_of(subject: Subject, selection: Selection, progress: Progress = silent) -> Kernels:
    """The kernels of a matrix or launches file with their launches; packages are provided."""
    name = subject.matrix or DEFAULT_MATRIX
    file, line = line_of(name)
    if file.suffix == ".jsonl":
        return _recorded(file, line, subject, selection, progress)
    read = matrix.find(name)
    provided = {spec: packages.provide_package(spec, progress) for spec in _needed(read, selection)}
    return Kernels(read, sources_of(read, provided), provided)


def line_of(name: str) -> tuple[Path, int | None]:
    """A file and, of `FILE.jsonl:LINE`, its line (from 1)."""
    placed = _LINE.fullmatch(name)
    if placed:
        return Path(placed[1]), int(placed[2])
    return Path(name), None


def entries_of(
    read: Launches, file: Path, line: int | None, trust: bool
) -> Sequence[RecordedLaunch]:
    """A launches file's launches, or the one on a line."""
    if line is None:
        return read.launches
    return (launches.at(file, line, trust),)


def _recorded(
    file: Path, line: int | None, subject: Subject, selection: Selection, progress: Progress
) -> Kernels:
    """A launches file as a matrix: its kernels with their own configurations, on its own card."""
    read = launches.read(file, trust=subject.trust)
    configs = subject.configs or "own"
    entries = entries_of(read, file, line, subject.trust)
    if configs == "usual":
        entries = launches.one_each(entries)
    asked = [entry for entry in entries if selection.names(entry.kernel)]
    provided = replay.provided(file, asked, subject.trust, progress)
    axes = {"target": recorded_targets(read), "configs": (configs,)}
    made = Matrix(file.stem, str(file), (Block(axes),))
    return Kernels(made, replay.sources(entries, provided), provided, _guessed(asked))


def recorded_targets(read: Launches) -> tuple[str, ...]:
    """The target of the card that launches were recorded on; the usual ones where nobody knows the
    card.
    """
    target = target_of(str(read.header.get("device")))
    return (target,) if target else DEFAULT_TARGETS


def _guessed(entries: Sequence[RecordedLaunch]) -> tuple[str, ...]:
    """A word on launches that may not be what the program launches on its card."""
    guessed = [entry for entry in entries if entry.guessed]
    if not guessed:
        return ()
    return (
        f"{len(guessed)} of {len(entries)} launches may rest on values that the fake GPU made up, "
        f"first read at {guessed[0].guessed}: on a real GPU these launches may differ",
    )


def _needed(read: Matrix, selection: Selection) -> Sequence[str]:
    """The matrix's packages, unless the selection only asks for kernels of flacheck's own."""
    own = corpus.load()
    check_kernels(selection.kernels, [*own, *read.launches])
    of_packages = [kernel for kernel in read.launches if ":" in kernel]
    if not selection.kernels or any(selection.names(kernel) for kernel in of_packages):
        return read.packages
    return ()


def sources_of(read: Matrix, provided: Mapping[str, Package]) -> list[Source]:
    """A matrix's kernels, flacheck's own and the packages', with their launches."""
    sources = _own_sources(read)
    for spec, package in provided.items():
        sources += package_sources(read, spec, package)
    return sources


def _own_sources(read: Matrix) -> list[Source]:
    """flacheck's own kernels with what they declare; a matrix's launches of one stand in for its
    own.
    """
    sources = []
    for name, source in corpus.load().items():
        if name in read.launches:
            (declared,) = source.launches
            instead = tuple(_completed(each, declared) for each in read.launches[name])
            sources.append(replace(source, launches=instead))
        elif _asks_for_corpus(read):
            sources.append(source)
    return sources


def _completed(each: DeclaredLaunch, declared: Launch) -> Launch:
    """A matrix's launch of one of flacheck's own kernels, with what only the kernel declares."""
    launch = each.launch
    return Launch(
        launch.args,
        launch.omitted or declared.omitted,
        launch.configs or declared.configs,
        launch.keys or declared.keys,
    )


def _asks_for_corpus(read: Matrix) -> bool:
    """A matrix that brings launches of its own is about those, unless it names kernels of
    flacheck's own.
    """
    globs = [glob for block in read.blocks for glob in block.axes.get("kernel", ())]
    return not read.launches or any("." in glob and ":" not in glob for glob in globs)


def package_sources(read: Matrix, spec: str, package: Package) -> list[Source]:
    """A package's kernels with the launches that a matrix declares for it."""
    sources = []
    for name, listed in read.launches.items():
        launches = tuple(each.launch for each in listed if fnmatchcase(spec, each.package))
        if ":" not in name or not launches:
            continue
        module, _, qualname = name.partition(":")
        operator, form = read.forms.get(name, (None, None))
        identity = digest([package.digest, name])
        kernel = Kernel(name, spec, identity, Stubbed(module, qualname), operator, form)
        sources.append(Source(kernel, launches))
    return sources


def _forms(sources: Sequence[Source]) -> dict[tuple[str | None, str], tuple[str, str]]:
    kernels = [source.kernel for source in sources]
    return {(k.package, k.name): (k.operator, k.form) for k in kernels if k.operator and k.form}


def _shard(cells: Sequence[Cell], shard: str | None) -> Sequence[Cell]:
    """The part I of N (from 1), by key, so that every machine agrees without talking."""
    if shard is None:
        return cells
    match = _SHARD.fullmatch(shard)
    index, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= index <= count:
        raise UsageError(f"--shard {shard}: expected I/N with 1 ≤ I ≤ N, for example 2/8")
    # The first 32 bits of a key are as good as random.
    return [cell for cell in cells if int(cell.key[:8], 16) % count == index - 1]
