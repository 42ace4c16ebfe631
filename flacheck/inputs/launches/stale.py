"""Which kernels of a launches file are no longer what was recorded, where their sources are at
hand. Those are only read, never imported."""

import tokenize
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from flacheck.guest.recorder.definitions import Definitions, digest
from flacheck.inputs.launches.entries import DefinedAt, RecordedLaunch
from flacheck.model import Json

# Bytes. No file of kernels is as long, and a launches file may name any file.
_LONGEST = 4 << 20
# Kernels that a warning names.
_NAMED = 4


def find_changes(
    file: Path, recorded: Sequence[RecordedLaunch]
) -> tuple[tuple[Json, ...], tuple[str, ...]]:
    """Each kernel that has changed since, with its package and the reasons; and a word on them."""
    now = _Now(file)
    reasons: dict[tuple[str, str | None], dict[str, None]] = {}
    for entry in recorded:
        for place in entry.defined:
            why = now.changed(place)
            if why:
                reasons.setdefault((entry.kernel, entry.package), {})[why] = None
    changed = tuple(
        {"kernel": kernel, "package": package, "why": list(why)}
        for (kernel, package), why in sorted(reasons.items(), key=str)
    )
    if not changed:
        return (), ()
    return changed, (_warning(file, recorded, changed),)


def _warning(file: Path, recorded: Sequence[RecordedLaunch], changed: Sequence[Json]) -> str:
    kernels = {(entry.kernel, entry.package) for entry in recorded}
    named = [f"{each['kernel']} ({'; '.join(each['why'])})" for each in changed[:_NAMED]]
    if len(changed) > _NAMED:
        named.append(f"{len(changed) - _NAMED} more")
    return (
        f"{len(changed)} of {len(kernels)} kernels have changed since {file} was captured: "
        f"{', '.join(named)}. The answer is about the kernels as they were: capture them again"
    )


class _Now:
    """What stands today where the functions of a launches file were defined."""

    def __init__(self, file: Path) -> None:
        self._folder = file.resolve().parent
        self._reasons: dict[DefinedAt, str | None] = {}
        # By path: the digest of its text, and what it defines, None where that is no Python. None
        # for a file that cannot be read.
        self._files: dict[Path, tuple[str, Definitions | None] | None] = {}

    def changed(self, place: DefinedAt) -> str | None:
        """Why a function is not what it was; None where it is, and where its file is not at
        hand."""
        if place not in self._reasons:
            self._reasons[place] = self._compared(place)
        return self._reasons[place]

    def _compared(self, place: DefinedAt) -> str | None:
        path, where = self._folder / place.file, place.file
        if place.package is not None:
            name, _, version = place.package.partition("==")
            try:
                installed = distribution(name)
            except (PackageNotFoundError, ValueError):
                return None
            path = Path(str(installed.locate_file(place.file)))
            where = f"{place.package}, {place.file}"
            if installed.version != version:
                where = f"{name} {installed.version} is installed, {version} was recorded"
        read = self._read(path)
        if read is None or read[0] == place.whole:
            return None
        _, definitions = read
        if definitions is None:
            return f"{where}: cannot be read as Python"
        said = definitions.of(place.name)
        if place.digest in said:
            return None
        if said:
            return f"{where}: {place.name} has changed"
        return f"{where}: {place.name} is no longer there"

    def _read(self, path: Path) -> tuple[str, Definitions | None] | None:
        if path not in self._files:
            self._files[path] = None
            try:
                # No device and no pipe, which might never end.
                if path.is_file() and path.stat().st_size <= _LONGEST:
                    self._files[path] = _read(path)
            except OSError:
                pass
        return self._files[path]


def _read(path: Path) -> tuple[str, Definitions | None]:
    try:
        with tokenize.open(path) as file:
            text = file.read()
    except (SyntaxError, UnicodeDecodeError):
        return "", None
    try:
        return digest(text), Definitions(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return digest(text), None
