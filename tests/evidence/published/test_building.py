"""Building published results over the fake toolchain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import flacheck
from flacheck import IncompleteError, toolchains
from flacheck.capabilities.results import building
from flacheck.capabilities.results.building import Building, build
from flacheck.capabilities.results.verifying import find_unclassified
from flacheck.capabilities.scan.views import published_view
from flacheck.evidence.measured.comparison import FIELD
from flacheck.evidence.published.combinations import Combination
from flacheck.evidence.published.form import decode_body, decode_header
from flacheck.evidence.published.library import open_library, why_not_valid
from flacheck.model import Purpose
from flacheck.pipeline.events import RecordSettled, drain
from flacheck.pipeline.job import RunOptions
from flacheck.store import Store
from tests.evidence.measured.test_comparison import launch, measurement
from tests.fake.family import FakeFamily

ABORT = "abort f.cpp:1: int f(int) const: Assertion `size == want' failed."


def _combination(*releases: str, about: str = "quick") -> Combination:
    names = tuple(f"fake=={release}" for release in releases)
    return Combination(about, "usual", names, "sm90", is_package=False, is_shipped=True)


def _build(folder: Path, *combinations: Combination) -> list[Any]:
    """Build into a folder; return the events."""
    events: list[Any] = []
    request = Building(folder / "c.yaml", combinations, folder / "out", RunOptions(jobs=1))
    with Store.open(folder / "store") as store:
        drain(build(request, store), events.append)
    return events


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a compiler that aborts under its release 2.0."""
    table = {"*": {"==2.0": ABORT, "else": "compile"}}
    monkeypatch.setitem(toolchains.FAMILIES, "fake", FakeFamily(table))
    (tmp_path / "c.yaml").write_text("version: 1\ncombinations: []\n")
    return tmp_path


@pytest.mark.slow
def test_each_release_becomes_a_file_that_is_not_built_again(folder: Path) -> None:
    """A second build compiles only a new release."""
    first = _build(folder, _combination("1.0"))
    assert sum(isinstance(event, RecordSettled) for event in first) > 0
    assert [entry.toolchain for entry in open_library(folder / "out").entries()] == ["fake==1.0"]
    again = _build(folder, _combination("1.0"))
    assert not any(isinstance(event, RecordSettled) for event in again)
    _build(folder, _combination("1.0", "2.0"))
    library = open_library(folder / "out")
    assert [entry.toolchain for entry in library.entries()] == ["fake==1.0", "fake==2.0"]
    headers = [library.header(entry) for entry in library.entries()]
    assert [header.place.state for header in headers] == ["screened", "bad"]
    assert [failure.code for failure in headers[1].place.failures] == ["FC308"]
    places = [library.place(entry) for entry in library.entries()]
    assert all(place is not None for place in places)
    view = published_view([place for place in places if place is not None])
    assert len(view.summary.standings) == 2


def test_a_combination_that_cannot_be_built_leaves_the_others(folder: Path) -> None:
    """The other files are written, and the error names the failing combination."""
    with pytest.raises(IncompleteError, match=r"1 combination is not built.*no matrix 'nowhere'"):
        _build(folder, _combination("1.0", about="nowhere"), _combination("1.0"))
    assert len(open_library(folder / "out").entries()) == 1


def test_a_failure_without_a_rule_is_not_published(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unclassified failure is an error that quotes it."""
    table = {"*": {"==2.0": "raise words that no rule contains", "else": "compile"}}
    monkeypatch.setitem(toolchains.FAMILIES, "fake", FakeFamily(table))
    with pytest.raises(IncompleteError, match="FC000: RuntimeError: words that no rule contains"):
        _build(folder, _combination("1.0", "2.0"))
    library = open_library(folder / "out")
    assert [entry.toolchain for entry in library.entries()] == ["fake==1.0"]
    assert list(find_unclassified(library, library.entries())) == []
    monkeypatch.setattr(building, "unclassified_failures", lambda records: [])
    _build(folder, _combination("2.0"))
    library = open_library(folder / "out")
    broken = list(find_unclassified(library, library.entries()))
    assert {(each.what, each.file) for each in broken} == {("code", library.entries()[1].file)}


@pytest.mark.slow
def test_a_comparison_by_published_results_is_that_of_the_store(folder: Path) -> None:
    """Both comparisons have the same answer and cells."""
    _build(folder, _combination("1.0", "2.0"))
    answers = []
    for options in ({"results": folder / "out"}, {"no_published": True}):
        store = folder / ("empty" if "results" in options else "store")
        answer = flacheck.diff(
            "fake==1.0", "fake==2.0", matrix="quick", target="sm90", store=store, **options
        )
        answers.append(answer)
    by_results, by_store = answers
    assert by_results.to_json()["source"] == "published"
    assert by_store.to_json()["source"] == "own"
    assert by_results.answer == by_store.answer
    assert by_results.answer.startswith("No: ")
    for kind in ("regressed", "mended", "unchanged", "untested"):
        assert _keys(by_results, kind) == _keys(by_store, kind)


def _keys(answer: Any, kind: str) -> list[tuple[str, str]]:
    """Return the keys of the cells of each change of a kind."""
    changes = []
    for change in answer.to_json()[kind]:
        changes.append((change["from"]["key"], change["to"]["key"]))
    return sorted(changes)


def test_other_own_kernels_are_not_answered_by_published_results(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results for a changed matrix are not used."""
    _build(folder, _combination("1.0"))
    library = open_library(folder / "out")
    (entry,) = library.entries()
    assert why_not_valid(library.header(entry)) is None
    monkeypatch.setattr("flacheck.evidence.published.library.matrix_digest", lambda name: "another")
    why = why_not_valid(library.header(entry))
    assert why is not None
    assert "own kernels" in why


def test_a_measurement_is_added_to_a_file_that_is_there(folder: Path) -> None:
    """Nothing is compiled again, and the cells stay as they are."""
    _build(folder, _combination("1.0"))
    (path,) = (folder / "out").glob("*/*.zst")
    before = decode_body(path.read_bytes(), path.name)
    timed = launch("gla", {"fake==0.9": 10.0, "fake==1.0": 14.0})
    document = structs.replace(measurement(timed), about="quick")
    with Store.open(folder / "store") as store:
        run = store.begin_run({}, "quick", purpose=Purpose.MEASURE)
        store.finish_run(run, {FIELD: document.to_json()})
    again = _build(folder, _combination("1.0"))
    assert not any(isinstance(event, RecordSettled) for event in again)
    (measured,) = decode_header(path.read_bytes(), path.name).measured
    assert (measured.before, measured.after) == ("fake==0.9", "fake==1.0")
    assert decode_body(path.read_bytes(), path.name) == before
