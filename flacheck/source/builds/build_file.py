"""Files of a project that is not trusted: read only where they lie in it, and only up to a size."""

from pathlib import Path

from flacheck import files
from flacheck.errors import MatrixError
from flacheck.files import UnusableFile, lies_inside


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
        return files.read_text(file, most_bytes)
    except UnusableFile as error:
        raise MatrixError(str(file), None, str(error.strerror)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise MatrixError(str(file), None, f"cannot be read: {error}") from None
