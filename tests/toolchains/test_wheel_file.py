"""Wheels that were renamed before they were sent."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from flacheck.errors import UsageError
from flacheck.toolchains import wheel_file
from flacheck.toolchains.triton import Triton

PYTHON = f"cp{sys.version_info[0]}{sys.version_info[1]}"


def rename(folder: Path, tag: str, **without: bool) -> Path:
    """Return a wheel of Triton 3.8.0 under the name of another file."""
    file = folder / "triton-main.whl"
    texts = {
        "METADATA": "Metadata-Version: 2.1\nName: triton\nVersion: 3.8.0+git1a2b\n",
        "WHEEL": f"Wheel-Version: 1.0\nTag: cp27-cp27m-any\nTag: {tag}\n",
        "RECORD": "triton/__init__.py,sha256=AAAA,1\n",
    }
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in texts.items():
            if not without.get(name):
                archive.writestr(f"triton-3.8.0+git1a2b.dist-info/{name}", text)
    return file


def test_a_renamed_wheel_is_known_by_its_content(tmp_path: Path) -> None:
    """The wheel contains name, version and tags; installers get a name for this Python."""
    wheel = wheel_file.read(rename(tmp_path, f"{PYTHON}-none-any"))
    assert (wheel.name, str(wheel.version)) == ("triton", "3.8.0+git1a2b")
    assert wheel.filename == f"triton-3.8.0+git1a2b-{PYTHON}-none-any.whl"


def test_installers_see_the_name_that_they_ask_for(tmp_path: Path) -> None:
    """The renamed file exists as long as needed; a correct name is used directly."""
    file = rename(tmp_path, f"{PYTHON}-none-any")
    with wheel_file.named_rightly(file) as link:
        assert link.name == f"triton-3.8.0+git1a2b-{PYTHON}-none-any.whl"
        assert link.read_bytes() == file.read_bytes()
    assert not link.exists()
    right = file.rename(tmp_path / link.name)
    with wheel_file.named_rightly(right) as same:
        assert same == right


def test_a_renamed_wheel_is_a_choice_like_any_other(tmp_path: Path) -> None:
    """Its identity is its content's; one for another Python cannot be had, with the reason."""
    choice = Triton().at(str(rename(tmp_path, f"{PYTHON}-none-any")))
    assert choice.identity.startswith("triton==3.8.0+local.")
    assert choice.reason is None
    other = Triton().at(str(rename(tmp_path, "cp26-cp26m-any")))
    assert "triton-main.whl is not a wheel for CPython" in str(other.reason)


@pytest.mark.parametrize("missing", ["METADATA", "WHEEL"])
def test_an_archive_that_does_not_say_what_it_is_is_a_usage_error(
    tmp_path: Path, missing: str
) -> None:
    """The message names the missing part."""
    file = rename(tmp_path, f"{PYTHON}-none-any", **{missing: True})
    with pytest.raises(UsageError, match=f"cannot be read as a wheel: .*{missing}"):
        Triton().at(str(file))


def test_a_wheel_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    """The message does not blame the name of a missing wheel."""
    with pytest.raises(UsageError, match=r"none\.whl is not there"):
        Triton().at(str(tmp_path / "none.whl"))
