"""Files that hold pins: encodings, and the lines of TOML values."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.capabilities.gate.sources.pin_files import PinFile, encoding_of
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
