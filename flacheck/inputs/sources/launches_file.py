"""Launches files: what a program launched, or one line of it (`FILE.jsonl:LINE`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from flacheck.captures.cards import target_of
from flacheck.inputs import call_paths, launches, replay
from flacheck.inputs.expand import DEFAULT_TARGETS, Selection
from flacheck.inputs.launches import Launches, RecordedLaunch, stale
from flacheck.inputs.matrix import Block, Matrix
from flacheck.inputs.subject import Kernels, Subject, line_of
from flacheck.packages.package import Package

SUFFIXES = (".jsonl",)


def entries_of(
    read: Launches, file: Path, line: int | None, trust: bool
) -> Sequence[RecordedLaunch]:
    """A launches file's launches, or the one on a line."""
    if line is None:
        return read.launches
    named = launches.at(file, line, trust).id
    return [entry for entry in read.launches if entry.id == named]


def kernels(subject: Subject, selection: Selection) -> Kernels:
    """A launches file as a matrix: its kernels with their own configurations, on its own card."""
    file, line = line_of(str(subject.matrix))
    read = launches.read(file, trust=subject.trust)
    configs = subject.configs or "own"
    entries = entries_of(read, file, line, subject.trust)
    if selection.ops:
        # Before one of each kernel is taken, which may be one that came by another path.
        entries = call_paths.select_checked(entries, selection, str(file))
    if configs == "usual":
        entries = launches.one_each(entries)
    named = [entry for entry in entries if selection.names(entry.kernel)]
    asked, refusals = launches.without_refused(named)
    provided = replay.provide_packages(file, asked, subject.trust)
    axes = {"target": recorded_targets(read), "configs": (configs,)}
    made = Matrix(file.stem, str(file), (Block(axes),))
    changed, said = stale.find_changes(file, asked)
    warnings = (*said, *refusals, *_lost(asked, provided), *_guessed(asked))
    return Kernels(made, replay.sources(entries, provided), provided, warnings, changed)


def recorded_targets(read: Launches) -> tuple[str, ...]:
    """The target of the card that launches were recorded on; the usual ones where nobody knows the
    card."""
    target = target_of(str(read.header.get("device")))
    return (target,) if target else DEFAULT_TARGETS


def _lost(entries: Sequence[RecordedLaunch], provided: Mapping[str, Package]) -> tuple[str, ...]:
    """A word on kernels that nothing can compile: no source in the file, no package to import."""
    lost = [each for each in entries if each.text is None and each.package not in provided]
    names = sorted({entry.kernel for entry in lost})
    if not names:
        return ()
    return (
        f"not compiled: the launches file holds no source of {', '.join(names)} "
        "and names no package to import from",
    )


def _guessed(entries: Sequence[RecordedLaunch]) -> tuple[str, ...]:
    """A word on launches that may not be what the program launches on its card."""
    guessed = [entry for entry in entries if entry.guessed]
    if not guessed:
        return ()
    return (
        f"{len(guessed)} of {len(entries)} launches may rest on values that the fake GPU made up, "
        f"first read at {guessed[0].guessed}: on a real GPU these launches may differ",
    )
