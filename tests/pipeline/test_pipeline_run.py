"""One run of a plan: its entry in the store, its records, and its end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

import flacheck
from flacheck.errors import IncompleteError
from flacheck.evidence.analysis.standings import standings
from flacheck.model import Alternative, Cell, Purpose, Record, Verdict
from flacheck.pipeline import run as runs
from flacheck.pipeline.events import Progress, RecordSettled, RunFinished, RunStarted
from flacheck.pipeline.job import RunOptions, count_processors
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import environment, open_run, run_plan
from flacheck.store import Store, questions
from tests import fake

ASSERTION = "abort f.cpp:1: int f(int) const: Assertion `size == want' failed."
LARGE = "shared 245760"
TABLE: dict[str, Any] = {
    "bad": ASSERTION,
    "endless": "sleep 1000",
    "tolerated": LARGE,
    "fits_in_two": {"by": "num_warps", "4": LARGE, "8": LARGE},
}


@pytest.fixture(autouse=True)
def refreshes(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Put the fake compiler in a release's place and count the requests for pins."""
    requests: list[None] = []
    monkeypatch.setattr(runs, "Provider", lambda *_: fake.Provider(TABLE))
    monkeypatch.setattr(runs.torch_pins, "refresh", lambda: requests.append(None))
    return requests


def plan_of(cells: Sequence[Cell], **more: Any) -> Plan:
    return Plan("mine", cells, {}, **more)


def settle(store: Store, cells: Sequence[Cell], **options: Any) -> Iterator[Record]:
    """The records of a run of these cells."""
    for event in run_plan(plan_of(cells), store, RunOptions(jobs=1, **options)):
        if isinstance(event, RecordSettled):
            yield event.record


def cells(*names: str) -> list[Cell]:
    return [fake.cell(name, num_warps=4) for name in names]


def test_a_run_is_stored_before_anything_is_compiled(store: Store) -> None:
    """The stored run has its question and its purpose before the first compile."""
    forms = {(None, "fake.a"): ("sum", "chunk")}
    plan = plan_of(cells("a", "b"), purpose=Purpose.BISECT, forms=forms)
    events = run_plan(plan, store, RunOptions(jobs=1))
    first = next(events)
    run = store.run()
    assert first == RunStarted(run.id, 2)
    assert (run.matrix, run.purpose, run.finished) == ("mine", Purpose.BISECT, None)
    assert run.context["forms"] == [[None, "fake.a", "sum", "chunk"]]
    assert run.question is not None
    assert sum(each.cells for each in run.question.asked) == 2
    assert list(store.records(run.id)) == []
    events.close()


def test_a_run_without_an_executor_is_not_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Dask scheduler that is out of reach leaves no empty run."""

    def refuse(*_: object) -> None:
        raise IncompleteError("no Dask scheduler answers")

    monkeypatch.setattr(runs, "make_executor", refuse)
    with pytest.raises(IncompleteError, match="no Dask scheduler answers"):
        next(run_plan(plan_of(cells("a")), store, RunOptions()))
    assert store.runs() == []


def test_a_run_that_settled_every_cell_is_finished(store: Store, refreshes: list[None]) -> None:
    """The pins of torch are refreshed after the last cell."""
    records = list(settle(store, cells("a", "bad")))
    assert sorted(record.verdict.value for record in records) == ["compiles", "fails"]
    assert store.run().finished is not None
    assert refreshes == [None]


def test_a_run_that_compiled_nothing_asks_nobody(store: Store, refreshes: list[None]) -> None:
    """The store answered."""
    list(settle(store, cells("a")))
    (record,) = settle(store, cells("a"))
    assert record.cached
    assert refreshes == [None]
    (again,) = settle(store, cells("a"), fresh=True)
    assert not again.cached


def test_a_run_stops_after_so_many_failures_and_is_not_finished(
    store: Store, refreshes: list[None]
) -> None:
    """A tolerated failure does not count."""
    plan = plan_of(cells("tolerated", "a", "bad", "b"))
    events = list(run_plan(plan, store, RunOptions(jobs=1, max_failures=1)))
    assert events[-1] == RunFinished(store.run().id, complete=False, failures=1)
    records = [event.record for event in events if isinstance(event, RecordSettled)]
    assert sum(each.verdict is Verdict.FAILS and not each.tolerated for each in records) == 1
    assert store.run().finished is None
    assert refreshes == []


def test_a_run_stops_at_its_budget_while_a_cell_compiles(store: Store) -> None:
    """Settled records stay, nothing is said of the others, and the run is not finished."""
    start = time.monotonic()
    options = RunOptions(jobs=2, budget=3.0, stops=True)
    events = list(run_plan(plan_of(cells("a", "endless")), store, options))
    assert time.monotonic() - start < 30
    assert events[-1] == RunFinished(store.run().id, complete=False)
    (settled,) = [event.record for event in events if isinstance(event, RecordSettled)]
    assert settled.kernel == "fake.a"
    messages = [event.message for event in events if isinstance(event, Progress)]
    assert messages == ["2 cells to compile; nothing is known of their time yet"]
    assert store.run().finished is None


def test_failures_that_are_let_pass_do_not_stop_a_run(store: Store) -> None:
    """Failures of a waiver or a baseline do not stop a run."""
    options = RunOptions(jobs=1, max_failures=1)
    events = list(run_plan(plan_of(cells("bad", "a")), store, options, lambda cell: True))
    assert sum(isinstance(event, RecordSettled) for event in events) == 2
    assert events[-1] == RunFinished(store.run().id, complete=True)
    assert store.run().finished is not None


def test_closing_the_iterator_ends_the_run_and_keeps_what_it_had(store: Store) -> None:
    """A closed iterator ends the run like an interrupt does."""
    records = settle(store, cells(*(f"k{number}" for number in range(8))))
    first = next(records)
    records.close()  # type: ignore[attr-defined]
    assert first.key in {record.key for record in store.records(store.run().id)}
    assert store.run().finished is None


def test_results_join_what_is_known_of_the_run(store: Store) -> None:
    """Beside its kernels."""
    with open_run(plan_of(cells("a")), store, RunOptions(jobs=1)) as active:
        active.finish({"answer": 3})
    assert store.run().context["answer"] == 3
    assert store.run().context["kernels"] == ["fake.a"]


def test_an_environment_names_the_flacheck_that_ran() -> None:
    """The environment also has Python and the platform; there is at least one CPU."""
    assert environment()["flacheck"] == flacheck.__version__
    assert set(environment()) == {"flacheck", "python", "platform"}
    assert count_processors() >= 1


def launch_with_choices(name: str, first: int = 4, others: Sequence[int] = (8, 2, 1)) -> Cell:
    """Return a launch with one usual configuration and alternatives for the case that it is
    skipped."""
    alternatives = tuple(Alternative({}, {"num_warps": warps}) for warps in others)
    return replace(fake.cell(name, num_warps=first), alternatives=alternatives)


def warps(records: Iterable[Record]) -> list[tuple[str, int, str]]:
    return [(r.kernel, r.options["num_warps"], r.verdict.value) for r in records]


def test_a_launch_that_nothing_fits_fails_after_its_last_configuration(store: Store) -> None:
    """A launch fails after all of its configurations were tried."""
    warps_seen = warps(settle(store, [launch_with_choices("tolerated")]))
    assert warps_seen == [("fake.tolerated", number, "fails") for number in (4, 8, 2, 1)]
    (answer,) = standings(questions.in_force(store), store.current)
    assert (len(answer.failing), answer.progress) == (4, "4/4")


def test_a_run_that_ended_before_its_alternatives_is_taken_up(store: Store) -> None:
    """The run is partial until then, and its stored cells are not compiled again."""
    first = settle(store, [launch_with_choices("fits_in_two")])
    assert warps([next(first)]) == [("fake.fits_in_two", 4, "fails")]
    first.close()
    (answer,) = standings(questions.in_force(store), store.current)
    assert (answer.is_good, answer.progress) == (False, "1/2")
    again = list(settle(store, [launch_with_choices("fits_in_two")]))
    assert [(r.options["num_warps"], r.cached) for r in again] == [
        (4, True),
        (8, False),
        (2, False),
    ]
    (answer,) = standings(questions.in_force(store), store.current)
    assert (answer.is_good, answer.progress) == (True, "3/3")


def test_each_shard_asks_the_alternatives_of_its_own_cells(store: Store) -> None:
    """All alternatives belong to the one question."""
    whole = [launch_with_choices("fits_in_two"), launch_with_choices("a")]
    for part in whole:
        list(run_plan(plan_of([part], whole=whole), store, RunOptions(jobs=1)))
    (answer,) = standings(questions.in_force(store), store.current)
    assert (answer.is_good, answer.progress) == (True, "4/4")


def test_an_alternative_that_is_skipped_counts_for_no_limit_of_failures(store: Store) -> None:
    """The configuration that it replaces does not count either."""
    records = settle(store, [launch_with_choices("fits_in_two")], max_failures=1)
    assert [record.verdict.value for record in records] == ["fails", "fails", "compiles"]


def test_the_usual_configurations_are_compiled_first(store: Store) -> None:
    """The interim result and the remaining time follow them, and each cell is compiled once."""
    usual = fake.cell("a", num_warps=4)
    plan = plan_of(
        [fake.cell("a", num_warps=8), usual, fake.cell("a", num_warps=2)],
        usual_keys=frozenset([usual.key]),
    )

    def events() -> list[Any]:
        progress = run_plan(plan, store, RunOptions(jobs=1))
        return [each for each in progress if isinstance(each, (RecordSettled, Progress))]

    first, answer, time, *others = events()
    assert first.record.key == usual.key
    assert answer.message == "so far, fake==1.0 on sm90: 1 of 1 kernel compile"
    assert time.message.startswith("compiling 2 further configurations, which takes about ")
    assert [each.record.cached for each in others] == [False, False]
    again = events()
    assert [each.message for each in again if isinstance(each, Progress)] == [answer.message]
    assert all(each.record.cached for each in again if isinstance(each, RecordSettled))
