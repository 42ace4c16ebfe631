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
_SUBMODULE_MODE = b"160000"


@dataclass(frozen=True)
class Commit:
    """A commit: its whole hash and the first line of its message."""

    id: str
    title: str


@dataclass(frozen=True)
class CommitRange:
    """Commits of a repository that change a folder of it, oldest first.

    `top` is the repository's folder, `prefix` the folder in it, empty for the repository itself.
    """

    top: Path
    prefix: str
    commits: tuple[Commit, ...]

    def extract(self, commit: Commit, into: Path) -> Path:
        """Write the folder's files at a commit below `into`; return the folder there.

        The repository's submodules, which may lie beside the folder, are written too where the
        checkout has them. Raises UsageError if the files are too large.
        """
        top = into / commit.id / self.top.name
        root = top / self.prefix
        _write_files(self.top, f"{commit.id}:{self.prefix}", root)
        for path, module_commit in _submodules(self.top, commit.id):
            module = self.top / path
            if (module / ".git").exists():
                files = into / "submodules" / module_commit
                if not files.is_dir():
                    _write_files(module, module_commit, files)
                shutil.copytree(files, top / path, copy_function=os.link, dirs_exist_ok=True)
        return root


@dataclass(frozen=True)
class _CommitFile:
    """A regular file of a commit: its hash, its size in bytes, its name."""

    blob: bytes
    size: int
    name: str


def _write_files(repository: Path, tree: str, root: Path) -> None:
    """Write the regular files of a tree below `root`; links are left out."""
    root.mkdir(parents=True, exist_ok=True)
    files = list(_files(repository, tree))
    total = sum(file.size for file in files)
    if total > _MOST_BYTES:
        raise UsageError(
            f"--commits: {repository} has {total >> 20} MB of files at {tree}; up to "
            f"{_MOST_BYTES >> 20} MB are read: name a smaller folder with --package"
        )
    blobs = b"".join(file.blob + b"\n" for file in files)
    content = _git(repository, "cat-file", "--batch", stdin=blobs)
    position = 0
    for file in files:
        # Each file follows a line of its hash, type and size, and ends with a line break.
        start = content.index(b"\n", position) + 1
        position = start + file.size + 1
        path = root / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content[start : start + file.size])


def _files(repository: Path, tree: str) -> Iterator[_CommitFile]:
    """Yield the regular files of a tree that the clone holds; a partial one lacks some."""
    for facts, path in _entries(repository, tree):
        if facts[0] in _FILE_MODES and facts[3].isdigit():
            yield _CommitFile(facts[2], int(facts[3]), path)


def _submodules(repository: Path, commit: str) -> Iterator[tuple[str, str]]:
    """Yield the folder and the commit of each submodule."""
    for facts, path in _entries(repository, commit):
        if facts[0] == _SUBMODULE_MODE:
            yield path, facts[2].decode()


def _entries(repository: Path, tree: str) -> Iterator[tuple[list[bytes], str]]:
    """Yield mode, type, hash and size of each entry, with its path."""
    output = _git(repository, "ls-tree", "-r", "-z", "-l", "--full-tree", tree)
    for line in output.split(b"\0"):
        facts, _, name = line.partition(b"\t")
        words = facts.split()
        path = os.fsdecode(name)
        if len(words) == 4 and _is_plain(path):
            yield words, path


def read_range(folder: Path, text: str) -> CommitRange:
    """Return A of `A..B`, and the commits from there to B that change a folder.

    Only the first parent of a merge commit is followed. Without B, the range ends with HEAD.

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
    top = _line(_git(folder, "rev-parse", "--show-toplevel"))
    return CommitRange(Path(top), prefix, tuple(commits))


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
