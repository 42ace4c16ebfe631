"""The typed events of a run."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from flacheck.model import Record


@dataclass(frozen=True)
class RunStarted:
    """A run is in the store and compiles `cells` cells; alternatives may add more."""

    run: str
    cells: int


@dataclass(frozen=True)
class RecordSettled:
    """A cell has its record, which is in the store.

    `work_done` is the share of the run's expected compile time that has passed, if it is known.
    """

    record: Record
    work_done: float | None = None


@dataclass(frozen=True)
class Progress:
    """Work other than compiling a cell, in a sentence for the user.

    A step makes the step before it out of date.
    """

    message: str
    is_step: bool = False


@dataclass(frozen=True)
class RunFinished:
    """A run ended; `complete` is False when it stopped before its last cell.

    `failures` counts the cells that fail, without tolerated and excused ones.
    """

    run: str
    complete: bool
    failures: int = 0


Event: TypeAlias = RunStarted | RecordSettled | Progress | RunFinished
OnEvent: TypeAlias = Callable[[Event], None]
Result = TypeVar("Result")


def ignore(event: Event) -> None:
    """Ignore an event."""


def drain(events: Generator[Event, None, Result], on_event: OnEvent | None) -> Result:
    """Pass each event to `on_event` and return the generator's result.

    The generator is closed on every way out, so that its workers end.
    """
    handle = on_event or ignore
    try:
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                result: Result = end.value
                return result
            handle(event)
    finally:
        events.close()
