"""The run of a bundle on this machine's GPU, launch by launch; a killed run resumes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flacheck import files
from flacheck.engine.card import failure_of
from flacheck.engine.card_runner import CardRunner
from flacheck.errors import IncompleteError
from flacheck.model import Attempt, Json, Outcome, digest
from flacheck.pipeline.events import Event, Progress
from flacheck.pipeline.measurement.bundle import Bundle, BundledLaunch, request_of
from flacheck.pipeline.measurement.judging import spacing, tolerance

# Seconds for a launch with all its binaries, and one of them may hang.
LAUNCH_SECONDS = 60.0
# Binaries of a launch that may hang before the others are left untried.
_MOST_HANGS = 2
# The stage of a worker that died: what it did with the binary of an index.
_STAGE = re.compile(r"(?:load|run|time) (\d+)")
_JOURNAL_BYTES = 1 << 30


@dataclass
class Findings:
    """The runner's facts about a launch, and why binaries ended the runner."""

    facts: Json = field(default_factory=dict)
    deaths: dict[int, str] = field(default_factory=dict)

    def to_json(self) -> Json:
        return {
            "facts": self.facts,
            "deaths": {str(each): self.deaths[each] for each in self.deaths},
        }


def run_bundle(
    bundle: Bundle, runner: CardRunner, seed: int, journal: MeasurementJournal
) -> Generator[Event, None, list[Findings]]:
    """Run every launch that the journal lacks; return the findings of all, in their order."""
    launches = bundle.manifest.launches
    findings = journal.read(len(launches))
    if findings:
        yield Progress(f"{len(findings)} of {len(launches)} launches were measured before")
    for number, launch in enumerate(launches):
        if number in findings:
            continue
        yield Progress(f"measuring {number + 1} of {len(launches)}: {launch.kernel}", is_step=True)
        findings[number] = run_launch(launch, bundle.folder, runner, seed)
        journal.add(number, findings[number])
    return [findings[number] for number in range(len(launches))]


def run_launch(
    launch: BundledLaunch, folder: Path, runner: CardRunner, seed: int, times: bool = True
) -> Findings:
    """Run a launch's binaries, which lie in the folder, until all that can run have run.

    They are timed as well with `times`.

    Raises:
        IncompleteError: If the GPU does not come back after a fault.
    """
    request = request_of(launch, folder, tolerance(launch), spacing(launch))
    skip = {index for index, each in enumerate(launch.variants) if each.binary is None}
    deaths: dict[int, str] = {}
    hangs = 0
    while len(skip) < len(launch.variants):
        config = {"seed": seed, "skip": sorted(skip), "times": times}
        attempt = runner.measure(request, config)
        if attempt.outcome is Outcome.FINISHED:
            return Findings(dict(attempt.facts), deaths)
        if attempt.outcome in (Outcome.NOT_STARTED, Outcome.LOST):
            raise IncompleteError(f"the GPU is lost: {failure_of(attempt)}")
        index = _culprit(attempt, launch)
        if index is None or index in skip:
            return Findings({"problem": failure_of(attempt)}, deaths)
        deaths[index] = _cause(attempt)
        skip.add(index)
        hangs += attempt.outcome is Outcome.TIMED_OUT
        if hangs >= _MOST_HANGS:
            return Findings({"problem": "not tried: two binaries before it hung"}, deaths)
    return Findings({}, deaths)


def _culprit(attempt: Attempt, launch: BundledLaunch) -> int | None:
    """Return the index of the binary that ended the runner; None if it was none of them."""
    if attempt.outcome not in (Outcome.DIED, Outcome.TIMED_OUT):
        return None
    match = _STAGE.fullmatch(attempt.stage or "")
    if match is None:
        return None
    index = int(match[1])
    if index < len(launch.variants):
        return index
    # The twin is the first binary once more.
    return next(place for place, each in enumerate(launch.variants) if each.binary is not None)


def _cause(attempt: Attempt) -> str:
    if attempt.outcome is Outcome.TIMED_OUT:
        return f"it had not ended after {LAUNCH_SECONDS:.0f} s"
    lines = attempt.log.strip().splitlines()
    return lines[-1][:300] if lines else f"it ends the process ({attempt.signal})"


@dataclass
class MeasurementJournal:
    """The findings of a run in a file, a line a launch, so that a killed run goes on.

    `identity` is that of the bundle, the GPU and the seed: measurements of two cards never mix.
    """

    folder: Path
    identity: str

    @staticmethod
    def of(store: Path, bundle: Bundle, card: Mapping[str, Any], seed: int) -> MeasurementJournal:
        """Return the journal of a bundle on a card, in the store's folder."""
        identity = digest([bundle.manifest.digest, dict(card), seed])
        return MeasurementJournal(store / "measurements", identity)

    @property
    def file(self) -> Path:
        return self.folder / f"{self.identity}.jsonl"

    def read(self, count: int) -> dict[int, Findings]:
        """Return the findings so far, by the number of the launch."""
        findings: dict[int, Findings] = {}
        for value in self._lines():
            with suppress(KeyError, TypeError, ValueError, AttributeError):
                deaths = {int(index): str(reason) for index, reason in value["deaths"].items()}
                if 0 <= value["launch"] < count:
                    findings[value["launch"]] = Findings(dict(value["facts"]), deaths)
        return findings

    def _lines(self) -> Iterator[Any]:
        if not self.file.exists():
            return
        with files.open_text(self.file, _JOURNAL_BYTES) as text:
            for line in text:
                # The last line of a killed run may be incomplete.
                with suppress(ValueError):
                    yield json.loads(line)

    def add(self, number: int, findings: Findings) -> None:
        """Append a launch's findings."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as file:
            file.write(json.dumps({"launch": number, **findings.to_json()}) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def discard(self) -> None:
        """Forget the findings, so that everything is measured again."""
        self.file.unlink(missing_ok=True)
