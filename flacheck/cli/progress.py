"""Progress on stderr: a bar with rate and time left on a terminal, a plain line now and then
elsewhere.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from flacheck.model import Record, Verdict

_EVERY = 15.0


class Watcher(Protocol):
    """Told of each record; `say` prints a line of talk without harm to the bar."""

    def __call__(self, record: Record) -> None: ...

    def say(self, message: str) -> None: ...


@contextmanager
def watch(total: int) -> Iterator[Watcher]:
    if sys.stderr.isatty():
        with _bar(total) as watcher:
            yield watcher
    else:
        lines = _Lines(total)
        yield lines
        lines.report()


class _Lines:
    """A line at most every 15 s, for logs."""

    def __init__(self, total: int) -> None:
        self._total, self._counts, self._cached = total, Counter[Verdict](), 0
        self._started = self._last = time.monotonic()

    def __call__(self, record: Record) -> None:
        self._counts[record.verdict] += 1
        self._cached += record.cached
        if time.monotonic() - self._last > _EVERY:
            self.report()

    def say(self, message: str) -> None:
        print(f"flacheck: {message}", file=sys.stderr, flush=True)

    def report(self) -> None:
        self._last = time.monotonic()
        done = self._counts.total()
        rate = (done - self._cached) / max(self._last - self._started, 1e-3)
        self.say(
            f"{done}/{self._total} cells ({_words(self._counts, self._cached)}), {rate:.1f} a second"
        )


def _words(counts: Counter[Verdict], cached: int) -> str:
    words = [f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict]]
    return ", ".join(words + ([f"{cached} cached"] if cached else [])) or "none yet"


@contextmanager
def _bar(total: int) -> Iterator[Watcher]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    with Progress(
        *columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True
    ) as progress:
        yield _Bar(progress, progress.add_task("compiling", total=total, rate=""))


class _Bar:
    def __init__(self, progress, task) -> None:  # type: ignore[no-untyped-def]
        self._progress, self._task = progress, task
        self._counts, self._cached, self._started = Counter[Verdict](), 0, time.monotonic()

    def __call__(self, record: Record) -> None:
        self._counts[record.verdict] += 1
        self._cached += record.cached
        compiled = self._counts.total() - self._cached
        rate = compiled / max(time.monotonic() - self._started, 1e-3)
        description = (
            f"{self._counts[Verdict.FAILS]} failed" if self._counts[Verdict.FAILS] else "compiling"
        )
        self._progress.update(self._task, advance=1, description=description, rate=f"{rate:.1f}/s")

    def say(self, message: str) -> None:
        self._progress.console.print(f"flacheck: {message}", highlight=False)
