"""Launches by the functions, classes and modules of a package that they came through (`--op`)."""

import functools
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from flacheck.errors import EmptySelection, did_you_mean
from flacheck.inputs.expand import Selection
from flacheck.inputs.launches import CallPath, RecordedLaunch

# More names are no help in a message.
_SUGGESTED = 3


def select_launches(
    recorded: Sequence[RecordedLaunch], selection: Selection, where: str
) -> list[RecordedLaunch]:
    """The launches of the selected kernels that came through the selected operators; `where` names
    the file in the EmptySelection that is raised when it holds no call paths."""
    kernels = [entry for entry in recorded if selection.names(entry.kernel)]
    if not selection.ops:
        return kernels
    if any(entry.paths is None for entry in recorded):
        raise EmptySelection(
            f"{where}: --op selects by recorded call paths, and this file was recorded without "
            "them by an earlier flacheck: record it again with `flacheck capture`"
        )
    return [entry for entry in kernels if came_through(selection.ops, entry.paths or ())]


def select_checked(
    recorded: Sequence[RecordedLaunch], selection: Selection, where: str
) -> list[RecordedLaunch]:
    """The selected launches of one file; EmptySelection also for a glob that matches nothing."""
    launches = select_launches(recorded, selection, where)
    check_ops(selection.ops, recorded, where)
    return launches


def check_ops(globs: Sequence[str], recorded: Iterable[RecordedLaunch], where: str) -> None:
    """Raises EmptySelection for a glob that matches nothing on the launches' paths, with what is
    like it."""
    paths = {path for entry in recorded for path in entry.paths or ()}
    on_paths = sorted({name for path in paths for step in path for name in _names(step)})
    for glob in globs:
        if any(fnmatchcase(name, glob) for name in on_paths):
            continue
        hint = did_you_mean(glob, on_paths, _SUGGESTED)
        raise EmptySelection(
            f"{where}: no launch came through a function, class or module that matches "
            f"--op {glob!r}{hint}"
        )


def came_through(globs: Sequence[str], paths: Iterable[CallPath]) -> bool:
    """Whether any of the globs matches anything on any of the paths."""
    return any(matches(globs, step) for path in paths for step in path)


def matches(globs: Sequence[str], name: str) -> bool:
    """Whether any of the globs matches a function (`a.b.f`), its class or one of its modules: the
    whole dotted name of each, or any component."""
    return any(_matches(glob, name) for glob in globs)


# The same functions stand on hundreds of paths.
@functools.cache
def _matches(glob: str, name: str) -> bool:
    return any(fnmatchcase(each, glob) for each in _names(name))


@functools.cache
def _names(name: str) -> frozenset[str]:
    """`a`, `a.b`, `a.b.f`, and each component."""
    parts = name.split(".")
    whole = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
    return frozenset([*whole, *parts])
