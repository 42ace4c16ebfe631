"""Progress on stderr: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Iterable

from flacheck.cli.common import say
from flacheck.model import Record, Verdict

# Seconds between two lines in a log.
_EVERY = 15.0


class _Pace:
    """How many records there are of each kind, of a total, and how fast they come."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.counts = Counter[Verdict]()
        self.cached = 0
        self.started = time.monotonic()

    def add(self, record: Record) -> None:
        self.counts[record.verdict] += 1
        self.cached += record.cached
        # A configuration that is skipped asks for another, which nobody could count before.
        self.total = max(self.total, self.counts.total())

    @property
    def rate(self) -> float:
        """Cells compiled a second."""
        compiled = self.counts.total() - self.cached
        return compiled / max(time.monotonic() - self.started, 1e-3)

    def say(self) -> None:
        counts = [(self.counts[verdict], verdict.value) for verdict in Verdict]
        words = [f"{count} {word}" for count, word in [*counts, (self.cached, "cached")] if count]
        said = ", ".join(words) or "none yet"
        say(f"{self.counts.total()}/{self.total} cells ({said}), {self.rate:.1f} a second")


def follow(records: Iterable[Record], total: int) -> None:
    """Take all the records, and show how far it is."""
    pace = _Pace(total)
    if sys.stderr.isatty():
        _draw_bar(records, pace)
        return
    said = pace.started
    for record in records:
        pace.add(record)
        if time.monotonic() - said > _EVERY:
            said = time.monotonic()
            pace.say()
    pace.say()


def _draw_bar(records: Iterable[Record], pace: _Pace) -> None:
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
        task = progress.add_task("compiling", total=pace.total, rate="")
        for record in records:
            pace.add(record)
            if pace.counts[Verdict.FAILS]:
                progress.update(task, description=f"{pace.counts[Verdict.FAILS]} failed")
            progress.update(task, advance=1, total=pace.total, rate=f"{pace.rate:.1f}/s")
