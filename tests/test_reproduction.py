"""A whole reproduction, from a cell to its result, over a compiler that fails by a table in real
worker processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from flacheck.model import Cell, Kernel, Launch
from flacheck.repro.compilers import Compilers
from flacheck.repro.oracle import Budget
from flacheck.repro.original import NotReproduced, Stopped
from flacheck.repro.reproduction import Reproduction
from flacheck.repro.verification import DOES_NOT, SHOWS, Verifier
from flacheck.toolchains.base import Toolchain
from tests import fake
from tests.test_repro import chain

ABORT = "abort LinearLayout.cpp:562: LinearLayout LinearLayout::reshapeOuts(int) const: Assertion `ok' failed."

# The failure needs a dot.
TABLE = {
    "==1.0": "compile",
    "==2.0": {"says": "tl.dot", "then": ABORT},
    "==3.0": "compile",
}


@dataclass(frozen=True)
class FakeToolchain(Toolchain):
    """A release of the fake compiler."""

    table: Any = None

    def worker_config(self) -> dict[str, Any]:
        return {
            "path": [],
            "identity": self.identity,
            "worker_file": fake.WORKER,
            "table": {"*": self.table},
        }


@pytest.fixture
def compilers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], Compilers]]:
    """Three releases that behave by a table; scripts are run by nobody, and show the failure on
    2.0.
    """

    def status(self: Verifier, text: str, toolchain: Toolchain) -> int:
        return SHOWS if toolchain.version == "2.0" else DOES_NOT

    monkeypatch.setattr(Verifier, "status", status)
    opened: list[Compilers] = []

    def started(table: Any) -> Compilers:
        names = {
            f"fake=={v}": FakeToolchain("fake", v, f"fake=={v}", "path", (), "", table=table)
            for v in VERSIONS
        }
        opened.append(Compilers(names, 512))
        return opened[-1]

    yield started
    for one in opened:
        one.reset()


VERSIONS = ("1.0", "2.0", "3.0")


def cell(version: str = "2.0") -> Cell:
    start = chain()
    kernel = Kernel("mine.kernel", None, "0", {"source": start.source, "qualname": "kernel"})
    return Cell(kernel, f"fake=={version}", "sm90", Launch(start.args), start.options, "fp16")


def test_from_a_failing_cell_to_a_verified_result(compilers: Callable[[Any], Compilers]) -> None:
    """Smaller at every step, the same failure, a table of all releases, k of n runs."""
    sought = Reproduction(cell(), None, compilers(TABLE), Budget(compiles=200), runs=2)
    sizes = [progress.nodes for progress in sought.steps()]
    result = sought.finish()
    assert sizes[-1] < sizes[0] and result.reduced.lines <= 4 < result.original.lines
    assert "tl.dot" in result.reduced.source and result.reproduced
    assert result.runs.to_json() == {"reproduced": 2, "of": 2}
    assert result.reduced_table == result.original_table
    assert [outcome.compiles for outcome in result.reduced_table.values()] == [True, False, True]
    assert result.exits == {"fake==1.0": DOES_NOT, "fake==2.0": SHOWS, "fake==3.0": DOES_NOT}
    assert result.tally.ran <= 200 and result.complete


def test_a_cell_that_compiles_cannot_be_reproduced(compilers: Callable[[Any], Compilers]) -> None:
    """It is said how long it took, for a slow one could be."""
    with pytest.raises(NotReproduced, match=r"compiles under fake==1\.0 in"):
        list(Reproduction(cell("1.0"), None, compilers(TABLE), Budget()).steps())


def test_an_end_before_the_search_has_begun_has_nothing_to_show(
    compilers: Callable[[Any], Compilers],
) -> None:
    """Nothing is written then."""
    sought = Reproduction(cell(), None, compilers(TABLE), Budget())
    assert sought.draft() == {}
    with pytest.raises(Stopped):
        sought.finish(complete=False)


def test_an_end_in_mid_search_leaves_the_best_so_far(compilers: Callable[[Any], Compilers]) -> None:
    """It is verified like any other, and marked as not complete."""
    sought = Reproduction(cell(), None, compilers(TABLE), Budget(), runs=1)
    search = sought.steps()
    next(search)
    search.close()
    draft = sought.draft()
    assert set(draft) == {"repro.py", "original.py"} and "tl.dot" in draft["repro.py"]
    assert len(draft["repro.py"]) < len(draft["original.py"])
    result = sought.finish(complete=False)
    assert not result.complete and result.reproduced
    assert result.reduced.nodes < result.original.nodes
