"""`flacheck diff PACKAGE==A PACKAGE==B`: two releases of a package under one compiler."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version
from typer.testing import CliRunner, Result

from flacheck import toolchains
from flacheck.cli import app
from flacheck.errors import Exit, UsageError
from flacheck.model import Cell
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job
from flacheck.pipeline.plan import Plan
from flacheck.toolchains import index
from tests import fake
from tests.fake.family import FakeFamily
from tests.schemas import validate_json

OLD, NEW, OTHER = "ops==1.0", "ops==2.0", "others==1.0"
# The kernels of each release; 2.0 no longer has `gone`.
KERNELS = {OLD: ("kept", "broken", "gone"), NEW: ("kept", "broken", "added"), OTHER: ("kept",)}
COMPILER = ("--triton", "fake==1.0", "--memory", "512")


@pytest.fixture(autouse=True)
def packages(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two releases of a package; the kernel `broken` compiles as the first has it."""

    def cells(package: str) -> list[Cell]:
        listed_cells = []
        for name in KERNELS[package]:
            # The compiler fails by name, so the failing source has one of its own.
            cell = fake.cell(name)
            kernel = replace(cell.kernel, package=package, digest=f"{package} {name}")
            if (package, name) == (NEW, "broken"):
                source = fake.cell("newly_broken").kernel
                kernel = replace(kernel, origin=source.origin)
            listed_cells.append(replace(cell, kernel=kernel))
        return listed_cells

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
            choice = FakeFamily({}).resolve("1.0").choices[0]
            return Plan(package, cells(package), {choice.identity: choice})

    table = {"newly_broken": "raise PassManager::run failed"}
    monkeypatch.setitem(toolchains.FAMILIES, "fake", FakeFamily(table))
    monkeypatch.setattr(planning, "resolve", FakePackage)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["diff", *words])


def document(*words: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(run(*words, *COMPILER, "--format", "json").stdout)
    validate_json("diff", content)
    return content


def kernels(rows: list[dict[str, Any]]) -> list[str]:
    return [row["kernel"] for row in rows]


def test_kernels_are_matched_by_name_between_two_releases() -> None:
    """Regressed, lost and new kernels are each listed."""
    content = document(OLD, NEW)
    assert kernels(content["regressed"]) == ["fake.broken"]
    assert kernels(content["only_from"]) == ["fake.gone"]
    assert kernels(content["only_to"]) == ["fake.added"]
    assert kernels(content["unchanged"]) == ["fake.kept"]


def test_the_first_sentence_names_the_package_and_the_compiler_of_both() -> None:
    """The first sentence names both releases, the compiler and the failing kernel."""
    outcome = run(OLD, NEW, *COMPILER)
    assert outcome.exit_code == Exit.FINDINGS
    words = " ".join(outcome.stdout.split())
    assert words.startswith("No: 1 of 3 kernels that compiled under ops==1.0 fails under ops==2.0")
    assert "Upgrading ops 1.0 → 2.0 (fake 1.0 in both)" in words
    assert "broken (fp16) no longer compiles" in words or "broken (bf16) no longer" in words
    assert "1 is not launched any more (fake.gone)" in words


def test_the_pin_is_the_release_that_compiles() -> None:
    """The pin is the release that does not break a kernel, in both directions."""
    assert document(OLD, NEW)["pin"]["package"] == OLD
    back = document(NEW, OLD)
    assert back["pin"]["package"] == OLD
    assert back["recommendation"].startswith(f"pin {OLD}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((OLD, OTHER), "is compared with another release of it"),
        ((OLD, "triton==3.5.1"), "is compared with another release of it"),
        ((OLD, NEW, "--package", OLD), "leave out --package"),
        ((OLD, NEW, "--triton", "fake==2.0"), "give one"),
        ((OLD, NEW, "--no-published", "--package", OTHER), "leave out --package"),
    ],
)
def test_sides_that_are_no_two_releases_of_a_package(words: tuple[str, ...], message: str) -> None:
    """Sides that are not two releases of a package give exit code 2."""
    outcome = run(*words, *COMPILER)
    assert outcome.exit_code == Exit.USAGE
    assert message in " ".join(outcome.stderr.split())


def test_a_range_is_its_newest_final_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest final release of a range is compared and named on stderr."""
    versions = [Version("1.0"), Version("1.1"), Version("2.0"), Version("2.1rc1")]
    monkeypatch.setattr(index, "available", lambda name: versions)
    outcome = run("ops==1.0", "ops>1", *COMPILER)
    assert outcome.exit_code == Exit.FINDINGS
    assert "ops>1 admits 1.1 and 2.0: ops==2.0 is compared" in " ".join(outcome.stderr.split())
    outcome = run("ops==1.0", "ops>=3", *COMPILER)
    assert outcome.exit_code == Exit.USAGE
    assert "no release of ops is >=3; the newest: 1.0, 1.1, 2.0, 2.1rc1" in outcome.stderr


def test_a_release_that_does_not_exist_is_an_error_before_any_capture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A missing release is an error before the other one is captured."""
    captures = []
    fake_package: Any = planning.resolve

    @dataclass(frozen=True)
    class Listed(fake_package):  # type: ignore[misc]
        """A package whose second release is missing from the index."""

        def __post_init__(self) -> None:
            if self.job.subject.package == NEW:
                raise UsageError("there is no ops 2.0; the nearest are 1.0")

        def capture(self, archive: object = None) -> Any:
            captures.append(self.job.subject.package)
            return self

    monkeypatch.setattr(planning, "resolve", Listed)
    outcome = run(OLD, NEW, *COMPILER)
    assert (outcome.exit_code, captures) == (Exit.USAGE, [])
    assert "there is no ops 2.0" in outcome.stderr
