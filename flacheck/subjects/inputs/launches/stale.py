"""The kernels of a launches file whose sources have changed since they were recorded.

Sources are read if they are available, never imported.
"""

import io
import tokenize
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from flacheck import files
from flacheck.guest.recorder.definitions import Definitions, digest
from flacheck.model import Json
from flacheck.subjects.inputs.launches.entries import DefinedAt, RecordedLaunch

# Bytes. Files of kernels are shorter, and a launches file may name any file.
_LONGEST = 4 << 20
# The most kernels that a warning names.
_MOST_NAMES = 4


def find_changes(
    file: Path, entries: Sequence[RecordedLaunch]
) -> tuple[tuple[Json, ...], tuple[str, ...]]:
    """Return each kernel that has changed since, with its package and reasons; and a warning."""
    sources = _Sources(file)
    reasons: dict[tuple[str, str | None], dict[str, None]] = {}
    for entry in entries:
        for place in entry.defined:
            reason = sources.change(place)
            if reason:
                reasons.setdefault((entry.kernel, entry.package), {})[reason] = None
    changes: list[Json] = []
    for (kernel, package), why in sorted(reasons.items(), key=str):
        changes.append({"kernel": kernel, "package": package, "why": list(why)})
    if not changes:
        return (), ()
    return tuple(changes), (_warning(file, entries, changes),)


def _warning(file: Path, entries: Sequence[RecordedLaunch], changes: Sequence[Json]) -> str:
    kernels = {(entry.kernel, entry.package) for entry in entries}
    names = []
    for change in changes[:_MOST_NAMES]:
        names.append(f"{change['kernel']} ({'; '.join(change['why'])})")
    if len(changes) > _MOST_NAMES:
        names.append(f"{len(changes) - _MOST_NAMES} more")
    return (
        f"{len(changes)} of {len(kernels)} kernels have changed since {file} was captured: "
        f"{', '.join(names)}. The answer is about the kernels as they were: capture them again"
    )


class _Sources:
    """The present definitions of a launches file's functions."""

    def __init__(self, file: Path) -> None:
        self._folder = file.resolve().parent
        self._reasons: dict[DefinedAt, str | None] = {}
        # By path: the digest of its text, and its definitions, None if it is not Python. None for a
        # file that cannot be read.
        self._files: dict[Path, tuple[str, Definitions | None] | None] = {}

    def change(self, place: DefinedAt) -> str | None:
        """Return the change of a function; None without one, or if its file is not available."""
        if place not in self._reasons:
            self._reasons[place] = self._compare(place)
        return self._reasons[place]

    def _compare(self, place: DefinedAt) -> str | None:
        path = self._folder / place.file
        where = place.file
        if place.package is not None:
            name, _, version = place.package.partition("==")
            try:
                package = distribution(name)
            except (PackageNotFoundError, ValueError):
                return None
            path = Path(str(package.locate_file(place.file)))
            where = f"{place.package}, {place.file}"
            if package.version != version:
                where = f"{name} {package.version} is installed, {version} was recorded"
        read = self._read(path)
        if read is None or read[0] == place.whole:
            return None
        _, definitions = read
        if definitions is None:
            return f"{where}: cannot be read as Python"
        digests = definitions.of(place.name)
        if place.digest in digests:
            return None
        if digests:
            return f"{where}: {place.name} has changed"
        return f"{where}: {place.name} no longer exists"

    def _read(self, path: Path) -> tuple[str, Definitions | None] | None:
        if path not in self._files:
            self._files[path] = None
            try:
                # Reading a device or a pipe might never end.
                if path.is_file() and path.stat().st_size <= _LONGEST:
                    self._files[path] = _read(path)
            except OSError:
                pass
        return self._files[path]


def _read(path: Path) -> tuple[str, Definitions | None]:
    try:
        content = io.BytesIO(files.read_bytes(path, links=True))
        encoding, _ = tokenize.detect_encoding(content.readline)
        text = io.TextIOWrapper(io.BytesIO(content.getvalue()), encoding).read()
    except (SyntaxError, UnicodeDecodeError):
        return "", None
    try:
        return digest(text), Definitions(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return digest(text), None
