"""A whole reproduction, from a cell to its result, over a compiler that fails by a table in real
worker processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from flacheck.capabilities.repro import reproduction
from flacheck.capabilities.repro.budget import Budget
from flacheck.capabilities.repro.compilers import Compilers
from flacheck.capabilities.repro.kinds import OVER_LIMIT, SLOW
from flacheck.capabilities.repro.original import NotReproduced
from flacheck.capabilities.repro.output.result import Runs
from flacheck.capabilities.repro.output.script import DOES_NOT, SHOWS
from flacheck.capabilities.repro.reproduction import Reproduction, begin
from flacheck.model import Cell, Cut, Imported, Kernel, Launch, Verdict
from tests.fake.family import FakeToolchain
from tests.made_specimens import POINTER, chain, shown_on, specimen

ABORT = "abort LinearLayout.cpp:562: LinearLayout LinearLayout::reshapeOuts(int) const: "
ABORT += "Assertion `ok' failed."

# The failure needs a dot.
TABLE = {
    "==1.0": "compile",
    "==2.0": {"says": "tl.dot", "then": ABORT},
    "==3.0": "compile",
}
VERSIONS = ("1.0", "2.0", "3.0")


@pytest.fixture
def compilers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Compilers]]:
    """Provide three releases that behave by a table; scripts show the failure on 2.0."""

    monkeypatch.setattr(reproduction, "run_script", shown_on("2.0"))
    instances: list[Compilers] = []

    def start(table: Any, compiles: int | None = None) -> Compilers:
        releases = {
            f"fake=={v}": FakeToolchain("fake", v, f"fake=={v}", "path", (), "", table={"*": table})
            for v in VERSIONS
        }
        instances.append(Compilers(releases, {}, 512, Budget(compiles)))
        return instances[-1]

    yield start
    for one in instances:
        one.reset()


def cell(version: str = "2.0") -> Cell:
    start = chain()
    kernel = Kernel("mine.kernel", None, "0", Cut(start.source, "kernel"))
    return Cell(kernel, f"fake=={version}", "sm90", Launch(start.args), start.options, "fp16")


def test_from_a_failing_cell_to_a_verified_result(compilers: Callable[..., Compilers]) -> None:
    """The result is smaller, has the same failure, and is verified on all releases."""
    sought = begin(cell(), compilers(TABLE, 200))
    sizes = [progress.nodes for progress in sought.search()]
    result = sought.finish(runs=2)
    assert sizes[-1] < sizes[0]
    assert result.reduction.lines <= 4 < result.original.lines
    assert "tl.dot" in result.reduction.source
    assert result.is_reproduced
    assert result.runs == Runs(2, 2)
    assert result.reduced_table == result.original_table
    assert [outcome.compiles for outcome in result.reduced_table.values()] == [True, False, True]
    assert result.exits == {"fake==1.0": DOES_NOT, "fake==2.0": SHOWS, "fake==3.0": DOES_NOT}
    assert result.effort.ran <= 200
    assert result.complete


def test_a_script_runs_on_releases_with_a_verdict_alone(
    compilers: Callable[..., Compilers],
) -> None:
    """The script does not run on a release whose compile does not end."""
    table = {**TABLE, "==3.0": "signal SIGKILL"}
    sought = begin(cell(), compilers(table, 200))
    for _ in sought.search():
        pass
    result = sought.finish(runs=1)
    assert result.reduced_table["fake==3.0"].verdict is Verdict.UNKNOWN
    assert result.exits == {"fake==1.0": DOES_NOT, "fake==2.0": SHOWS}


def test_the_import_of_a_package_is_not_reduced(compilers: Callable[..., Compilers]) -> None:
    """The error has the command that shows the failing import."""
    package_import = replace(cell(), kernel=replace(cell().kernel, name="fla.ops:__init__"))
    with pytest.raises(NotReproduced, match=r'`python -c "import fla\.ops"` shows its failure'):
        begin(replace(package_import, stage="import"), compilers(TABLE))


def test_a_call_that_its_package_refuses_is_not_reduced(
    compilers: Callable[..., Compilers],
) -> None:
    """The error has the scan that shows the refusal."""
    origin = Imported("fla.ops.kda:chunk_kda")
    kernel = Kernel("fla.ops.kda:chunk_kda", "fla==0.6.0", "0", origin)
    call = Cell(kernel, "fake==2.0", "sm90", None, stage="call")
    releases = compilers(TABLE)
    command = (
        r"no compile to reduce: `flacheck scan --package fla==0\.6\.0 --op fla\.ops\.kda\.chunk_kda "
        r"--toolchain fake==2\.0 --target sm90`"
    )
    with pytest.raises(NotReproduced, match=command):
        begin(call, releases)
    assert releases.budget.ran == 0


def test_a_reduction_is_never_larger_than_the_original(
    compilers: Callable[..., Compilers],
) -> None:
    """A kernel of one line stays one line."""
    block = "tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]"
    load = f"tl.load(x + {block})"
    start = specimen(f"tl.store(y + {block}, tl.dot({load}, {load}))", x=POINTER, y=POINTER)
    kernel = Kernel("mine.kernel", None, "0", Cut(start.source, "kernel"))
    sought = begin(replace(cell(), kernel=kernel, launch=Launch(start.args)), compilers(TABLE, 99))
    for _ in sought.search():
        pass
    assert sought.finish(runs=1).reduction.lines == start.lines == 1


def test_a_release_that_is_not_reached_leaves_the_result_incomplete(
    compilers: Callable[..., Compilers], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release without time for its compile makes the result incomplete."""
    monkeypatch.setattr(reproduction, "_FAR_SECONDS", -1.0)
    monkeypatch.setattr(Reproduction, "_compare_outward", lambda sought: None)
    sought = begin(cell(), compilers(TABLE, 200))
    for _ in sought.search():
        pass
    result = sought.finish(runs=1)
    assert result.releases == ("fake==1.0", "fake==2.0", "fake==3.0")
    assert list(result.original_table) == ["fake==2.0"]
    assert not result.complete


def test_a_cell_without_a_verdict_cannot_be_reproduced(
    compilers: Callable[..., Compilers],
) -> None:
    """A compiler that does not start gives no verdict."""
    broken = compilers({"==2.0": "exit 3", "else": "compile"})
    broken.patience = 30.0
    broken.releases["fake==2.0"].table["start"] = "broken"  # type: ignore[attr-defined]
    with pytest.raises(NotReproduced, match=r" is unknown: the compiler does not start"):
        begin(cell(), broken)


def test_a_kernel_that_fails_in_another_way_by_itself_is_not_reproduced(
    compilers: Callable[..., Compilers], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has both failures."""
    alone = compilers(TABLE)
    ask, answers = alone.ask, []

    def without_the_dot(requested_cell: Cell, **changes: Any) -> Any:
        answers.append(ask(requested_cell, **changes))
        return answers[-1] if len(answers) == 1 else ask(asked_without(requested_cell), **changes)

    monkeypatch.setattr(alone, "ask", without_the_dot)
    with pytest.raises(NotReproduced, match=r"does not fail in the same way: compiles instead of"):
        begin(cell(), alone)


def asked_without(requested_cell: Cell) -> Cell:
    return replace(
        requested_cell, kernel=replace(requested_cell.kernel, origin=Cut("nothing", "kernel"))
    )


def test_the_search_says_what_it_did(compilers: Callable[..., Compilers]) -> None:
    """The log has a line for each improvement, the failure and the contrasts."""
    sought = begin(cell(), compilers(TABLE, 200))
    events = list(sought.search())
    assert sought.log[-1].startswith("FC302:lower:reshapeOuts:")
    assert sought.log[-1].endswith("; must keep compiling: 1.0, 3.0")
    assert len(sought.log) == len(events) + 1
    assert sought.log[0].startswith(f"{events[0].by}: {events[0].lines} lines, ")


def test_the_failing_release_alone_drives_the_search(
    compilers: Callable[..., Compilers], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other releases compile only the original and the reduction."""
    own = compilers(TABLE, 200)
    sought = begin(cell(), own)
    compile_once, elsewhere = own.compile, []

    def note_compile(specimen: Any, release: str, until: str | None = None) -> Any:
        if release != "fake==2.0":
            elsewhere.append((specimen.lines, release, until))
        return compile_once(specimen, release, until)

    monkeypatch.setattr(own, "compile", note_compile)
    list(sought.search())
    whole, small = sought.original.lines, sought.best.lines
    assert sorted(elsewhere) == [
        (small, "fake==1.0", None),
        (small, "fake==3.0", None),
        (whole, "fake==1.0", None),
        (whole, "fake==3.0", None),
    ]


def test_a_reduction_into_another_failure_goes_back(compilers: Callable[..., Compilers]) -> None:
    """A reduction that another release rejects is undone."""
    table = {**TABLE, "==3.0": {"says": "in range(", "then": "compile", "else": ABORT}}
    sought = begin(cell(), compilers(table, 400))
    list(sought.search())
    result = sought.finish(runs=1)
    assert "in range(" in result.reduction.source
    assert result.reduction.nodes < result.original.nodes
    assert result.lost_neighbours == ()
    assert any("back to" in line for line in result.log)


def test_a_slow_compile_is_reduced_to_a_slow_one(compilers: Callable[..., Compilers]) -> None:
    """The script measures the time of a slow compile."""
    table = {"==2.0": {"says": "tl.dot", "then": "slow 20"}, "else": "slow 1"}
    sought = begin(cell(), compilers(table, 100))
    list(sought.search())
    result = sought.finish(runs=1)
    assert sought.kind is SLOW
    assert result.record.code == "FC921"
    assert result.record.message == "the compile took 20 s, 20 times what other releases take"
    assert "tl.dot" in result.reduction.source
    assert result.reduction.nodes < result.original.nodes
    assert "time.perf_counter() - started > 10.0" in result.script


def test_a_compile_that_is_slow_everywhere_is_not_reproduced(
    compilers: Callable[..., Compilers],
) -> None:
    """A compile is slow only in comparison with other releases."""
    with pytest.raises(NotReproduced, match=r"in 20\.0 s, which is not slow beside other releases"):
        begin(cell(), compilers("slow 20"))


def test_shared_memory_over_the_limit_is_compared_by_the_script(
    compilers: Callable[..., Compilers],
) -> None:
    """The script compares the shared memory with the limit."""
    table = {"==2.0": {"says": "tl.dot", "then": "shared 300000"}, "else": "compile"}
    sought = begin(cell(), compilers(table, 60))
    list(sought.search())
    result = sought.finish(runs=1)
    assert sought.kind is OVER_LIMIT
    assert result.record.code == "FC501"
    assert "if used > 232448:" in result.script
