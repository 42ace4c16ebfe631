"""A launches file: what a program launched, on its own card or another."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from flacheck.autotune.examined import Tuned
from flacheck.autotune.sources.base import Asked, Gathered, runs, with_code
from flacheck.capture.cards import target_of
from flacheck.errors import EmptySelection, UsageError
from flacheck.inputs import launches, replay
from flacheck.inputs.expand import DEFAULT_TARGETS, check_kernels
from flacheck.inputs.launches import RecordedLaunch
from flacheck.model import Cell
from flacheck.packages.package import Package
from flacheck.source import autotuned
from flacheck.toolchains import Resolver


def gather(asked: Asked) -> Gathered:
    """The file's autotuned kernels that the glob names, one launch of each; all its launches tell
    of the keys.
    """
    assert asked.file is not None
    read = launches.read(asked.file, trust=asked.trust)
    wanted = _wanted(asked, read.launches)
    provided = replay.provided(asked.file, wanted, asked.trust, asked.progress)
    target = target_of(str(read.header.get("device")))
    resolver = Resolver()
    found = [
        tuned
        for entries in by_kernel(wanted).values()
        for tuned in examined(
            asked, entries, provided, resolver, (target,) if target else DEFAULT_TARGETS, False
        )
    ]
    if not found:
        raise EmptySelection(
            f"{asked.file}: none of its launches in the dtypes asked can be built again"
        )
    return Gathered(found, resolver.choices, provided, resolver.warnings)


def _wanted(asked: Asked, recorded: Sequence[RecordedLaunch]) -> list[RecordedLaunch]:
    tuned = [entry for entry in recorded if entry.launch.configs]
    if asked.line is not None:
        chosen = _kernel_at(asked)
        return [entry for entry in tuned if entry.kernel == chosen.kernel and entry.id == chosen.id]
    check_kernels([asked.glob], [entry.kernel for entry in recorded])
    wanted = [entry for entry in tuned if asked.names(entry.kernel)]
    if not wanted:
        raise EmptySelection(f"{asked.file}: no kernel that {asked.glob!r} names has an autotuner")
    return wanted


def _kernel_at(asked: Asked) -> RecordedLaunch:
    """The launch on a line of the file, numbered from 1 as editors do."""
    assert asked.file is not None and asked.line is not None
    lines = asked.file.read_text(encoding="utf-8").splitlines()
    entry = json.loads(lines[asked.line - 1]) if 0 < asked.line <= len(lines) else {}
    found = next(
        (
            e
            for e in launches.read(asked.file, trust=asked.trust).launches
            if e.id == entry.get("id")
        ),
        None,
    )
    if found is None or not found.launch.configs:
        raise UsageError(
            f"{asked.file}:{asked.line}: there is no launch of an autotuned kernel on this line"
        )
    return found


def by_kernel(recorded: Sequence[RecordedLaunch]) -> Mapping[str, list[RecordedLaunch]]:
    """The launches of each kernel, in order."""
    found: dict[str, list[RecordedLaunch]] = {}
    for entry in recorded:
        found.setdefault(entry.kernel, []).append(entry)
    return found


def examined(
    asked: Asked,
    entries: Sequence[RecordedLaunch],
    provided: Mapping[str, Package],
    resolver: Resolver,
    targets: Sequence[str],
    driven: bool,
) -> Iterator[Tuned]:
    """One launch of a kernel under each toolchain on each target: the first, in the first dtype
    asked.
    """
    chosen = _representative(entries, asked)
    if chosen is None:
        return
    seen = tuple({**entry.launch.args, **entry.heuristics} for entry in entries)
    with_decorators = (
        replay.decorated([chosen], provided) if "<locals>" not in chosen.kernel else []
    )
    sources = with_decorators or launches.sources([chosen])
    options = chosen.options if with_decorators else {}
    cells: list[Cell] = list(runs(sources, replace(asked.selection, dtypes=()), resolver, targets))
    for cell in cells:
        made = Tuned(cell, options, seen, driven, _declared(chosen, provided), recorded=chosen)
        yield with_code(made, provided)


def _representative(entries: Sequence[RecordedLaunch], asked: Asked) -> RecordedLaunch | None:
    """A launch of the program's, or of an operator, before one that a driver made up."""
    dtypes = asked.selection.dtypes
    fitting = [entry for entry in entries if not dtypes or entry.launch.dtype in dtypes]
    return min(fitting, key=lambda entry: entry.made_up, default=None)


def _declared(entry: RecordedLaunch, provided: Mapping[str, Package]) -> autotuned.Declared | None:
    """The package's source; else the cut one, whose lines are no file's."""
    package = provided.get(entry.package or "")
    if package is not None:
        return autotuned.of_module(Path(package.path), entry.kernel)
    return autotuned.of_text(entry.text, entry.qualname) if entry.text else None
