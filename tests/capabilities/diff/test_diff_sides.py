"""Parsing of FROM and TO."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from flacheck.capabilities.diff import sides
from flacheck.capabilities.diff.sides import ReleaseSide, StoredSide
from flacheck.errors import UsageError
from flacheck.reports import render, scan
from flacheck.reports.document import Display
from flacheck.store import Store
from flacheck.toolchains import index, torch_pins, triton_releases
from tests.made_records import failure, record
from tests.made_reports import of_scan


@pytest.fixture(autouse=True)
def only_shipped_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restrict releases to the shipped tables, each with a wheel, without the index."""
    monkeypatch.setattr(torch_pins.cache, "read_json", lambda name: {})
    monkeypatch.setattr(torch_pins, "refresh", lambda **_: None)
    releases = [Version(text) for text in triton_releases.known_releases()]
    monkeypatch.setattr(index, "available", lambda *_, **__: releases)
    monkeypatch.setattr(triton_releases, "missing_wheel_reason", lambda version: None)


def release(text: str) -> tuple[str, str | None, int]:
    side = sides.read(text, Path("nowhere"))
    assert isinstance(side, ReleaseSide)
    return side.choice.identity, side.torch, len(side.notes)


@pytest.mark.parametrize(
    ("text", "triton", "torch", "notes"),
    [
        ("triton==3.5.1", "triton==3.5.1", None, 0),
        ("torch==2.9.1", "triton==3.5.1", "2.9.1", 0),
        ("torch==2.9.*", "triton==3.5.1", "2.9.1", 1),
        # PEP 440 means 2.9.0 by this, and people mean 2.9.1.
        ("torch==2.9", "triton==3.5.1", "2.9.1", 2),
        ("triton == 3.3", "triton==3.3.1", None, 2),
        ("torch>=2.5,<2.9", "triton==3.4.0", "2.8.0", 1),
        ("Triton>=3.4,<3.6", "triton==3.5.1", None, 1),
        # A torch that requires a range takes the newest of it.
        ("torch==2.14.1", "triton==3.8.0", "2.14.1", 0),
        ("newest", "triton==3.9.0", None, 1),
    ],
)
def test_a_requirement_is_the_newest_release_that_it_admits(
    text: str, triton: str, torch: str | None, notes: int
) -> None:
    """A requirement stands for its newest release; a note lists the others."""
    assert release(text) == (triton, torch, notes)


def test_what_was_chosen_of_several_is_said() -> None:
    """The note names the chosen torch with its Triton."""
    (note,) = sides.read("torch==2.12.*", Path()).notes
    assert note == (
        "torch==2.12.* admits 2.12.0 and 2.12.1: torch 2.12.1 (Triton 3.7.1) is compared"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "2.9",
            r"write torch==2\.9\.\* \(torch 2\.9\.1, Triton 3\.5\.1\) or triton==2\.9\.\* \(no ",
        ),
        ("3.5.1", r"torch==3\.5\.1 \(no such release\) or triton==3\.5\.1 \(Triton 3\.5\.1\)"),
        ("torch==2.99.*", "no release of torch matches ==2.99"),
        ("triton==9.9.9", "there is no triton 9.9.9"),
        ("torch>=two", "is not a requirement"),
        ("soon", "names nothing to compare: give torch==2.9"),
        ("numpy>=9.0", r"no release of numpy is >=9\.0; the newest: "),
        ("numpy>=", "names nothing to compare: give torch==2.9"),
        ("missing.json", "missing.json: cannot be read"),
        ("run:", "names no run: give run:ID"),
    ],
)
def test_what_names_nothing_is_an_error_that_says_what_does(text: str, message: str) -> None:
    """A bare version has two readings, and the message prints both."""
    with pytest.raises(UsageError, match=message):
        sides.read(text, Path())


def test_installed_is_the_triton_that_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """`installed` is the installed Triton with its torch."""
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.9.1+cpu")
    side = sides.read("installed", Path())
    assert isinstance(side, ReleaseSide)
    assert (side.spec, side.torch) == ("installed", "2.9.1")


def test_a_stored_run_is_its_records(tmp_path: Path) -> None:
    """A stored run is named by its id, a prefix of it, or `last`."""
    records = [record(), failure(options={"num_warps": 8})]
    with Store.open(tmp_path) as store:
        run = store.begin_run({}, "quick", {})
        store.add_many(run, records)
    for name in (run, run[:-2], "last"):
        side = sides.read(f"run:{name}", tmp_path)
        assert isinstance(side, StoredSide)
        assert side.name == f"run {run}"
        assert [each.key for each in side.records] == [each.key for each in records]
        assert side.toolchains == ("triton==3.2.0",)
    with pytest.raises(UsageError, match="no run 'x'"):
        sides.read("run:x", tmp_path)
    with pytest.raises(UsageError, match="flacheck scan"):
        sides.read("run:last", tmp_path / "elsewhere")


@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_a_runs_json_is_its_records(format: str, tmp_path: Path) -> None:
    """A run's JSON document or lines are read as its records."""
    file = tmp_path / f"run.{format}"
    file.write_text("".join(render(format, of_scan(tmp_path), Display())))
    side = sides.read(str(file), tmp_path)
    assert isinstance(side, StoredSide)
    assert len(side.records) == 5
    assert {each.verdict.value for each in side.records} == {
        "compiles",
        "fails",
        "unknown",
        "skipped",
    }


def _document(**fields: Any) -> str:
    """A run with a record that has fields of another type."""
    return json.dumps({"schema": scan.SCHEMA, "records": [{**record().to_json(), **fields}]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "neither a launches file nor a flacheck.run/1 document"),
        ('{"schema": "flacheck.gate/1"}', "it has no schema flacheck.run/1"),
        (
            f'{{"schema": "{scan.SCHEMA}", "records": [{{}}]}}',
            "Object missing required field `key`",
        ),
        (f'{{"schema": "{scan.SCHEMA}", "records": 3}}', "neither a launches file"),
        ("[" * 100_000, "neither a launches file"),
        (_document(resources=3), "neither a launches file"),
        (_document(toolchain=["triton==3.2.0"]), "neither a launches file"),
        (_document(findings=[[1]]), "neither a launches file"),
    ],
)
def test_a_file_that_is_neither_is_an_error(text: str, message: str, tmp_path: Path) -> None:
    """A file that is neither launches nor a run is a usage error."""
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        sides.read(str(file), tmp_path)


def test_a_launches_file_is_compiled_by_the_release_that_recorded_it(tmp_path: Path) -> None:
    """The header of a launches file names the release."""
    file = tmp_path / "launches.jsonl"
    header = {"schema": "flacheck.launches/1", "package": None, "device": "NVIDIA H100"}
    file.write_text(json.dumps({**header, "triton": "3.5.1", "torch": "2.9.1"}) + "\n")
    side = sides.read(str(file), tmp_path)
    assert isinstance(side, ReleaseSide)
    assert (side.choice.identity, side.launches) == ("triton==3.5.1", str(file))


def test_a_compiler_can_be_named_by_its_path(tmp_path: Path) -> None:
    """A folder without a compiler is a usage error."""
    with pytest.raises(UsageError, match="holds no triton"):
        sides.read(str(tmp_path), tmp_path)
