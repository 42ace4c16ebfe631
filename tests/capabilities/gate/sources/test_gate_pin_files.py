"""Files that hold pins: encodings, and the lines of TOML values."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.capabilities.gate.sources.pin_files import PinFile, TomlDocument, encoding_of
from flacheck.errors import UsageError


@pytest.mark.parametrize(
    ("codec", "mark"),
    [
        ("utf-8", b""),
        ("utf-8", b"\xef\xbb\xbf"),
        ("utf-16-le", b"\xff\xfe"),
        ("utf-16-be", b"\xfe\xff"),
    ],
)
def test_an_encoding_is_known_by_its_mark(tmp_path: Path, codec: str, mark: bytes) -> None:
    """The byte order mark decides the encoding and is removed."""
    text = "torch==2.7.1  # ü\r\n"
    content = mark + text.encode(codec)
    (tmp_path / "r.txt").write_bytes(content)
    assert encoding_of(content) == (codec, mark)
    assert PinFile(tmp_path / "r.txt", "r.txt").text() == text


def test_a_file_that_cannot_be_read_is_one_message(tmp_path: Path) -> None:
    """The message has the name that the user gave."""
    with pytest.raises(UsageError, match=r"^r\.txt: cannot be read \(No such file"):
        PinFile(tmp_path / "r.txt", "r.txt").text()


TEXT = """[a]
b = 3
c = ["x",
     "y"]
[d.e]
b = 4
f = {g = "z"}
"""


def test_a_table_of_another_kind_is_an_error_with_its_line(tmp_path: Path) -> None:
    """A missing table is empty, one of another type is an error."""
    (tmp_path / "x.toml").write_text('a = ["b"]\n[c]\nd = 3\n')
    document = TomlDocument.read(PinFile(tmp_path / "x.toml", "x.toml"))
    assert document.at("gone", "too") == {}
    assert document.at("a", kind=list) == ["b"]
    with pytest.raises(UsageError, match=r"^x\.toml:1: a must be a table"):
        document.at("a")
    with pytest.raises(UsageError, match=r"^x\.toml:3: c\.d must be a list"):
        document.at("c", "d", kind=list)
