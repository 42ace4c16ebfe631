"""`--package` several times: one scan for each package, one report; and what a dry run prints."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from flacheck import toolchains
from flacheck.cli import app
from flacheck.errors import EmptySelection, Exit
from flacheck.model import Cell, canonical
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job
from flacheck.pipeline.plan import Plan
from flacheck.store import Store
from tests import fake
from tests.fake.family import FakeFamily
from tests.schemas import validate_json

ONE, TWO, NONE = "one==1.0", "two==2.0", "none==3.0"


@pytest.fixture(autouse=True)
def packages(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide packages of two kernels each, compiled by the fake compiler; `none` is empty."""

    def cells(package: str) -> list[Cell]:
        name = package.partition("==")[0]
        plain_cells = [fake.cell(f"{name}_good"), fake.cell(f"{name}_bad")]
        return [replace(cell, shape={"T": 64}) for cell in plain_cells]

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
            made = cells(package)
            launch = canonical(made[0].launch.args) if made[0].launch else ""
            sources = {(made[0].kernel.name, launch): "Qwen3-Next"}
            return Plan(package, made, {choice.identity: choice}, size_sources=sources)

    table = dict.fromkeys(("one_bad", "two_bad"), "raise PassManager::run failed")
    monkeypatch.setitem(toolchains.FAMILIES, "fake", FakeFamily(table))
    monkeypatch.setattr(planning, "resolve", FakePackage)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def document(outcome: Result) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(outcome.stdout)
    return content


def kernels(outcome: Result) -> list[str]:
    return sorted(record["kernel"] for record in document(outcome)["records"])


BOTH = ["fake.one_bad", "fake.one_good", "fake.two_bad", "fake.two_good"]


@pytest.mark.parametrize(
    "words", [["--package", ONE, "--package", TWO], ["--package", f"{ONE},{TWO}"]]
)
def test_every_package_that_is_named_is_scanned(words: list[str], here: Path) -> None:
    """Packages may be repeated or separated by commas; one report has all records."""
    outcome = run("scan", *words, "--memory", "512", "--format", "json")
    assert outcome.exit_code == Exit.FINDINGS, outcome.output
    assert kernels(outcome) == BOTH
    assert document(outcome)["run"]["matrix"] == f"{TWO}, {ONE}"
    with Store.open(here / ".flacheck") as store:
        assert [entry.question.about for entry in store.runs() if entry.question] == [ONE, TWO]


def test_the_report_of_several_packages_is_named_by_all_its_runs(here: Path) -> None:
    """The proposed command lists all runs of the report."""
    run("scan", "--package", ONE, "--package", TWO, "--memory", "512")
    with Store.open(here / ".flacheck") as store:
        names = [entry.id for entry in reversed(store.runs())]
    page = run("report", *names)
    assert f"flacheck report {' '.join(names)} --format markdown" in " ".join(page.stdout.split())


def test_a_package_that_is_named_twice_is_scanned_once() -> None:
    """A repeated package is scanned once."""
    outcome = run("scan", "--package", ONE, "--package", ONE, "--memory", "512", "--format", "json")
    assert kernels(outcome) == BOTH[:2]


def test_a_package_without_a_selected_kernel_leaves_the_others() -> None:
    """A package without a kernel is named on stderr; alone it is an empty selection."""
    outcome = run(
        "scan", "--package", NONE, "--package", ONE, "--memory", "512", "--format", "json"
    )
    assert kernels(outcome) == BOTH[:2]
    assert f"{NONE}: nothing that it launches" in outcome.stderr
    assert run("scan", "--package", NONE, "--package", NONE).exit_code == Exit.EMPTY


def test_max_failures_counts_over_all_packages() -> None:
    """After the last allowed failure, the next package is named and not scanned."""
    limit = ("--max-failures", "1", "--memory", "512", "-j", "1")
    outcome = run("scan", "--package", ONE, "--package", TWO, *limit, "--format", "json")
    assert outcome.exit_code == Exit.FINDINGS
    assert set(kernels(outcome)) <= set(BOTH[:2])
    assert f"{TWO} is not scanned (--max-failures)" in outcome.stderr


def test_one_file_of_captures_is_not_shared_by_packages() -> None:
    """--captured with two packages is a usage error that names both."""
    outcome = run("scan", "--package", ONE, "--package", TWO, "--captured", "c.zip")
    assert outcome.exit_code == Exit.USAGE
    assert f"--package names {ONE} and {TWO}" in outcome.stderr


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
    """A second --package is a usage error that names both."""
    with Store.open(here / ".flacheck"):
        pass
    (here / "requirements.txt").write_text("triton==3.5.1\n")
    outcome = run(*command, "--package", ONE, "--package", TWO)
    assert outcome.exit_code == Exit.USAGE, outcome.output
    message = f"--package names {ONE} and {TWO}, and `flacheck {command[0]}` takes one package"
    assert message in outcome.stderr


# --dry-run


def test_a_dry_run_prints_json_where_json_is_requested(here: Path) -> None:
    """A dry run's JSON is a flacheck.plan/1 document."""
    outcome = run("scan", "--package", ONE, "--package", TWO, "--dry-run", "--format", "json")
    assert outcome.exit_code == Exit.OK
    plan = document(outcome)
    validate_json("plan", plan)
    assert sorted(cell["kernel"] for cell in plan["cells"]) == BOTH
    assert plan["summary"] == {"cells": 4}
    report = document(run("scan", "--package", ONE, "--memory", "512", "--format", "json"))
    fields = {name: value for name, value in plan["cells"][0].items() if name != "stage"}
    assert fields.pop("sizes_from") == "Qwen3-Next"
    fields.pop("until")
    (record,) = [each for each in report["records"] if each["key"] == fields["key"]]
    assert fields.items() <= record.items()


def test_a_dry_run_of_json_lines_has_a_cell_a_line() -> None:
    """A dry run's JSON lines have a line for each cell."""
    outcome = run("scan", "--package", ONE, "--dry-run", "--format", "jsonl")
    first, *cells, last = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert (first["schema"], first["about"]) == ("flacheck.plan/1", [ONE])
    assert [cell["kernel"] for cell in cells] == ["fake.one_good", "fake.one_bad"]
    assert last == {"summary": {"cells": 2}}


def test_a_dry_run_of_other_formats_names_what_it_is_about() -> None:
    """Markdown has a table, a workflow one notice, and a file the same text as stdout."""
    page = run("scan", "--package", ONE, "--dry-run", "--format", "markdown").stdout
    assert page.startswith(f"## flacheck: {ONE}\n\n2 cells; nothing was compiled\n")
    (row,) = [line for line in page.splitlines() if "| fake.one_good | bf16 | T=64 |" in line]
    assert row.endswith("| Qwen3-Next |")
    notice = run("scan", "--package", ONE, "--dry-run", "--format", "github").stdout
    assert notice == f"::notice title=flacheck%3A {ONE}::2 cells; nothing was compiled\n"
    lines = run("scan", "--package", ONE, "--dry-run").stdout
    run("scan", "--package", ONE, "--dry-run", "-o", "cells.txt")
    assert Path("cells.txt").read_text() == lines
    assert [line.split()[4] for line in lines.splitlines()] == ["fake.one_good", "fake.one_bad"]
    assert [line.endswith("  Qwen3-Next") for line in lines.splitlines()] == [True, False]
