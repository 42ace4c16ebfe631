"""A checkout's own tests beside the package driver: what they launch was seen, and comes first."""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from flacheck.engine import programs
from flacheck.errors import IncompleteError
from flacheck.guest.engine import channel
from flacheck.guest.engine.confinement import Policy
from flacheck.model import Json
from flacheck.toolchains.scratch import temporary_folder

_LOG = logging.getLogger(__name__)
GUEST = Path(channel.GUEST)
# Of CPU, for all tests together; twice what a driver has, for tests compute their references.
TEST_SECONDS = 120
# By the clock, when no signal reaches what hangs: a machine may have many other things to do.
_PATIENCE, _AT_LEAST = 20, 600
_MEMORY_MB = 8192


@dataclass(frozen=True)
class TestRun:
    """What a checkout's tests launched, line by line, and the report on how they ended."""

    lines: tuple[str, ...]
    report: Json


def run(
    config: Json,
    environment: Mapping[str, str],
    what: str,
    log: Path,
    policy: Callable[[str], Policy],
    stop: threading.Event | None = None,
) -> TestRun:
    """Run the tests of `config["checkout"]` under the recorder, confined by the `policy` of their
    scratch folder.

    Raises IncompleteError when pytest itself is killed or hangs; what was launched till then is in
    the log's folder no more.
    """
    _LOG.info(f"{what} …")
    with temporary_folder() as work:
        ours = {name: f"{work}/{name}" for name in ("output", "report", "progress")}
        Path(ours["output"]).write_text("", encoding="utf-8")

        def beat(seconds: float) -> None:
            _LOG.info(f"{what} … {seconds:.0f} s, {_doing(Path(ours['progress']))}")

        ended = programs.run(
            ["-c", channel.BOOT, str(GUEST), ".test_suite", json.dumps({**config, **ours})],
            environment,
            Path(work),
            log,
            seconds=max(_PATIENCE * config["seconds"], _AT_LEAST),
            memory_mb=_MEMORY_MB,
            policy=policy(work),
            beat=beat,
            stop=stop,
        )
        lines = tuple(_whole(Path(ours["output"])))
        report = Path(ours["report"])
        if report.exists():
            return TestRun(lines, json.loads(report.read_text(encoding="utf-8")))
        if not lines:
            raise IncompleteError(
                f"{what} ended without a report while {_doing(Path(ours['progress']))}: "
                f"{ended.how}; its log is {log}"
            )
        # What was launched before the end is kept, and the end is told.
        return TestRun(lines, {"ended": f"pytest itself ended: {ended.how}"})


def _doing(progress: Path) -> str:
    if progress.exists():
        return progress.read_text(encoding="utf-8", errors="replace")[:200] or "starting"
    return "starting"


def _whole(file: Path) -> Iterator[str]:
    """The lines that were written to their end."""
    with file.open(encoding="utf-8") as opened:
        yield from (line for line in opened if line.endswith("\n"))


def merge_lines(tests: TestRun, driver: Path) -> list[str]:
    """The lines of one launches file. What both launched is there once, as the tests launched it:
    it was seen, whatever the driver made up."""
    lines = list(tests.lines)
    seen = {json.loads(line).get("id") for line in lines}
    with driver.open(encoding="utf-8") as file:
        for line in file:
            plain = json.loads(line)
            if "schema" in plain and lines:
                continue
            if "id" not in plain or plain["id"] not in seen:
                lines.append(line)
    return lines


def by_source(tests: TestRun, driver: Path) -> Json:
    """The kernels that only the tests launched, only the driver, and both."""
    in_tests = {plain["kernel"] for plain in map(json.loads, tests.lines) if "kernel" in plain}
    with driver.open(encoding="utf-8") as file:
        driven = {plain["kernel"] for plain in map(json.loads, file) if "kernel" in plain}
    return {
        "tests": sorted(in_tests - driven),
        "driver": sorted(driven - in_tests),
        "both": sorted(in_tests & driven),
    }
