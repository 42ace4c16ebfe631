"""The releases of a reduction, and their workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flacheck import toolchains
from flacheck.capabilities.repro.budget import Budget, BudgetSpent
from flacheck.capabilities.repro.compilers import Compilers, provide_releases
from flacheck.errors import ToolchainError
from flacheck.model import Outcome
from flacheck.toolchains.base import Resolution
from tests import fake
from tests.fake.family import FakeFamily

Family = Callable[..., FakeFamily]


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Family:
    def make_family(table: dict[str, Any], **more: Any) -> FakeFamily:
        family = FakeFamily(table, **more)
        monkeypatch.setitem(toolchains.FAMILIES, "fake", family)
        return family

    return make_family


def open_compilers() -> Compilers:
    return Compilers(provide_releases("fake==3.0", "sm90", ["fake==3.0"]), {}, 512)


def test_the_cells_own_release_is_always_among_those_asked(family: Family) -> None:
    """The cell's own release is included, oldest first."""
    family({})
    ready = provide_releases("fake==3.0", "sm90", ["fake==5.0", "fake==2.0"])
    assert list(ready) == ["fake==2.0", "fake==3.0", "fake==5.0"]


def test_releases_that_cannot_be_had_are_left_out_and_named(
    family: Family, caplog: pytest.LogCaptureFixture
) -> None:
    """Releases without a wheel or the target are left out with a warning."""
    family({}, wheelless=("1.0",), refused={"2.0": ("sm90",)})
    ready = provide_releases("fake==3.0", "sm90", ["fake==1.0", "fake==2.0"])
    assert list(ready) == ["fake==3.0"]
    assert caplog.messages == [
        "fake==1.0 is left out: no wheel for this Python",
        "fake==2.0 is left out: fake 2.0 does not support sm90",
    ]


def test_without_the_cells_own_release_nothing_can_be_reproduced(family: Family) -> None:
    """The error names the release and the target."""
    family({}, wheelless=("3.0",))
    with pytest.raises(ToolchainError, match=r"fake==3\.0, .* not available here for sm90"):
        provide_releases("fake==3.0", "sm90", ["fake==2.0"])


def test_a_local_build_is_known_by_the_path_that_was_named(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A local build is found by the path in the selection."""
    fakes = family({})
    build = replace(fakes.resolve("==3.0").choices[0], identity="fake==3.0+local.1")
    resolve = toolchains.resolve

    def resolve_build(specs: list[str]) -> Resolution:
        if specs == ["./main.whl"]:
            return Resolution((build,))
        return resolve(specs)

    monkeypatch.setattr(toolchains, "resolve", resolve_build)
    ready = provide_releases("fake==3.0+local.1", "sm90", ["fake==2.0"], ["./main.whl"])
    assert list(ready) == ["fake==2.0", "fake==3.0+local.1"]


def test_every_question_goes_to_a_worker_that_has_compiled_nothing(family: Family) -> None:
    """Each compile has a fresh worker."""
    family({"k": "pid", "j": "flaky boom"})
    with open_compilers() as compilers:
        pids = {compilers.ask(fake.cell("k", "3.0")).facts["pid"] for _ in range(3)}
        after = compilers.ask(fake.cell("j", "3.0"))
    assert len(pids) == 3
    assert after.outcome is Outcome.FINISHED


def test_a_question_that_takes_too_long_is_given_up(family: Family) -> None:
    """The timeout may change between two compiles."""
    family({"k": "spin", "j": "compile"})
    with open_compilers() as compilers:
        compilers.patience = 0.1
        assert compilers.ask(fake.cell("k", "3.0")).outcome is Outcome.TIMED_OUT
        compilers.patience = 60.0
        assert compilers.ask(fake.cell("j", "3.0")).outcome is Outcome.FINISHED


def test_a_compile_that_the_budget_ended_is_no_verdict(family: Family) -> None:
    """A compile that the budget ends has no verdict."""
    family({"k": "spin"})
    with open_compilers() as compilers:
        compilers.budget = Budget(seconds=0.5)
        with pytest.raises(BudgetSpent):
            compilers.judge_cell(fake.cell("k", "3.0"))


def test_workers_start_again_after_a_reset(family: Family) -> None:
    """A compile after a reset succeeds."""
    family({})
    with open_compilers() as compilers:
        assert compilers.ask(fake.cell("k", "3.0")).outcome is Outcome.FINISHED
        compilers.reset()
        assert compilers.ask(fake.cell("k", "3.0")).outcome is Outcome.FINISHED
