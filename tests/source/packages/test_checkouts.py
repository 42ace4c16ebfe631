"""Checkouts: which folders are packages, and which changes give them another version."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flacheck.errors import UsageError
from flacheck.source.packages import checkouts


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    (folder / "tiny").mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[project]\nname = 'tiny'\n")
    (folder / "tiny" / "__init__.py").write_text("A = 1\n")
    return folder


@pytest.mark.parametrize(
    ("spec", "is_path"),
    [("./tiny", True), ("a/b", True), (".", True), ("..", True), ("tiny==1.0", False)],
)
def test_a_folder_is_told_from_a_name_with_a_version(spec: str, is_path: bool) -> None:
    """Separators tell a folder from a name; the folder need not exist."""
    assert checkouts.is_path(spec) is is_path


def test_a_bare_name_is_a_folder_where_there_is_one(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder's name without a slash, as a shell completes it, means the folder."""
    assert checkouts.is_path("tiny") is False
    monkeypatch.chdir(checkout.parent)
    assert checkouts.is_path("tiny") is True


def test_a_folder_that_cannot_be_built_is_a_usage_error(checkout: Path) -> None:
    """The message names the missing file."""
    assert checkouts.folder(str(checkout)) == checkout.resolve()
    with pytest.raises(UsageError, match="there is no such folder"):
        checkouts.folder(str(checkout / "nowhere"))
    with pytest.raises(UsageError, match=r"neither pyproject\.toml nor setup\.py nor setup\.cfg"):
        checkouts.folder(str(checkout / "tiny"))


def test_the_hash_follows_the_sources_alone(checkout: Path) -> None:
    """The hash ignores files that tools leave behind and changes with one edited character."""
    before = checkouts.digest(checkout)
    for name in ("build", "__pycache__", ".git", "tiny.egg-info"):
        (checkout / name).mkdir()
        (checkout / name / "left.py").write_text("B = 2\n")
    (checkout / "link.py").symlink_to(checkout / "tiny" / "__init__.py")
    assert checkouts.digest(checkout) == before
    (checkout / "tiny" / "__init__.py").write_text("A = 2\n")
    assert checkouts.digest(checkout) != before


def test_a_copy_has_the_history_and_not_what_builds_left(checkout: Path) -> None:
    """Pipes, which cannot be copied, are left out; the copy is removed afterwards."""
    for name in (".git", "build"):
        (checkout / name).mkdir()
        (checkout / name / "file").write_text("x")
    os.mkfifo(checkout / "pipe")
    with checkouts.temporary_copy(checkout) as copy:
        names = sorted(path.name for path in copy.iterdir())
    assert names == [".git", "pyproject.toml", "tiny"]
    assert not copy.exists()
