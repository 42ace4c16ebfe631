"""A stored cell of a checkout's unit, to be compiled again: bisect and repro find its folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flacheck.errors import UsageError
from flacheck.inputs.expand import Selection
from flacheck.inputs.subject import Subject
from flacheck.model import Purpose, Record
from flacheck.pipeline import planning
from flacheck.pipeline import resolved_cell as cells
from flacheck.pipeline.job import Job, RunOptions
from flacheck.pipeline.run import records_of
from flacheck.store import Store
from flacheck.toolchains import wheels
from tests.made_toolkit import MISMATCH, project, toolkit


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """A private name that is asked of a public index leaks, and may find somebody else's code."""

    def asked(*args: object, **more: object) -> None:
        pytest.fail(f"an index was asked: {args}")

    monkeypatch.setattr(wheels, "download_sources", asked)
    monkeypatch.setattr(wheels, "install", asked)


@pytest.fixture
def failing(tmp_path: Path, store: Store) -> Record:
    """The failing cell of a project that was scanned."""
    toolkit(tmp_path)
    root = project(tmp_path, unit=f"// if ELEMENT=fp8 says {MISMATCH} exit 2")
    selection = Selection(targets=("sm90a",), toolchains=(str(tmp_path / "cuda-13.9.7"),))
    plan = planning.plan_job(Job(Subject(package=str(root)), selection))
    records = records_of(plan, store, RunOptions(timeout=20, jobs=1))
    return next(record for record in records if record.code == "FC801")


def test_its_folder_is_where_it_was_scanned(tmp_path: Path, store: Store, failing: Record) -> None:
    """By its key alone."""
    chosen = cells.resolve_cell(failing.key, Selection(), store, Purpose.BISECT)
    (package,) = chosen.packages.values()
    assert package.path == str(tmp_path / "project")
    assert chosen.cell.key == failing.key
    assert not chosen.warnings


def test_a_unit_that_was_edited_is_taken_as_it_is_now(
    tmp_path: Path, store: Store, failing: Record
) -> None:
    """And that is said."""
    (tmp_path / "project" / "csrc" / "unit.cu").write_text("// mended\n")
    chosen = cells.resolve_cell(failing.key, Selection(), store, Purpose.BISECT)
    assert chosen.cell.key != failing.key
    assert "has changed since" in chosen.warnings[0]


def test_a_folder_that_is_gone_is_no_release_of_that_name(
    tmp_path: Path, store: Store, failing: Record
) -> None:
    """The message says what to name."""
    shutil.rmtree(tmp_path / "project")
    with pytest.raises(UsageError, match="whose folder is not known here: name it with --package"):
        cells.resolve_cell(failing.key, Selection(), store, Purpose.BISECT)
