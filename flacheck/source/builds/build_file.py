"""Files of a project that is not trusted: read only where they lie in it, and only up to a size."""

import os
import stat
from pathlib import Path

from flacheck.errors import MatrixError


def lies_inside(path: Path, root: Path) -> bool:
    """Return True for a path that is in the project after all links are followed."""
    real_root = os.path.realpath(root)
    try:
        real = os.path.realpath(path)
    except ValueError:
        # A name with a null byte.
        return False
    return real == real_root or real.startswith(real_root.rstrip(os.sep) + os.sep)


def is_file(path: Path) -> bool:
    """Return True for a regular file; False for a name that no file can have, too."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Return True for a folder; False for a name that no folder can have, too."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def read_text(file: Path, root: Path, most_bytes: int) -> str:
    """Return the text of a build file.

    Raises MatrixError for a file that lies outside of the project, is not a regular file, is larger
    than `most_bytes`, or is not UTF-8.
    """
    if not lies_inside(file, root):
        raise MatrixError(
            str(file), None, "is a link to a file outside of the project", "copy the file there"
        )
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            raise MatrixError(str(file), None, "is not a regular file")
        if status.st_size > most_bytes:
            limit = f"build files up to {most_bytes >> 20} MB are read"
            raise MatrixError(str(file), None, f"has {status.st_size >> 20} MB", limit)
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MatrixError(str(file), None, f"cannot be read: {error}") from None
