"""Progress on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

import flacheck
from flacheck.api.settings import rounded
from flacheck.cli import common, loudness

if TYPE_CHECKING:
    from flacheck import Event, Record

# Seconds between two lines in a log.
_EVERY = 10.0
_ORDER = ("compiles", "fails", "unknown", "skipped")


@contextmanager
def follow(resumable: bool = True) -> Iterator[ProgressDisplay]:
    """Yield a receiver of events that shows them on stderr.

    With `resumable`, an interrupt ends with the command that goes on from the stored records.
    """
    follower = ProgressDisplay()
    try:
        yield follower
    except KeyboardInterrupt as error:
        follower.close()
        if resumable and not str(error):
            common.say(common.resume_message())
            raise typer.Exit(int(flacheck.Exit.INTERRUPTED)) from None
        raise
    finally:
        follower.close()


class ProgressDisplay:
    """Shows events; called with each of them."""

    def __init__(self) -> None:
        self._pace: _Pace | None = None
        self._bar: _Bar | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, flacheck.RunStarted):
            self._start(event.cells)
        elif isinstance(event, flacheck.RecordSettled):
            self._add(event.record, event.work_done)
        elif isinstance(event, flacheck.Progress):
            self._message(event)
        else:
            self._end()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
            loudness.Heartbeat.is_paused = False
        loudness.Heartbeat.describe = staticmethod(lambda: None)
        loudness.end_step()

    def _start(self, cells: int) -> None:
        self._pace = _Pace(cells)
        if loudness.moves_cursor() and not loudness.is_quiet():
            loudness.end_step()
            loudness.Heartbeat.is_paused = True
            self._bar = _Bar(self._pace)
        else:
            loudness.Heartbeat.describe = self._pace.line

    def _add(self, record: Record, work_done: float | None) -> None:
        if self._pace is None:
            return
        self._pace.add(record, work_done)
        loudness.detail(
            f"{record.verdict.value} {record.kernel} {record.dtype} {record.target} "
            f"{record.toolchain} {record.code or ''}".rstrip()
        )
        if self._bar is not None:
            self._bar.draw()
        else:
            self._pace.say_sometimes()

    def _message(self, event: flacheck.Progress) -> None:
        if loudness.is_quiet():
            return
        if event.is_step:
            loudness.show_step(event.message)
        else:
            common.say(event.message)

    def _end(self) -> None:
        if self._bar is None and self._pace is not None and not self._pace.is_printed:
            self._pace.say()
        self.close()
        self._pace = None


class _Pace:
    """The number of records of each verdict, of a total, and their rate."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.counts = Counter[str]()
        self.cached = 0
        self.work_done: float | None = None
        self._printed = 0
        self._started = time.monotonic()
        self._latest_line = self._started

    def add(self, record: Record, work_done: float | None = None) -> None:
        self.work_done = work_done
        self.counts[record.verdict.value] += 1
        self.cached += record.cached
        # Alternatives of skipped configurations come on top of the planned cells.
        self.total = max(self.total, self.counts.total())

    @property
    def rate(self) -> float:
        """Cells compiled a second."""
        new_records = self.counts.total() - self.cached
        return new_records / max(time.monotonic() - self._started, 1e-3)

    def say_sometimes(self) -> None:
        if time.monotonic() - self._latest_line > _EVERY:
            self._latest_line = time.monotonic()
            self.say()

    @property
    def is_printed(self) -> bool:
        """Return True if the last line holds all records."""
        return self._printed == self.counts.total() > 0

    def say(self) -> None:
        loudness.progress(self.line())

    def line(self) -> str:
        """Return counts, percent, rate and an estimate of the time left, to be printed."""
        self._printed = self.counts.total()
        counts = [(self.counts[verdict], verdict) for verdict in _ORDER]
        words = [f"{count} {word}" for count, word in [*counts, (self.cached, "cached")] if count]
        summary = ", ".join(words) or "none yet"
        share = 100 * self.counts.total() // max(self.total, 1)
        line = f"{self.counts.total()}/{self.total} cells, {share} % ({summary})"
        return f"{line}, {self.rate:.1f} a second{self.time_left()}"

    def time_left(self) -> str:
        """Return an estimate by the share of the work, else by the rate; empty at the end."""
        remaining = self.total - self.counts.total()
        if not remaining or not self.rate:
            return ""
        if self.work_done and self.work_done < 1:
            elapsed = time.monotonic() - self._started
            left = elapsed * (1 - self.work_done) / self.work_done
            return f", {rounded(left)} left"
        return f", {rounded(remaining / self.rate)} left"


class _Bar:
    """A bar on a terminal; rich prints other messages above it."""

    def __init__(self, pace: _Pace) -> None:
        # Imported here: rich takes longer to import than most commands take.
        from rich import progress as bars
        from rich.console import Console
        from rich.table import Column

        self._pace = pace
        columns: tuple[Any, ...] = (
            bars.SpinnerColumn(),
            bars.TextColumn("{task.description}"),
            # The bar takes what the numbers leave of the line.
            bars.BarColumn(bar_width=None, table_column=Column(ratio=1)),
            bars.TaskProgressColumn(),
            bars.MofNCompleteColumn(),
            bars.TextColumn("{task.fields[rate]}"),
            bars.TextColumn("{task.fields[left]}"),
        )
        self._progress = bars.Progress(
            *columns, console=Console(stderr=True), transient=True, expand=True
        )
        self._task = self._progress.add_task("compiling", total=pace.total, rate="", left="")
        self._progress.start()

    def draw(self) -> None:
        pace = self._pace
        if pace.counts["fails"]:
            self._progress.update(self._task, description=f"{pace.counts['fails']} failed")
        rate = f"{pace.rate:.1f}/s"
        left = pace.time_left().removeprefix(", ")
        self._progress.update(self._task, advance=1, total=pace.total, rate=rate, left=left)

    def close(self) -> None:
        self._progress.stop()
