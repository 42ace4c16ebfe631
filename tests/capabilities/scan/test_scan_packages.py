"""`--package` several times: one scan for each package, one report; and what a dry run prints."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner, Result

from flacheck import toolchains
from flacheck.cli import app
from flacheck.errors import EmptySelection, Exit
from flacheck.model import Cell
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job
from flacheck.pipeline.plan import Plan
from flacheck.store import Store
from tests import fake
from tests.fake.family import FakeFamily
from tests.paths import SCHEMAS

SCHEMA = SCHEMAS / "plan-1.json"
ONE, TWO, NONE = "one==1.0", "two==2.0", "none==3.0"


@pytest.fixture(autouse=True)
def packages(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages of two kernels each, compiled by the fake compiler; `none` has no kernel."""

    def cells(package: str) -> list[Cell]:
        name = package.partition("==")[0]
        made = [fake.cell(f"{name}_good"), fake.cell(f"{name}_bad")]
        return [replace(cell, shape={"T": 64}) for cell in made]

    @dataclass(frozen=True)
    class FakePackage:
        """A package whose cells are known without a capture."""

        job: Job
        question: None = None

        def capture(self, archive: object = None) -> FakePackage:
            return self

        def expand(self) -> Plan:
            package = self.job.subject.package
            assert package is not None
            if package == NONE:
                raise EmptySelection(f"{NONE}: nothing that it launches matches the selection")
            choice = FakeFamily({}).resolve("1.0").choices[0]
            return Plan(package, cells(package), {choice.identity: choice})

    table = dict.fromkeys(("one_bad", "two_bad"), "raise PassManager::run failed")
    monkeypatch.setitem(toolchains.FAMILIES, "fake", FakeFamily(table))
    monkeypatch.setattr(planning, "resolve", FakePackage)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def document(done: Result) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def kernels(done: Result) -> list[str]:
    return sorted(record["kernel"] for record in document(done)["records"])


BOTH = ["fake.one_bad", "fake.one_good", "fake.two_bad", "fake.two_good"]


@pytest.mark.parametrize(
    "words", [["--package", ONE, "--package", TWO], ["--package", f"{ONE},{TWO}"]]
)
def test_every_package_that_is_named_is_scanned(words: list[str], here: Path) -> None:
    """Repeated or separated by commas: a question for each, and all records in one report."""
    done = run("scan", *words, "--memory", "512", "--format", "json")
    assert done.exit_code == Exit.FINDINGS, done.output
    assert kernels(done) == BOTH
    assert document(done)["run"]["matrix"] == f"{TWO}, {ONE}"
    with Store.open(here / ".flacheck") as store:
        assert [entry.question.about for entry in store.runs() if entry.question] == [ONE, TWO]


def test_the_report_of_several_packages_is_named_by_all_its_runs(here: Path) -> None:
    """The command under Next renders the same records again."""
    run("scan", "--package", ONE, "--package", TWO, "--memory", "512")
    with Store.open(here / ".flacheck") as store:
        names = [entry.id for entry in reversed(store.runs())]
    shown = run("report", *names)
    assert f"flacheck report {' '.join(names)} --format markdown" in " ".join(shown.stdout.split())


def test_a_package_that_is_named_twice_is_scanned_once() -> None:
    """The second name adds nothing."""
    done = run("scan", "--package", ONE, "--package", ONE, "--memory", "512", "--format", "json")
    assert kernels(done) == BOTH[:2]


def test_a_package_without_a_selected_kernel_leaves_the_others() -> None:
    """It is named on stderr; the selection is empty only where all packages have nothing."""
    done = run("scan", "--package", NONE, "--package", ONE, "--memory", "512", "--format", "json")
    assert kernels(done) == BOTH[:2]
    assert f"{NONE}: nothing that it launches" in done.stderr
    assert run("scan", "--package", NONE, "--package", NONE).exit_code == Exit.EMPTY


def test_max_failures_counts_over_all_packages() -> None:
    """After the last failure that is allowed, the next package is named and left."""
    limit = ("--max-failures", "1", "--memory", "512", "-j", "1")
    done = run("scan", "--package", ONE, "--package", TWO, *limit, "--format", "json")
    assert done.exit_code == Exit.FINDINGS
    assert set(kernels(done)) <= set(BOTH[:2])
    assert f"{TWO} is not scanned (--max-failures)" in done.stderr


def test_one_file_of_captures_is_not_shared_by_packages() -> None:
    """It holds the captures of one package: a usage error that names both."""
    done = run("scan", "--package", ONE, "--package", TWO, "--captured", "c.zip")
    assert done.exit_code == Exit.USAGE
    assert f"--package names {ONE} and {TWO}" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["diff", "triton==3.5.1", "triton==3.6.0"],
        ["gate"],
        ["report"],
        ["bisect"],
        ["repro"],
        ["autotune", "k"],
        ["dtypes"],
    ],
)
def test_commands_that_take_one_package_refuse_two(command: list[str], here: Path) -> None:
    """A usage error that names both; the last one used to count without a word."""
    with Store.open(here / ".flacheck"):
        pass
    (here / "requirements.txt").write_text("triton==3.5.1\n")
    done = run(*command, "--package", ONE, "--package", TWO)
    assert done.exit_code == Exit.USAGE, done.output
    said = f"--package names {ONE} and {TWO}, and `flacheck {command[0]}` takes one package"
    assert said in done.stderr


# --dry-run


def test_a_dry_run_prints_json_where_json_is_requested(here: Path) -> None:
    """The cells in a flacheck.plan/1 document; the format never changes the code."""
    done = run("scan", "--package", ONE, "--package", TWO, "--dry-run", "--format", "json")
    assert done.exit_code == Exit.OK
    plan = document(done)
    jsonschema.validate(plan, json.loads(SCHEMA.read_text()))
    assert sorted(cell["kernel"] for cell in plan["cells"]) == BOTH
    assert plan["summary"] == {"cells": 4}
    scanned = document(run("scan", "--package", ONE, "--memory", "512", "--format", "json"))
    fields = {name: value for name, value in plan["cells"][0].items() if name != "stage"}
    fields.pop("until")
    (record,) = [each for each in scanned["records"] if each["key"] == fields["key"]]
    assert fields.items() <= record.items()


def test_a_dry_run_of_json_lines_has_a_cell_a_line() -> None:
    """Between a line that names the packages and one that counts the cells."""
    done = run("scan", "--package", ONE, "--dry-run", "--format", "jsonl")
    first, *cells, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert (first["schema"], first["about"]) == ("flacheck.plan/1", [ONE])
    assert [cell["kernel"] for cell in cells] == ["fake.one_good", "fake.one_bad"]
    assert last == {"summary": {"cells": 2}}


def test_a_dry_run_of_other_formats_names_what_it_is_about() -> None:
    """Markdown has a table, a workflow one notice, and a file what stdout would have."""
    shown = run("scan", "--package", ONE, "--dry-run", "--format", "markdown").stdout
    assert shown.startswith(f"## flacheck: {ONE}\n\n2 cells; nothing was compiled\n")
    assert "| fake.one_good | bf16 | T=64 |" in shown
    noticed = run("scan", "--package", ONE, "--dry-run", "--format", "github").stdout
    assert noticed == f"::notice title=flacheck%3A {ONE}::2 cells; nothing was compiled\n"
    lines = run("scan", "--package", ONE, "--dry-run").stdout
    run("scan", "--package", ONE, "--dry-run", "-o", "cells.txt")
    assert Path("cells.txt").read_text() == lines
    assert [line.split()[4] for line in lines.splitlines()] == ["fake.one_good", "fake.one_bad"]
