"""Bisection over the commits of a repository that the test makes, under a scripted toolkit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import flacheck
from flacheck import reports
from flacheck.capabilities.bisect.history import Bisection
from flacheck.errors import UsageError
from flacheck.reports import bisect as bisect_report
from flacheck.reports.document import Display
from flacheck.source.packages.commits import read_range
from tests.made_toolkit import MISMATCH, toolkit
from tests.schemas import validate_json

BROKEN = f"// if ELEMENT=fp8 says {MISMATCH} exit 2\n"
# Texts of the unit, oldest first: it breaks at the third commit and is mended at the sixth.
TEXTS = ("// 0\n", "// 1\n", BROKEN, BROKEN + "// 3\n", BROKEN + "// 4\n", "// 5\n", "// 6\n")
IDENTITY = ("-c", "user.name=n", "-c", "user.email=e@example.com")


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *IDENTITY, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(root: Path, title: str, text: str | None, defines: str = "-DELEMENT=fp8") -> str:
    """Commit the project in `kernels/` with this text of its unit, without the unit for None."""
    folder = root / "kernels"
    folder.mkdir(exist_ok=True)
    entry = {"directory": ".", "command": f"nvcc {defines} -c unit.cu"}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    (folder / "unit.cu").unlink(missing_ok=True)
    if text is not None:
        (folder / "unit.cu").write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", title)
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q")
    return root


def bisect(tmp_path: Path, repository: Path, commits: str, **more: Any) -> Bisection:
    cuda = tmp_path / "cuda-13.9.7"
    if not cuda.exists():
        toolkit(tmp_path)
    return flacheck.bisect(
        commits=commits,
        package=str(repository / "kernels"),
        target="sm90a",
        toolchain=str(cuda),
        store=tmp_path / "store",
        jobs=1,
        timeout=20,
        **more,
    )


def table_of(bisection: Bisection) -> str:
    report = bisect_report.report(bisection)
    return "".join(reports.render("table", report, Display(width=200)))


def test_the_commits_that_broke_and_mended_a_unit_are_named(
    tmp_path: Path, repository: Path
) -> None:
    """An edit in the checkout itself stays as it is."""
    ids = [commit(repository, f"Step {n}", text) for n, text in enumerate(TEXTS)]
    unit = repository / "kernels" / "unit.cu"
    unit.write_text("// edited\n")
    bisection = bisect(tmp_path, repository, f"{ids[2]}..HEAD")
    (change,) = bisection.changes
    assert (change.before.commit, change.after.commit) == (ids[4], ids[5])
    assert (change.kind.value, change.before.code) == ("pass", "FC801")
    assert f"{ids[5][:8]} compiles: Step 5" in table_of(bisection)
    assert unit.read_text() == "// edited\n"
    (broke,) = bisect(tmp_path, repository, f"{ids[0]}..{ids[4]}", find="fail").changes
    assert (broke.before.commit, broke.after.commit) == (ids[1], ids[2])


def test_a_macro_of_the_question_replaces_that_of_the_build(
    tmp_path: Path, repository: Path
) -> None:
    """--define replaces the build's value of a macro."""
    ids = [commit(repository, f"Step {n}", text) for n, text in enumerate(TEXTS[:3])]
    bisection = bisect(tmp_path, repository, f"{ids[0]}..HEAD", define="ELEMENT=bf16")
    assert not bisection.changes
    assert {entry.verdict.value for entry in bisection.history} == {"compiles"}


def test_a_commit_without_the_unit_has_no_verdict(tmp_path: Path, repository: Path) -> None:
    """Commits without the unit, or with other macros, are unknown and may hold the change."""
    ids = [commit(repository, "Old", BROKEN)]
    ids.append(commit(repository, "Gone", None))
    ids.append(commit(repository, "Other", "// 2\n", "-DELEMENT=fp8 -DMORE"))
    ids.append(commit(repository, "New", "// 3\n"))
    bisection = bisect(tmp_path, repository, f"{ids[0]}..{ids[3]}", every=True)
    assert [entry.verdict.value for entry in bisection.history] == [
        "fails",
        "unknown",
        "unknown",
        "compiles",
    ]
    assert "kernels" in str(bisection.history[1].reason)
    assert "other macros" in str(bisection.history[2].reason)
    (change,) = bisection.changes
    assert change.between == (ids[1], ids[2])
    document = bisection.to_json()
    validate_json("bisect", document)
    assert document["changes"][0]["commits_between"] == ids[1:3]
    assert document["changes"][0]["between"] == []


def test_commits_that_do_not_touch_the_folder_are_left_out(
    tmp_path: Path, repository: Path
) -> None:
    """A commit outside the folder is not compiled."""
    ids = [commit(repository, "Old", BROKEN)]
    (repository / "README").write_text("text\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "Words")
    ids.append(commit(repository, "New", "// new\n"))
    span = read_range(repository / "kernels", f"{ids[0]}..{ids[1]}")
    assert [each.title for each in span.commits] == ["Old", "New"]


def test_a_submodule_is_that_of_each_commit(tmp_path: Path, repository: Path) -> None:
    """Each commit is compiled with its own revision of a submodule."""
    module = repository / "library"
    module.mkdir()
    git(module, "init", "-q")
    ids = []
    for number in range(2):
        (module / "library.h").write_text(f"// {number}\n")
        git(module, "add", "-A")
        git(module, "commit", "-q", "-m", "Library")
        ids.append(commit(repository, f"Step {number}", f"// {number}\n"))
    (module / "library.h").write_text("// edited\n")
    span = read_range(repository / "kernels", f"{ids[0]}..{ids[1]}")
    texts = []
    for each in span.commits:
        root = span.extract(each, tmp_path / "files")
        texts.append((root.parent / "library" / "library.h").read_text())
    assert texts == ["// 0\n", "// 1\n"]


def test_several_units_are_listed(tmp_path: Path, repository: Path) -> None:
    """A range with several units is refused with a list of them."""
    first = commit(repository, "Old", "// old\n")
    entries = []
    for name in ("one.cu", "two.cu"):
        (repository / "kernels" / name).write_text("// new\n")
        entries.append({"directory": ".", "command": f"nvcc -c {name}"})
    database = repository / "kernels" / "compile_commands.json"
    database.write_text(json.dumps(entries))
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "Two")
    second = git(repository, "rev-parse", "HEAD")
    commit(repository, "New", "// new\n")
    with pytest.raises(UsageError, match=r"2 cells are left.*one\.cu sm90a, two\.cu sm90a"):
        bisect(tmp_path, repository, f"{second}..HEAD")
    assert first != second


def test_a_repository_starts_no_program_of_its_configuration(
    tmp_path: Path, repository: Path
) -> None:
    """Filters, hooks and monitors of the repository do not run."""
    ids = [commit(repository, "Old", BROKEN), commit(repository, "New", "// new\n")]
    trace = tmp_path / "trace"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {trace}\ncat\n")
    script.chmod(0o755)
    (repository / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    for name in ("filter.evil.smudge", "core.fsmonitor", "core.sshCommand", "core.pager"):
        git(repository, "config", name, str(script))
    trace.unlink(missing_ok=True)
    bisection = bisect(tmp_path, repository, f"{ids[0]}..{ids[1]}")
    assert len(bisection.changes) == 1
    assert not trace.exists()


@pytest.mark.parametrize(
    ("commits", "words"),
    [
        ("HEAD", "expected A..B"),
        ("HEAD...HEAD", "expected A..B"),
        ("nowhere..HEAD", "has no commit nowhere"),
        ("--help..HEAD", "has no commit --help"),
        ("HEAD..HEAD", "no commit after HEAD changes"),
        ("HEAD..HEAD~1", "does not come before"),
    ],
)
def test_a_range_that_cannot_be_read_is_refused(
    tmp_path: Path, repository: Path, commits: str, words: str
) -> None:
    """The message names the wrong part of the range."""
    commit(repository, "Old", "// old\n")
    commit(repository, "New", "// new\n")
    with pytest.raises(UsageError, match=words):
        bisect(tmp_path, repository, commits)


def test_commits_take_a_checkout_of_units(tmp_path: Path) -> None:
    """--commits requires a checkout of CUDA units, and --until requires --commits."""
    (tmp_path / "plain").mkdir()
    for arguments, words in (
        ({"commits": "a..b", "package": str(tmp_path / "plain")}, "takes the folder of a checkout"),
        ({"commits": "a..b"}, "takes the checkout in --package"),
        ({"until": "syntax"}, "goes with --commits"),
    ):
        with pytest.raises(UsageError, match=words):
            flacheck.bisect(store=tmp_path / "store", **arguments)  # type: ignore[arg-type]
