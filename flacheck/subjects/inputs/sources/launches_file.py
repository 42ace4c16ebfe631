"""Launches files: the launches of a program, or of one line of a file (`FILE.jsonl:LINE`)."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flacheck.source.packages.package import Package
from flacheck.subjects.captures.cards import target_of
from flacheck.subjects.inputs import call_paths, launches, replay
from flacheck.subjects.inputs.expand import DEFAULT_TARGETS, Selection
from flacheck.subjects.inputs.launches import Launches, RecordedLaunch, stale
from flacheck.subjects.inputs.matrix import Block, Matrix
from flacheck.subjects.inputs.subject import Kernels, Subject, line_of

SUFFIXES = (".jsonl",)


def entries_of(
    read: Launches, file: Path, line: int | None, trust: bool
) -> Sequence[RecordedLaunch]:
    """Return a launches file's launches, or the launch on a line."""
    if line is None:
        return read.launches
    launch = launches.at(file, line, trust)
    return [entry for entry in read.launches if entry.id == launch.id]


def kernels(subject: Subject, selection: Selection) -> Kernels:
    """Return a launches file's kernels with their launches, for the card that recorded them."""
    file, line = line_of(str(subject.matrix))
    read = launches.read(file, trust=subject.trust)
    entries = entries_of(read, file, line, subject.trust)
    if selection.ops:
        # First, because the one launch of each kernel could come by another path.
        entries = call_paths.select_checked(entries, selection, str(file))
    selection_of_kernels = [entry for entry in entries if selection.names(entry.kernel)]
    accepted, refusals = launches.without_refused(selection_of_kernels)
    packages = replay.provide_packages(file, accepted, subject.trust)
    axes = {"target": recorded_targets(read), "configs": ("own",)}
    matrix = Matrix(file.stem, str(file), (Block(axes),))
    changes, change_warnings = stale.find_changes(file, accepted)
    warnings = [*change_warnings, *refusals]
    warnings += _warn_of_lost(accepted, packages)
    warnings += _warn_of_guesses(accepted)
    sources = replay.sources(entries, packages)
    usual_entries = launches.one_each(entries)
    if subject.compares:
        (usual_entries,) = launches.shared([entries])
    usual_sources = replay.sources(usual_entries, packages)
    return Kernels(matrix, sources, packages, tuple(warnings), changes, usual_sources)


def recorded_targets(read: Launches) -> tuple[str, ...]:
    """Return the target of the card of a recording; the default ones for an unknown card."""
    target = target_of(str(read.header.get("device")))
    return (target,) if target else DEFAULT_TARGETS


def _warn_of_lost(
    entries: Sequence[RecordedLaunch], packages: Mapping[str, Package]
) -> Iterator[str]:
    """Warn of kernels without a source in the file and without a package to import."""
    names = set()
    for entry in entries:
        if entry.text is None and entry.package not in packages:
            names.add(entry.kernel)
    if names:
        yield (
            f"not compiled: the launches file has no source of {', '.join(sorted(names))} "
            "and names no package to import from"
        )


def _warn_of_guesses(entries: Sequence[RecordedLaunch]) -> Iterator[str]:
    """Warn of launches that may differ from the program's launches on its card."""
    guesses = [entry for entry in entries if entry.guessed]
    if guesses:
        yield (
            f"{len(guesses)} of {len(entries)} launches may depend on values that the fake GPU "
            f"made up, first read at {guesses[0].guessed}: on a real GPU these launches may differ"
        )
