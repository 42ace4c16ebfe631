"""A fix changes specifiers and nothing else."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from flacheck.capabilities.gate import sources
from flacheck.capabilities.gate.evidence import Evidence
from flacheck.capabilities.gate.fix import edit_content, fix
from flacheck.capabilities.gate.judging import Judge
from flacheck.capabilities.gate.pins import Pin, PinChange
from flacheck.errors import UsageError
from flacheck.model import Record
from tests.forked import Script
from tests.made_gate import RECORDS, RELEASES, TODAY
from tests.made_records import whole
from tests.paths import TESTS

GOLDEN = TESTS / "golden" / "fix"


def fix_file(name: str, text: str, *records: Record) -> str:
    """Return the file's text after --fix."""
    Path(name).write_bytes(text.encode())
    judge = Judge(RELEASES, lambda *asked: (), today=TODAY)
    evidence = Evidence(whole(records or RECORDS), records or RECORDS)
    fix(judge.judge(sources.of_files([Path(name)]), evidence).suggest)
    return Path(name).read_bytes().decode()


PYPROJECT = """\ufeff# top
[project]
name = "x"  # the name
dependencies = [
    "numpy",
    # old Triton crashes
    'triton >= 3.2 , <3.9 ; sys_platform == "linux"',   # keep me
  ]

[tool.other]
triton = "triton >= 3.2 , <3.9"
"""


def test_a_fix_changes_the_specifier_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comments, layout, quotes, markers and line ends stay."""
    monkeypatch.chdir(tmp_path)
    for text in (PYPROJECT, PYPROJECT.replace("\n", "\r\n")):
        assert fix_file("pyproject.toml", text) == text.replace(">= 3.2 , <3.9 ;", ">=3.3.1,<3.9 ;")
    poetry = '[tool.poetry.dependencies]\ntriton = {version = "^3.2", optional = false} # caret\n'
    assert fix_file("pyproject.toml", poetry) == poetry.replace("^3.2", ">=3.3.1,<4")
    lines = "# x\nnumpy\ntriton[a]>=3.2 ; python_version > '3'  # why\r\n\n-r other.txt"
    Path("other.txt").write_text("torch\n")
    assert fix_file("r.txt", lines) == lines.replace(">=3.2", ">=3.3.1")
    assert (
        fix_file("two.txt", "torch>=2.7,<2.8\ntriton==3.2.0\n") == "torch==2.5.1\ntriton==3.1.0\n"
    )
    assert fix_file("bare.txt", "triton  # any\n") == "triton!=3.2.0,!=3.3.0  # any\n"
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("name", ["pep621", "poetry", "dotted"])
def test_a_fixed_project_file_is_as_before_but_for_its_pins(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Aligned, commented, dotted and inline tables keep their layout."""
    monkeypatch.chdir(tmp_path)
    before, after = ((GOLDEN / f"{name}{kind}.toml").read_text() for kind in ("", ".fixed"))
    assert before != after
    assert fix_file("pyproject.toml", before) == after
    assert fix_file("pyproject.toml", before.replace("\n", "\r\n")) == after.replace("\n", "\r\n")
    assert fix_file("pyproject.toml", after) == after


def test_a_file_of_powershell_is_fixed_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A UTF-16 file keeps its encoding."""
    monkeypatch.chdir(tmp_path)
    Path("r.txt").write_bytes("numpy\r\ntriton==3.3.0\r\n".encode("utf-16"))
    change = PinChange(sources.of_files([Path("r.txt")])[0].pins[0], "==3.4.0")
    fix([change])
    assert Path("r.txt").read_bytes() == "numpy\r\ntriton==3.4.0\r\n".encode("utf-16")


def test_a_file_given_under_two_names_is_fixed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A symbolic link stays one."""
    monkeypatch.chdir(tmp_path)
    Path("r.txt").write_text("triton==3.3.0\n")
    Path("link.txt").symlink_to("r.txt")
    pins = sources.of_files([Path("r.txt"), Path("link.txt")])[0].pins
    fix([PinChange(pin, "==3.4.0") for pin in pins])
    assert Path("r.txt").read_text() == "triton==3.4.0\n"
    assert Path("link.txt").is_symlink()


REWRITES = """
import sys
from pathlib import Path
from flacheck.capabilities.gate.fix import fix
from flacheck.capabilities.gate.pins import Pin
from flacheck.capabilities.gate.pins import PinChange

versions = ["==3.3.0", "==3.4.0"]
while True:
    fix([PinChange(Pin("r.txt", 1, "triton", versions[0], (6, 13), versions[0]), versions[1])])
    versions.reverse()
"""


@pytest.mark.slow
def test_a_kill_while_a_fix_is_written_leaves_a_whole_file(tmp_path: Path) -> None:
    """After a kill the file is the old or the new one."""
    rest = "# rest\n" * 200_000
    old, new = (f"triton=={version}\n{rest}" for version in ("3.3.0", "3.4.0"))
    file = tmp_path / "r.txt"
    for number in range(12):
        file.write_text(old)
        first = file.stat().st_ino
        child = Script(REWRITES, cwd=tmp_path)
        # A written file is another one; from then on the child does nothing but write.
        while file.stat().st_ino == first and child.is_alive():
            time.sleep(0.001)
        time.sleep(number * 0.007)
        child.kill()
        assert child.wait() == -signal.SIGKILL
        assert file.read_text() in (old, new)


def test_an_included_file_is_fixed_where_the_pin_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An included file is changed and keeps its mode."""
    monkeypatch.chdir(tmp_path)
    Path("limits.txt").write_text("triton==3.3.0\n")
    Path("limits.txt").chmod(0o640)
    assert fix_file("r.txt", "-c limits.txt\ntorch\n") == "-c limits.txt\ntorch\n"
    assert Path("limits.txt").read_text() == "triton==3.4.0\n"
    assert Path("limits.txt").stat().st_mode & 0o777 == 0o640


def test_what_cannot_be_written_is_left_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pins with hashes and lock files stay unchanged, and the reason is reported."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "r.txt": "triton==3.3.0 --hash=sha256:aa\n",
        "uv.lock": '[[package]]\nname = "triton"\nversion = "3.3.0"\n',
    }.items():
        assert fix_file(name, text) == text
        judge = Judge(RELEASES, lambda *asked: ())
        outcome = judge.judge(
            sources.of_files([Path(name)]),
            Evidence(whole(RECORDS), RECORDS),
        )
        original_text, not_written = fix(outcome.suggest)
        assert original_text == []
        assert [change.to for change in not_written] == ["==3.4.0"]
        assert not_written[0].pin.obstacle


def test_a_file_that_changed_meanwhile_is_not_touched() -> None:
    """A pin that moved since it was read is an error."""
    pin = Pin("r.txt", 1, "triton", "==3.3.0", (6, 13), "==3.3.0")
    assert (
        edit_content(b"triton==3.3.0\n", "r.txt", [PinChange(pin, "==3.4.0")]) == b"triton==3.4.0\n"
    )
    with pytest.raises(UsageError, match="was changed while the gate read it"):
        edit_content(b"# new\ntriton==3.3.0\n", "r.txt", [PinChange(pin, "==3.4.0")])


def test_a_file_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    """A file that cannot be written is a usage error."""
    pin = Pin(str(tmp_path / "gone" / "r.txt"), 1, "triton", "==3.3.0", (6, 13), "==3.3.0")
    with pytest.raises(UsageError, match="cannot be written"):
        fix([PinChange(pin, "==3.4.0")])
