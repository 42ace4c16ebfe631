"""Reads of files that others control: bounded, of regular files, and through no link."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flacheck import files
from flacheck.errors import UsageError
from flacheck.files import GuestFileError, GuestFolder

SECRET = "-----BEGIN PRIVATE KEY-----"


@pytest.fixture
def guest(tmp_path: Path) -> GuestFolder:
    """A guest's folder beside a file with a secret."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text(SECRET)
    (tmp_path / "guest").mkdir()
    return GuestFolder(tmp_path / "guest")


def _link_folder(there: Path, outside: Path) -> None:
    there.parent.rmdir()
    there.parent.symlink_to(outside)
    there.parent.joinpath("report.json").write_text("{}")


def _forbid(there: Path, outside: Path) -> None:
    there.write_text("{}")
    there.chmod(0)


def _sparse(there: Path, outside: Path) -> None:
    with there.open("wb") as file:
        file.truncate(1 << 40)


def _socket(there: Path, outside: Path) -> None:
    # The name of a socket has at most 108 bytes.
    folder = os.open(there.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{folder}/{there.name}")
    os.close(folder)


ATTACKS: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda there, outside: there.symlink_to(outside / "key"),
    "link to nothing": lambda there, outside: there.symlink_to(outside / "new"),
    "link to itself": lambda there, outside: there.symlink_to(there.name),
    "link to a device": lambda there, outside: there.symlink_to("/dev/zero"),
    "link to a process": lambda there, outside: there.symlink_to("/proc/self/environ"),
    "hard link": lambda there, outside: there.hardlink_to(outside / "key"),
    "named pipe": lambda there, outside: os.mkfifo(there),
    "socket": _socket,
    "folder": lambda there, outside: there.mkdir(),
    "link in place of its folder": _link_folder,
    "sparse file": _sparse,
    "no permission": _forbid,
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_only_a_guests_own_regular_files_are_read(guest: GuestFolder, attack: str) -> None:
    """Other files raise an error at once, which contains nothing of the outside."""
    if attack == "no permission" and os.geteuid() == 0:
        pytest.skip("root reads every file")
    there = guest.path / "below" / "report.json"
    there.parent.mkdir()
    ATTACKS[attack](there, guest.path.parent / "outside")
    start = time.monotonic()
    for read in (guest.read, guest.read_json):
        with pytest.raises(GuestFileError, match=r"^below/report\.json, written by") as caught:
            read("below/report.json", 1000)
        assert SECRET not in str(caught.value)
    if attack != "sparse file":
        assert guest.read_end("below/report.json", 1000) == ""
    assert time.monotonic() - start < 5


def test_names_stay_below_the_folder(guest: GuestFolder) -> None:
    """A parent folder or an absolute path does not lead out of the folder."""
    for name in ("../outside/key", str(guest.path.parent / "outside" / "key"), "a/../../x"):
        with contextlib.suppress(GuestFileError):
            assert guest.read(name, 1000) is None


def test_a_file_may_be_as_large_as_its_limit(guest: GuestFolder) -> None:
    """One more byte is an error; of a log the end is enough."""
    (guest.path / "log").write_bytes(b"12345")
    assert guest.read("log", 5) == b"12345"
    assert guest.read_end("log", 3) == "345"
    with pytest.raises(GuestFileError, match="is larger than 4 bytes"):
        guest.read("log", 4)
    assert guest.read("missing", 4) is None
    assert guest.read("missing/too", 4) is None


@pytest.mark.parametrize("content", ["{", "[]", "1", "[" * 100_000, '{"a": "\xff"}'])
def test_a_report_is_one_json_object(guest: GuestFolder, content: str) -> None:
    """Other content of any depth is an error."""
    (guest.path / "report.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(GuestFileError, match="is not"):
        guest.read_json("report.json", 1 << 20)


def test_a_new_file_replaces_and_follows_nothing(guest: GuestFolder) -> None:
    """A name that exists, a link to nothing included, is an error."""
    assert guest.write_new("config.json", "{}").read_text() == "{}"
    new = guest.path.parent / "outside" / "new"
    (guest.path / "link").symlink_to(new)
    for name in ("config.json", "link"):
        with pytest.raises(FileExistsError):
            guest.write_new(name, "text")
    assert not new.exists()


RACER = """
import os, sys
os.chdir(sys.argv[1])
os.mkdir("inner"); open("inner/report.json", "w").write("{}")
os.symlink(sys.argv[2], "linked"); os.symlink(sys.argv[2] + "/key", "link.json")
while True:
    os.rename("inner", "below"); os.rename("below", "inner")
    os.rename("linked", "below"); os.rename("below", "linked")
"""


def test_a_guest_that_renames_while_it_is_read_wins_nothing(guest: GuestFolder) -> None:
    """The test swaps a folder and a link to an outside folder under one name."""
    outside = guest.path.parent / "outside"
    (outside / "report.json").write_text(json.dumps({"secret": SECRET}))
    racer = subprocess.Popen([sys.executable, "-c", RACER, str(guest.path), str(outside)])
    contents = set()
    errors: set[str] = set()
    end = time.monotonic() + 60
    try:
        while time.monotonic() < end and not (len(errors) and b"{}" in contents):
            for _ in range(2000):
                try:
                    contents.add(guest.read("below/report.json", 1000))
                except GuestFileError as error:
                    errors.add(str(error))
    finally:
        racer.kill()
        racer.wait()
    assert contents == {None, b"{}"}
    assert len(errors) == 1


def test_lines_of_a_killed_process_are_dropped() -> None:
    """Only whole objects whose kernel is a name are read."""
    text = b'{"kernel": "m:k"}\n[]\n{"kernel": 5}\n\xff\n{"of": "a"}\n{"ker'
    assert list(files.json_objects(text)) == [{"kernel": "m:k"}, {"of": "a"}]


def _fifo(there: Path) -> None:
    os.mkfifo(there)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (_fifo, "is not a regular file"),
        (lambda there: there.mkdir(), "is not a regular file"),
        (lambda there: there.symlink_to("/dev/zero"), "is a link to a file outside of"),
        (lambda there: there.symlink_to("../outside"), "is a link to a file outside of"),
        (lambda there: os.truncate(os.open(there, os.O_CREAT | os.O_RDWR), 1 << 33), "larger than"),
    ],
)
def test_a_users_file_is_regular_and_bounded(
    tmp_path: Path, make: Callable[[Path], object], problem: str
) -> None:
    """Anything else is a usage error at once."""
    (tmp_path / "outside").write_text(SECRET)
    (tmp_path / "checkout").mkdir()
    there = tmp_path / "checkout" / "requirements.txt"
    make(there)
    start = time.monotonic()
    with pytest.raises(UsageError, match=problem):
        files.read_bytes(there)
    assert time.monotonic() - start < 5


def test_links_within_a_repository_are_followed(tmp_path: Path) -> None:
    """A link out of the repository is followed only if its content is not printed."""
    (tmp_path / "repository" / "service").mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    (tmp_path / "repository" / "all.txt").write_text("torch\r\n")
    link = tmp_path / "repository" / "service" / "requirements.txt"
    link.symlink_to("../all.txt")
    assert files.read_text(link) == "torch\n"
    (tmp_path / "log").write_text("text")
    link.unlink()
    link.symlink_to(tmp_path / "log")
    assert files.read_bytes(link, links=True) == b"text"


def test_a_shells_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """Process substitution passes a pipe; its size is limited too."""
    for size, result in ((3, b"xxx"), (11, None)):
        reader, writer = os.pipe()
        os.write(writer, b"x" * size)
        os.close(writer)
        path = Path(f"/dev/fd/{reader}")
        if result is not None:
            assert files.read_bytes(path, 10) == result
        else:
            with pytest.raises(UsageError, match="is larger than"):
                files.read_bytes(path, 10)
        os.close(reader)
