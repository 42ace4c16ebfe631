"""Kernels that have changed since their capture, and the notes of a scan of the launches file."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner, Result

from flacheck import toolchains
from flacheck.capabilities.autotune import gathering
from flacheck.cli import app
from flacheck.errors import MatrixError
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.launches import DefinedAt, read, stale
from flacheck.subjects.inputs.subject import Subject
from tests.captured import needs_torch, recorded
from tests.fake.family import FakeFamily
from tests.paths import SCHEMAS
from tests.planned import plan

SCHEMA = json.loads((SCHEMAS / "run-1.json").read_text())
HELPERS = """
import triton

@triton.jit
def twice(x):
    return x * 2
"""
PROGRAM = """
from helpers import twice

SIZE = tl.constexpr(64)
CONFIGS = [triton.Config({}, num_warps=w) for w in (2, 4)]

@triton.autotune(CONFIGS, ["n"])
@triton.jit
def tuned(x, n):
    i = tl.arange(0, SIZE)  # all of them
    tl.store(x + i, twice(tl.load(x + i, mask=i < n)), mask=i < n)

tuned[(1,)](torch.empty(64, device="cuda"), 64)
launch(torch.empty(64, device="cuda"))
"""
H100 = Selection(targets=("sm90",), toolchains=("3.7.1",))

pytestmark = needs_torch


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program, its helpers and what was captured of it."""
    folder = tmp_path_factory.mktemp("captured")
    (folder / "helpers.py").write_text(HELPERS)
    recorded(folder, PROGRAM)
    return folder


@pytest.fixture
def folder(capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the folder elsewhere, to be edited."""
    shutil.copytree(capture, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edit(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def changes_in(file: Path) -> dict[str, list[str]]:
    """Return why kernels of a launches file have changed."""
    return {each["kernel"]: each["why"] for each in plan(Subject(str(file)), H100).stale}


def scan(monkeypatch: pytest.MonkeyPatch, *words: str) -> Result:
    """The command over a compiler that compiles everything."""
    monkeypatch.setitem(toolchains.FAMILIES, "fake", FakeFamily({"*": "compile"}))
    command = ["scan", "l.jsonl", "--triton", "fake==1.0", "--target", "sm90", "--memory", "512"]
    return CliRunner().invoke(app, [*command, *words])


def test_nothing_is_said_of_a_program_as_it_was(folder: Path) -> None:
    """Edits of comments and of the rest of the program are not reported."""
    assert changes_in(folder / "l.jsonl") == {}
    edit(folder / "program.py", "  # all of them", "")
    edit(folder / "program.py", "tuned[(1,)]", "\n\ntuned[(2,)]")
    assert changes_in(folder / "l.jsonl") == {}


@pytest.mark.parametrize(
    ("file", "before", "after", "why"),
    [
        ("program.py", "mask=i < n)), mask", "mask=i <= n)), mask", "tuned has changed"),
        ("program.py", "constexpr(64)", "constexpr(32)", "tuned has changed"),
        ("program.py", "(2, 4)", "(2, 4, 8)", "tuned has changed"),
        ("helpers.py", "x * 2", "x * 3", "twice has changed"),
        ("helpers.py", "def twice", "def thrice", "twice no longer exists"),
        ("helpers.py", "def twice(x)", "def twice(x", "cannot be read as Python"),
    ],
)
def test_an_edit_is_seen(folder: Path, file: str, before: str, after: str, why: str) -> None:
    """An edit of a kernel, its globals, its configurations or its helpers changes that kernel
    alone."""
    edit(folder / file, before, after)
    assert changes_in(folder / "l.jsonl") == {"program:tuned": [f"{file}: {why}"]}


def test_a_scan_says_what_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change and the number of kernels are on stderr and in every report; the exit code
    stays."""
    edit(folder / "helpers.py", "x * 2", "x * 3")
    result = scan(monkeypatch)
    assert result.exit_code == 0
    assert "1 of 2 kernels have changed since l.jsonl was captured: program:tuned" in result.stderr
    assert "Changed since captured: 1 kernel" in result.stdout
    assert "tuned: helpers.py: twice has changed" in result.stdout
    about = json.loads(scan(monkeypatch, "--format", "json").stdout)
    jsonschema.validate(about, SCHEMA)
    why = ["helpers.py: twice has changed"]
    assert about["run"]["stale"] == [{"kernel": "program:tuned", "package": None, "why": why}]
    assert (
        "::warning title=changed%3A program%3Atuned::helpers.py: twice has changed"
        in scan(monkeypatch, "--format", "github").stdout
    )
    later = CliRunner().invoke(app, ["report", about["run"]["id"]])
    assert "tuned: helpers.py: twice has changed" in later.stdout


def test_a_strict_scan_of_changed_kernels_is_incomplete(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 3; kernels that are not selected do not count."""
    assert scan(monkeypatch, "--strict").exit_code == 0
    edit(folder / "helpers.py", "x * 2", "x * 3")
    assert scan(monkeypatch, "--strict").exit_code == 3
    result = scan(monkeypatch, "--strict", "--kernel", "double")
    assert result.exit_code == 0
    assert "have changed" not in result.stderr


def test_other_commands_warn(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The note concerns the file, so it applies to each of its cells."""
    edit(folder / "helpers.py", "x * 2", "x * 3")
    lines = (folder / "l.jsonl").read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if '"program:tuned"' in text)
    monkeypatch.setitem(toolchains.FAMILIES, "fake", FakeFamily({"*": "compile"}))
    cell = [f"l.jsonl:{line}", "--triton", "fake==1.0", "--target", "sm90", "--num-warps", "2"]
    result = CliRunner().invoke(app, ["bisect", *cell, "--memory", "512"])
    assert "1 of 1 kernels have changed since l.jsonl was captured" in result.stderr
    # Both of its configurations compile, which leaves none to look into: that may be why.
    result = CliRunner().invoke(app, ["bisect", *cell[:-2], "--memory", "512"])
    assert result.exit_code == 2
    assert "1 of 1 kernels have changed since l.jsonl was captured" in caplog.text
    (note,) = gathering.of_launches(folder / "l.jsonl", H100).notes
    assert "program:tuned (helpers.py: twice has changed)" in note


def test_sources_that_are_not_at_hand_say_nothing(folder: Path) -> None:
    """A file without its program, or by a recorder that stored no place, gives no note."""
    edit(folder / "helpers.py", "x * 2", "x * 3")
    text = (folder / "l.jsonl").read_text()
    (folder / "away").mkdir()
    (folder / "away" / "l.jsonl").write_text(text)
    assert changes_in(folder / "away" / "l.jsonl") == {}
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        line.pop("defined", None)
    (folder / "old.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert changes_in(folder / "old.jsonl") == {}
    (folder / "helpers.py").unlink()
    (folder / "program.py").unlink()
    assert changes_in(folder / "l.jsonl") == {}


def test_a_program_is_found_from_its_launches_file(tmp_path: Path, capture: Path) -> None:
    """Wherever that was written; both may move together."""
    shutil.copytree(capture, tmp_path / "first")
    lines = (tmp_path / "first" / "l.jsonl").read_text()
    (tmp_path / "first" / "results").mkdir()
    elsewhere = lines.replace('"file": "', '"file": "../')
    (tmp_path / "first" / "results" / "l.jsonl").write_text(elsewhere)
    (tmp_path / "first").rename(tmp_path / "second")
    assert changes_in(tmp_path / "second" / "results" / "l.jsonl") == {}
    edit(tmp_path / "second" / "helpers.py", "x * 2", "x * 3")
    why = ["../helpers.py: twice has changed"]
    assert changes_in(tmp_path / "second" / "results" / "l.jsonl") == {"program:tuned": why}


def install(folder: Path, version: str, helpers: str) -> None:
    """A package of one module, as an installer would leave it."""
    for old in folder.glob("tiny-*.dist-info"):
        shutil.rmtree(old)
    info = folder / f"tiny-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n")
    (info / "RECORD").write_text("tiny/helpers.py,,\n")
    (folder / "tiny").mkdir(exist_ok=True)
    (folder / "tiny" / "helpers.py").write_text(helpers)


def test_a_package_is_looked_up_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is found by name; another version counts only if its source differs."""
    site = tmp_path / "site"
    install(site, "1.0", HELPERS)
    monkeypatch.setenv("PYTHONPATH", str(site))
    recorded(tmp_path, PROGRAM.replace("from helpers", "from tiny.helpers"))
    places = {place for each in read(tmp_path / "l.jsonl").launches for place in each.defined}
    assert [(p.file, p.package) for p in places if p.name == "twice"] == [
        ("tiny/helpers.py", "tiny==1.0")
    ]
    assert changes_in(tmp_path / "l.jsonl") == {}
    other = HELPERS.replace("x * 2", "x * 3")
    install(site, "1.0", other)
    # It is not installed beside flacheck.
    assert changes_in(tmp_path / "l.jsonl") == {}
    monkeypatch.syspath_prepend(site)
    why = ["tiny==1.0, tiny/helpers.py: twice has changed"]
    assert changes_in(tmp_path / "l.jsonl") == {"program:tuned": why}
    install(site, "2.0", other)
    why = ["tiny 2.0 is installed, 1.0 was recorded: twice has changed"]
    assert changes_in(tmp_path / "l.jsonl") == {"program:tuned": why}
    install(site, "2.0", HELPERS + "\nMORE = 1\n")
    assert changes_in(tmp_path / "l.jsonl") == {}


def test_only_python_files_are_read(folder: Path) -> None:
    """Anyone may have written the file: no absolute path or device is opened."""
    lines = (folder / "l.jsonl").read_text().splitlines()
    number = next(n for n, text in enumerate(lines) if "defined" in text)
    for path in ("/etc/passwd.py", "notes.txt", "a\0.py", ""):
        entry: dict[str, Any] = json.loads(lines[number])
        entry["defined"][0]["file"] = path
        text = "\n".join([*lines[:number], json.dumps(entry), *lines[number + 1 :], ""])
        (folder / "bad.jsonl").write_text(text)
        with pytest.raises(MatrixError, match=rf"bad\.jsonl:{number + 1}: .*defined\[0\]\.file"):
            read(folder / "bad.jsonl")
    os.mkfifo(folder / "pipe.py")
    (folder / "folder.py").mkdir()
    (folder / "long.py").write_bytes(b"#" * (5 << 20))
    first = read(folder / "l.jsonl").launches[0]
    for name in ("pipe.py", "folder.py", "long.py"):
        place = DefinedAt("tuned", name, "0" * 16, "0" * 16)
        odd = type(first)(
            **{f: getattr(first, f) for f in first.__struct_fields__} | {"defined": (place,)}
        )
        assert stale.find_changes(folder / "l.jsonl", [odd]) == ((), ())


def test_where_kernels_stand_makes_no_other_launch(tmp_path: Path) -> None:
    """Ids and cells are those of earlier recorders.

    An unrelated line before a kernel changes neither.
    """
    files = []
    for name, program in (("one", PROGRAM), ("two", textwrap.dedent(PROGRAM) + "\nunused = 1\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "helpers.py").write_text(HELPERS)
        launches = recorded(tmp_path / name, program).launches
        cells = plan(Subject(str(tmp_path / name / "l.jsonl")), H100).cells
        files.append(([each.id for each in launches], [cell.key for cell in cells]))
        assert launches
        assert all(each.defined for each in launches)
    assert files[0] == files[1]
