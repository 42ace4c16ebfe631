"""Bounded reads of files that others control, and writes that follow no link.

A guest's process may change its folder at any moment, so each name there is opened from the
folder's own descriptor, one component at a time, and all checks use the open file.
"""

import errno
import hashlib
import io
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from flacheck.errors import IncompleteError, UsageError

# A named pipe without a writer must not block, a terminal must not become the process's own.
_FLAGS = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 1 << 20
_NOT_REGULAR = "is not a regular file"
# Reasons why a name cannot be opened without following a link.
_PROBLEMS = {
    errno.ELOOP: "is a link",
    errno.ENOTDIR: "is below a link or a file",
    errno.ENXIO: _NOT_REGULAR,
}
# The size of a file without a limit of its own: a lock of a thousand packages has a megabyte.
MOST_BYTES = 16 << 20
# A loader of YAML reads a megabyte in seconds.
MOST_YAML = 1 << 20
# The files of a capture: the launches of the largest known package take 30 MB. A capture has one
# file of launches, one report and one trace, so all together have at most 160 MB.
MOST_LAUNCHES, MOST_REPORT = 128 << 20, 16 << 20
# The length of a line of launches, whose values take many times its size in memory.
MOST_LINE = 8 << 20
# The end of a log from which messages are made.
MOST_LOG = 1 << 16
# Names of open files of this process, by which a shell passes a pipe: `<(command)`.
_INHERITED = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")


class GuestFileError(IncompleteError):
    """A file in a guest's folder that flacheck does not read."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}, written by the package's process, {problem}: it is not read")


@dataclass(frozen=True)
class GuestFolder:
    """A folder that a guest may write, even while flacheck reads it.

    Names are relative. Only regular files with one name are read, up to a size: a hard link may
    lead to a file outside as a symbolic one does.
    """

    path: Path

    def read(self, name: str, most_bytes: int) -> bytes | None:
        """Return a file's content, None if the file is missing.

        Raises GuestFileError for anything but a regular file of at most `most_bytes`.
        """
        with self._open(name) as handle:
            if handle is None:
                return None
            content = read_at_most(handle, most_bytes + 1)
        if len(content) > most_bytes:
            raise GuestFileError(name, f"is larger than {most_bytes:,} bytes")
        return content

    def read_end(self, name: str, most_bytes: int) -> str:
        """Return the last bytes of a log as text, "" if it is missing or is not a regular file."""
        with suppress(GuestFileError), self._open(name) as handle:
            if handle is not None:
                size = os.fstat(handle).st_size
                os.lseek(handle, max(size - most_bytes, 0), os.SEEK_SET)
                return read_at_most(handle, most_bytes).decode(errors="replace")
        return ""

    def read_json(self, name: str, most_bytes: int) -> dict[str, Any] | None:
        """Return a JSON object, None if the file is missing; GuestFileError for other content."""
        content = self.read(name, most_bytes)
        if content is None:
            return None
        try:
            value = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise GuestFileError(name, f"is not JSON ({type(error).__name__})") from None
        if not isinstance(value, dict):
            raise GuestFileError(name, "is not a JSON object")
        return value

    def write_new(self, name: str, content: str) -> Path:
        """Write a file that does not exist yet, and return its path."""
        path = self.path / name
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | _FLAGS
        with self._open_folder(name) as folder:
            handle = os.open(path.name, flags, 0o600, dir_fd=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        return path

    @contextmanager
    def _open(self, name: str) -> Iterator[int | None]:
        """Yield the descriptor of a regular file with one name, None if it is missing."""
        try:
            with self._open_folder(name) as folder:
                flags = os.O_RDONLY | os.O_NOFOLLOW | _FLAGS
                handle = os.open(os.path.basename(name), flags, dir_fd=folder)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            problem = _PROBLEMS.get(error.errno or 0, str(error.strerror))
            raise GuestFileError(name, problem) from None
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise GuestFileError(name, _NOT_REGULAR)
            if status.st_nlink > 1:
                raise GuestFileError(name, "is a hard link")
            yield handle
        finally:
            os.close(handle)

    @contextmanager
    def _open_folder(self, name: str) -> Iterator[int]:
        """Yield the descriptor of the folder of a name; no component may be a link."""
        *folders, _ = Path(name).parts
        handle = os.open(self.path, _FOLDER)
        try:
            for folder in folders:
                if folder in ("/", ".."):
                    raise OSError(errno.EXDEV, "lies outside of its folder")
                inner = os.open(folder, _FOLDER, dir_fd=handle)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)


def read_at_most(handle: int, count: int) -> bytes:
    """Return up to `count` bytes of an open file, which may grow meanwhile."""
    content = bytearray()
    while len(content) < count:
        block = os.read(handle, min(count - len(content), _BLOCK))
        if not block:
            break
        content += block
    return bytes(content)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file of flacheck's own in one step, in a folder that no guest may write."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)


def json_objects(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects among the lines of a launches file.

    A process may have been killed while it wrote, and a guest may write anything.
    """
    for line in content.split(b"\n"):
        with suppress(ValueError, RecursionError):
            value = json.loads(line[: MOST_LINE + 1])
            if isinstance(value, dict) and isinstance(value.get("kernel", ""), str):
                yield value


def json_lines(objects: Iterable[Mapping[str, Any]]) -> bytes:
    """Return objects as the lines of a file."""
    return "".join(json.dumps(each) + "\n" for each in objects).encode()


class UnusableFile(UsageError, OSError):
    """A file of the user or of a checkout that cannot be read; `strerror` is the problem."""

    def __init__(self, path: str | Path, problem: str) -> None:
        OSError.__init__(self, errno.EINVAL, problem, str(path))

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def read_bytes(path: Path, most_bytes: int = MOST_BYTES, links: bool = False) -> bytes:
    """Return the content of a file of the user or of a checkout.

    `links` allows a link that leads out of its checkout. Raises OSError for a missing file, and
    UnusableFile for anything but a regular file or an inherited pipe of at most `most_bytes`.
    """
    with open_bytes(path, most_bytes, links) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise _too_large(path, most_bytes)
    return content


def read_text(
    path: Path, most_bytes: int = MOST_BYTES, links: bool = False, errors: str = "strict"
) -> str:
    """Return the text of such a file in UTF-8, with universal line ends."""
    text = read_bytes(path, most_bytes, links).decode("utf-8", errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def open_text(path: Path, most_bytes: int) -> TextIO:
    """Open such a file as text in UTF-8, to be read by lines."""
    return io.TextIOWrapper(open_bytes(path, most_bytes), encoding="utf-8")


def lines(path: Path, file: TextIO) -> Iterator[str]:
    """Yield the lines of an open file; UnusableFile for one that is too long."""
    while line := file.readline(MOST_LINE + 1):
        if len(line) > MOST_LINE:
            raise UnusableFile(path, f"has a line of more than {MOST_LINE >> 20} MB")
        yield line


def open_bytes(path: Path, most_bytes: int = MOST_BYTES, links: bool = False) -> BinaryIO:
    """Open such a file; a pipe is not measured, so its reader has to count."""
    if not links:
        _check_link(path)
    handle = os.open(path, os.O_RDONLY | _FLAGS)
    with ExitStack() as stack:
        stack.callback(os.close, handle)
        status = os.fstat(handle)
        if stat.S_ISFIFO(status.st_mode) and str(path).startswith(_INHERITED):
            os.set_blocking(handle, True)
        elif not stat.S_ISREG(status.st_mode):
            raise UnusableFile(path, _NOT_REGULAR)
        elif status.st_size > most_bytes:
            raise _too_large(path, most_bytes)
        stack.pop_all()
    return os.fdopen(handle, "rb")


def content_hash(path: Path) -> "hashlib._Hash":
    """Return the SHA-256 of a file of any size."""
    digest = hashlib.sha256()
    with open_bytes(path, sys.maxsize, links=True) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest


def _too_large(path: Path, most_bytes: int) -> UnusableFile:
    return UnusableFile(path, f"is larger than {most_bytes >> 20:,} MB")


def _check_link(path: Path) -> None:
    """Raise UnusableFile for a link out of its checkout, whose content no message may contain."""
    if not path.is_symlink() or str(path).startswith(_INHERITED):
        return
    root = checkout_of(path)
    if not lies_inside(path, root):
        raise UnusableFile(path, f"is a link to a file outside of {root}; name that file itself")


def checkout_of(path: Path) -> Path:
    """Return the nearest repository above a file, or its folder."""
    folder = Path(os.path.abspath(path)).parent
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            return parent
    return folder


def lies_inside(path: Path, root: Path) -> bool:
    """Return True for a path that is in a folder after all links are followed."""
    try:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
    except ValueError:
        # A name with a null byte.
        return False
