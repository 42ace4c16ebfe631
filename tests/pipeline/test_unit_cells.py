"""A stored cell of a checkout's unit, to be compiled again: bisect and repro find its folder."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from flacheck.errors import EmptySelection, UsageError
from flacheck.evidence.analysis.standing_state import StandingState
from flacheck.evidence.analysis.standings import standings
from flacheck.model import Purpose, Record
from flacheck.pipeline import planning
from flacheck.pipeline import resolved_cell as cells
from flacheck.pipeline.job import Job, RunOptions
from flacheck.pipeline.run import records_of
from flacheck.store import Store, questions
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from flacheck.toolchains import wheels
from tests.made_toolkit import MISMATCH, project, toolkit


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail on a request to a public index, which would leak a private name."""

    def refuse(*args: object, **more: object) -> None:
        pytest.fail(f"an index was asked: {args}")

    monkeypatch.setattr(wheels, "download_sources", refuse)
    monkeypatch.setattr(wheels, "install", refuse)


@pytest.fixture
def failing(tmp_path: Path, store: Store) -> Record:
    """The failing cell of a project that was scanned."""
    toolkit(tmp_path)
    root = project(tmp_path, unit=f"// if ELEMENT=fp8 says {MISMATCH} exit 2")
    selection = Selection(targets=("sm90a",), toolchains=(str(tmp_path / "cuda-13.9.7"),))
    plan = planning.plan_job(Job(Subject(package=str(root)), selection))
    records = records_of(plan, store, RunOptions(timeout=20, jobs=1))
    return next(record for record in records if record.code == "FC801")


@pytest.mark.parametrize("shards", [(None,), ("1/2", "2/2")])
def test_all_units_of_a_project_make_its_toolkit_good(
    tmp_path: Path, store: Store, shards: tuple[str | None, ...]
) -> None:
    """Each unit has one configuration, so nothing is left that was not compiled."""
    root = project(tmp_path, one="", two="")
    selection = Selection(targets=("sm90a",), toolchains=(str(toolkit(tmp_path)),))
    for shard in shards:
        # Keys depend on the folder, and may all lie in one shard.
        with contextlib.suppress(EmptySelection):
            plan = planning.plan_job(Job(Subject(package=str(root)), selection, shard=shard))
            list(records_of(plan, store, RunOptions(timeout=20, jobs=1)))
    (standing,) = standings(questions.in_force(store), store.current)
    assert standing.state is StandingState.GOOD
    assert standing.extent_text == "4 of 4 configurations, 2 of 2 kernels"


def test_its_folder_is_where_it_was_scanned(tmp_path: Path, store: Store, failing: Record) -> None:
    """The unit's folder is found by its key."""
    cell = cells.resolve_cell(failing.key, Selection(), store, Purpose.BISECT)
    (package,) = cell.packages.values()
    assert package.path == str(tmp_path / "project")
    assert cell.cell.key == failing.key
    assert not cell.warnings


def test_a_unit_that_was_edited_is_taken_as_it_is_now(
    tmp_path: Path, store: Store, failing: Record
) -> None:
    """The edited unit is used, and a note reports the edit."""
    (tmp_path / "project" / "csrc" / "unit.cu").write_text("// mended\n")
    cell = cells.resolve_cell(failing.key, Selection(), store, Purpose.BISECT)
    assert cell.cell.key != failing.key
    assert "has changed since" in cell.warnings[0]


def test_a_stored_unit_runs_no_script_without_trust(
    tmp_path: Path, store: Store, failing: Record
) -> None:
    """A store may name any folder, so a setup.py there runs only with --trust."""
    (tmp_path / "project" / "compile_commands.json").unlink()
    (tmp_path / "project" / "setup.py").write_text(
        "from setuptools import Extension, setup\n"
        "setup(ext_modules=[Extension('m', ['csrc/unit.cu'])])\n"
    )
    with pytest.raises(UsageError, match=r"is in no build file of .* or add --trust"):
        cells.resolve_cell(failing.key, Selection(), store, Purpose.BISECT)
    cell = cells.resolve_cell(failing.key, Selection(), store, Purpose.BISECT, trust=True)
    assert cell.cell.kernel.name == failing.cell.kernel.name


def test_a_folder_that_is_gone_is_no_release_of_that_name(
    tmp_path: Path, store: Store, failing: Record
) -> None:
    """The message names the missing folder and the alternatives."""
    shutil.rmtree(tmp_path / "project")
    with pytest.raises(UsageError, match="whose folder is not known here: name it with --package"):
        cells.resolve_cell(failing.key, Selection(), store, Purpose.BISECT)
