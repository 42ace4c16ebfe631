"""Commits of a checkout, read from its repository.

Only git's plumbing runs: it starts no hook, filter or transport that a repository configures.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flacheck.errors import UsageError

# No transport: a partial clone would fetch missing files by a program of its configuration.
_ENVIRONMENT = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
# The bytes of one commit's files, which pass through memory.
_MOST_BYTES = 1 << 29
_FILE_MODES = (b"100644", b"100755")


@dataclass(frozen=True)
class Commit:
    """A commit: its whole hash and the first line of its message."""

    id: str
    title: str


@dataclass(frozen=True)
class CommitRange:
    """Commits of a repository that change a folder of it, oldest first.

    `prefix` is the folder in the repository, empty for its root.
    """

    folder: Path
    prefix: str
    commits: tuple[Commit, ...]

    def extract(self, commit: Commit, into: Path) -> Path:
        """Write the folder's files at a commit below `into`; return the folder there.

        It keeps its name. Links and submodules are left out. Raises UsageError if the files are too
        large.
        """
        root = into / commit.id / self.folder.name
        root.mkdir(parents=True)
        entries = list(self._entries(commit))
        total = sum(size for _, size, _ in entries)
        if total > _MOST_BYTES:
            raise UsageError(
                f"commit {commit.id[:12]} has {total >> 20} MB of files in {self.folder}; up to "
                f"{_MOST_BYTES >> 20} MB are read: name a smaller folder with --package"
            )
        ids = b"".join(blob + b"\n" for blob, _, _ in entries)
        content = _git(self.folder, "cat-file", "--batch", stdin=ids)
        position = 0
        for _, size, name in entries:
            # Each file follows a line of its hash, type and size, and ends with a line break.
            start = content.index(b"\n", position) + 1
            position = start + size + 1
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content[start : start + size])
        return root

    def _entries(self, commit: Commit) -> Iterator[tuple[bytes, int, str]]:
        """Yield hash, size and name below the folder of each regular file."""
        tree = f"{commit.id}:{self.prefix}"
        for line in _git(self.folder, "ls-tree", "-r", "-z", "-l", "--full-tree", tree).split(
            b"\0"
        ):
            facts, _, name = line.partition(b"\t")
            words = facts.split()
            path = os.fsdecode(name)
            if len(words) == 4 and words[0] in _FILE_MODES and _is_plain(path):
                yield words[2], int(words[3]), path


def read_range(folder: Path, text: str) -> CommitRange:
    """Return A of `A..B`, and the commits from there to B that change a folder.

    Of a merge only the first parent is followed. Without B, the range ends with HEAD.

    Raises:
        UsageError: If the folder is in no repository, git is not installed, a commit does not
            exist, or A does not come before B.
    """
    first, dots, last = text.partition("..")
    if not dots or not first or last.startswith("."):
        raise UsageError(f"--commits {text}: expected A..B, the oldest and the newest commit")
    if shutil.which("git") is None:
        raise UsageError("--commits reads a repository with git, which is not installed")
    prefix = _line(_git(folder, "rev-parse", "--show-prefix")).rstrip("/")
    old, new = (_resolve(folder, name, text) for name in (first, last or "HEAD"))
    if _line(_git(folder, "merge-base", old, new)) != old:
        raise UsageError(f"--commits {text}: {first} does not come before {last or 'HEAD'}")
    newer = ["--first-parent", "--reverse", f"{old}..{new}", "--", "."]
    commits = [*_commits(folder, ["--max-count=1", old]), *_commits(folder, newer)]
    if len(commits) < 2:
        raise UsageError(f"--commits {text}: no commit after {first} changes {folder}")
    return CommitRange(folder, prefix, tuple(commits))


def _resolve(folder: Path, name: str, text: str) -> str:
    """Return the hash of a commit; raise UsageError if it does not exist."""
    try:
        output = _git(folder, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
    except UsageError:
        raise UsageError(
            f"--commits {text}: {folder} has no commit {name}; a shallow clone lacks older ones"
        ) from None
    return _line(output)


def _commits(folder: Path, arguments: Sequence[str]) -> Iterator[Commit]:
    output = _git(folder, "rev-list", "--format=%H %s", *arguments)
    for line in output.decode(errors="replace").splitlines():
        commit, _, title = line.partition(" ")
        # A line with the bare hash comes before each.
        if commit != "commit":
            yield Commit(commit, "".join(filter(str.isprintable, title)))


def _is_plain(path: str) -> bool:
    """Return True for a path that stays below its folder; a crafted tree may have others."""
    parts = path.split("/")
    return not {"", ".", "..", ".git"}.intersection(parts)


def _line(output: bytes) -> str:
    return os.fsdecode(output).strip("\n")


def _git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Return what git prints; raise UsageError with its message if it fails."""
    result = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        input=stdin,
        capture_output=True,
        env={**os.environ, **_ENVIRONMENT},
        check=False,
    )
    if result.returncode:
        message = result.stderr.decode(errors="replace").strip()
        raise UsageError(f"--commits: git {arguments[0]} in {folder}: {message}")
    return result.stdout
