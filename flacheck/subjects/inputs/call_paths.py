"""Launches by the functions, classes and modules of a package on their call paths (`--op`)."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from flacheck.errors import EmptySelection, did_you_mean
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.launches import CallPath, RecordedLaunch

# More names do not help in a message.
_MOST_SUGGESTIONS = 3


def select_launches(
    entries: Sequence[RecordedLaunch], selection: Selection, where: str
) -> list[RecordedLaunch]:
    """Return the launches of the selected kernels that came through the selected operators.

    Raises EmptySelection, which names the file `where`, if the launches lack call paths.
    """
    if selection.ops and any(entry.paths is None for entry in entries):
        raise EmptySelection(
            f"{where}: --op selects by recorded call paths, and this file has none: record it "
            "again with `flacheck capture`"
        )
    launches = []
    for entry in entries:
        if not selection.names(entry.kernel):
            continue
        if not selection.ops or came_through(selection.ops, entry.paths or ()):
            launches.append(entry)
    return launches


def select_checked(
    entries: Sequence[RecordedLaunch], selection: Selection, where: str
) -> list[RecordedLaunch]:
    """Return the selected launches of a file; raise EmptySelection also for an idle glob."""
    launches = select_launches(entries, selection, where)
    check_ops(selection.ops, entries, where)
    return launches


def check_ops(globs: Sequence[str], entries: Iterable[RecordedLaunch], where: str) -> None:
    """Raise EmptySelection for a glob without a match on the launches' paths; suggest others."""
    steps: set[str] = set()
    for entry in entries:
        steps.update(_steps(entry.paths or ()))
    names: set[str] = set()
    for step in steps:
        names |= _names(step)
    suggestions = sorted(names)
    for glob in globs:
        if any(fnmatchcase(name, glob) for name in suggestions):
            continue
        hint = did_you_mean(glob, suggestions, _MOST_SUGGESTIONS)
        raise EmptySelection(
            f"{where}: no launch came through a function, class or module that matches "
            f"--op {glob!r}{hint}"
        )


def came_through(globs: Sequence[str], paths: Iterable[CallPath]) -> bool:
    """Return True if any of the globs matches anything on any of the paths."""
    return any(matches(globs, step) for step in _steps(paths))


def matches(globs: Sequence[str], name: str) -> bool:
    """Return True if a glob matches a function (`a.b.f`), its class or one of its modules.

    A glob matches the whole dotted name of each, or any component.
    """
    return any(_matches(glob, name) for glob in globs)


def _steps(paths: Iterable[CallPath]) -> Iterator[str]:
    for path in paths:
        yield from path


# Cached, because the same functions stand on hundreds of paths.
@functools.cache
def _matches(glob: str, name: str) -> bool:
    return any(fnmatchcase(part, glob) for part in _names(name))


@functools.cache
def _names(name: str) -> frozenset[str]:
    """Return `a`, `a.b`, `a.b.f`, and each component, for `a.b.f`."""
    parts = name.split(".")
    names = set(parts)
    for end in range(1, len(parts) + 1):
        names.add(".".join(parts[:end]))
    return frozenset(names)
