"""Progress on stderr: a bar with rate and time left on a terminal, a plain line now and then
elsewhere.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flacheck.cli.common import say
from flacheck.model import Record, Verdict

if TYPE_CHECKING:
    from rich.progress import Progress

# Seconds between two lines in a log.
_EVERY = 15.0


class Watcher:
    """Told of each record."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.counts = Counter[Verdict]()
        self.cached = 0
        self.started = time.monotonic()

    def __call__(self, record: Record) -> None:
        self.counts[record.verdict] += 1
        self.cached += record.cached
        self.show()

    @property
    def rate(self) -> float:
        """Cells compiled a second."""
        compiled = self.counts.total() - self.cached
        return compiled / max(time.monotonic() - self.started, 1e-3)

    def show(self) -> None:
        """Tell how far it is."""


class _Lines(Watcher):
    """A line now and then, for logs."""

    _last = 0.0

    def show(self) -> None:
        self._last = self._last or self.started
        if time.monotonic() - self._last > _EVERY:
            self.report()

    def report(self) -> None:
        self._last = time.monotonic()
        words = [f"{self.counts[verdict]} {verdict.value}" for verdict in Verdict]
        words = [word for word in words if not word.startswith("0 ")]
        if self.cached:
            words.append(f"{self.cached} cached")
        said = ", ".join(words) or "none yet"
        say(f"{self.counts.total()}/{self.total} cells ({said}), {self.rate:.1f} a second")


class _Bar(Watcher):
    """A bar of rich's."""

    def __init__(self, total: int, progress: Progress) -> None:
        super().__init__(total)
        self._progress = progress
        self._task = progress.add_task("compiling", total=total, rate="")

    def show(self) -> None:
        description = "compiling"
        if self.counts[Verdict.FAILS]:
            description = f"{self.counts[Verdict.FAILS]} failed"
        rate = f"{self.rate:.1f}/s"
        self._progress.update(self._task, advance=1, description=description, rate=rate)


@contextmanager
def watch(total: int) -> Iterator[Watcher]:
    """A bar on a terminal, lines elsewhere."""
    if not sys.stderr.isatty():
        lines = _Lines(total)
        yield lines
        lines.report()
        return
    # rich takes longer to import than most commands take.
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[rate]}"),
        bars.TimeRemainingColumn(),
    )
    # While the bar is drawn, rich puts what is printed on stderr above it.
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _Bar(total, progress)
