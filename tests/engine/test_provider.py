"""The provider of compilers: each toolchain is provided once, at its first cell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flacheck import toolchains
from flacheck.engine.provider import Unavailable, worker_kind
from flacheck.engine.sandbox import WorkerKind
from flacheck.model import Attempt, Outcome, Purpose, Verdict
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import provider_of
from flacheck.source.packages.package import Package
from flacheck.toolchains.base import Toolchain
from tests import fake
from tests.fake.family import FakeFamily


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> FakeFamily:
    variant = FakeFamily({}, wheelless=("4.0",), refused={"1.0": ("sm120",)})
    monkeypatch.setitem(toolchains.FAMILIES, "fake", variant)
    return variant


def plan(family: FakeFamily, *versions: str, **more: object) -> Plan:
    """A cell under each of these versions."""
    choices = {f"fake=={version}": family._choice(version) for version in versions}
    cells = [fake.cell("k", version) for version in versions]
    return replace(Plan("fake", cells, choices), **more)  # type: ignore[arg-type]


def test_a_compiler_that_loses_a_file_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: FakeFamily
) -> None:
    """A deleted file and an upgrade in place are noticed; files that Python caches do not count."""
    folder = tmp_path / "compiler"
    (folder / "bin").mkdir(parents=True)
    ptxas = folder / "bin" / "ptxas"
    ptxas.write_text("one")
    provide = FakeFamily.provide
    monkeypatch.setattr(
        FakeFamily,
        "provide",
        lambda self, choice: replace(provide(self, choice), paths=(str(folder),)),
    )
    plan_made = plan(family, "1.0")
    provider, cell = provider_of(plan_made, 512), plan_made.cells[0]
    provider.worker_kind(cell)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "k.pyc").write_text("")
    assert provider.loss(cell) is None
    ptxas.write_text("another one")
    assert str(ptxas) in str(provider.loss(cell))
    ptxas.unlink()
    assert str(ptxas) in str(provider.loss(cell))


def test_a_toolchain_is_provided_once_and_when_it_is_wanted(family: FakeFamily) -> None:
    """This holds for any number of cells and kinds of worker."""
    plan_made = plan(family, "1.0", "2.0")
    provider = provider_of(plan_made, 512)
    assert family.provided == []
    first = provider.worker_kind(plan_made.cells[0])
    assert isinstance(first, WorkerKind)
    assert first is provider.worker_kind(replace(plan_made.cells[0], options={"num_warps": 8}))
    assert family.provided == ["1.0"]


def test_a_release_without_a_wheel_is_unknown_for_each_of_its_cells(family: FakeFamily) -> None:
    """The cells get FC903 with the reason, and nothing is installed."""
    plan_made = plan(family, "4.0")
    refusal = provider_of(plan_made, 512).worker_kind(plan_made.cells[0])
    assert refusal == Unavailable(Verdict.UNKNOWN, "no wheel for this Python", "FC903")
    assert family.provided == []


def test_what_a_toolchain_refuses_is_known_without_it(family: FakeFamily) -> None:
    """The refusal of an unsupported target needs no installed toolchain."""
    plan_made = plan(family, "1.0")
    cell = plan_made.cells[0]
    provider = provider_of(plan_made, 512)
    assert provider.refusal(cell) is None
    assert provider.refusal(replace(cell, target="sm120")) == "fake 1.0 does not support sm120"


def test_what_a_capture_tried_is_not_tried_again(family: FakeFamily) -> None:
    """A cell that a capture has tried is found by its key."""
    plan_made = plan(family, "1.0", "2.0")
    attempt = Attempt(Outcome.RAISED, stage="import")
    provider = provider_of(replace(plan_made, attempts={plan_made.cells[0].key: attempt}), 512)
    assert provider.attempt(plan_made.cells[0]) is attempt
    assert provider.attempt(plan_made.cells[1]) is None


def test_a_worker_holds_a_package_or_the_corpus(tmp_path: Path) -> None:
    """A worker runs beside torch only if it imports kernels."""
    toolchain = Toolchain("triton", "3.2.0", "triton==3.2.0", "cache", ("/there",), "w")
    package = Package("fla", "1.0", str(tmp_path), "d" * 16, {})
    own = worker_kind(toolchain, None, False, 512)
    assert own.name == "triton==3.2.0 corpus"
    assert Path(own.config["corpus"]).name == "kernels"
    assert "torch" not in own.config
    other = worker_kind(toolchain, package, True, 512)
    assert other.name == "triton==3.2.0 fla==1.0 beside torch"
    assert list(other.config["packages"]) == ["fla==1.0"]
    assert "torch" in other.config


def test_a_plan_says_what_its_run_asks(family: FakeFamily) -> None:
    """The plan lists cells by toolchain and target, and facts for reports."""
    plan_made = plan(family, "1.0", "2.0", selection={"dtypes": ["bf16"]}, purpose=Purpose.BISECT)
    question, sets = plan_made.asks()
    assert question.about == "fake"
    assert [(each.toolchain, each.cells) for each in question.asked] == [
        ("fake==1.0", 1),
        ("fake==2.0", 1),
    ]
    assert [sets[each.place].digest for each in question.asked] == [
        each.keys for each in question.asked
    ]
    nothing: dict[str, list[str]] = {"forms": [], "coverage": [], "stale": []}
    assert plan_made.context() == {**nothing, "kernels": ["fake.k"]}
