"""Runs of a checkout's own tests, whose launches come before those of the package driver."""

import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from flacheck.engine import programs
from flacheck.errors import IncompleteError
from flacheck.guest.engine.confinement import Policy
from flacheck.model import Json
from flacheck.toolchains.scratch import temporary_folder

_LOG = logging.getLogger(__name__)
# Of CPU, for all tests together: twice a driver's, because tests also compute references.
TEST_SECONDS = 120
# By the clock, for tests that hang and ignore signals: the machine may be busy otherwise.
_PATIENCE, _AT_LEAST = 20, 600
_MEMORY_MB = 8192


@dataclass(frozen=True)
class TestRun:
    """The lines of a test run's launches file, and the report on its outcome."""

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
    """Run the tests of `config["checkout"]` under the recorder, confined by a `policy`.

    The policy depends on the scratch folder. Raises IncompleteError if pytest itself is killed or
    hangs before the first launch.
    """
    _LOG.info(f"{what} …")
    with temporary_folder() as work:
        ours = {name: f"{work}/{name}" for name in ("output", "report", "progress")}
        Path(ours["output"]).write_text("", encoding="utf-8")

        def beat(seconds: float) -> None:
            _LOG.info(f"{what} … {seconds:.0f} s, {_doing(Path(ours['progress']))}")

        end = programs.run(
            programs.guest_arguments(".test_suite", {**config, **ours}, Path(work)),
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
                f"{end.how}; its log is {log}"
            )
        # The launches before the end count, and the report contains the reason for the end.
        return TestRun(lines, {"ended": f"pytest itself ended: {end.how}"})


def _doing(progress: Path) -> str:
    if progress.exists():
        return progress.read_text(encoding="utf-8", errors="replace")[:200] or "starting"
    return "starting"


def _whole(file: Path) -> Iterator[str]:
    """Yield the complete lines."""
    with file.open(encoding="utf-8") as stream:
        for line in stream:
            if line.endswith("\n"):
                yield line


def merge_lines(tests: TestRun, driver: Path) -> list[str]:
    """Merge the lines of both launches files.

    A launch of both is there once, as the tests made it, because the driver guesses arguments.
    """
    lines = list(tests.lines)
    ids = {json.loads(line).get("id") for line in lines}
    with driver.open(encoding="utf-8") as file:
        for line in file:
            plain = json.loads(line)
            if "schema" in plain and lines:
                continue
            if "id" not in plain or plain["id"] not in ids:
                lines.append(line)
    return lines


def by_source(tests: TestRun, driver: Path) -> Json:
    """Return the kernels that only the tests launched, only the driver, and both."""
    of_tests = _kernels(tests.lines)
    with driver.open(encoding="utf-8") as file:
        of_driver = _kernels(file)
    return {
        "tests": sorted(of_tests - of_driver),
        "driver": sorted(of_driver - of_tests),
        "both": sorted(of_tests & of_driver),
    }


def _kernels(lines: Iterable[str]) -> set[str]:
    kernels = set()
    for line in lines:
        entry = json.loads(line)
        if "kernel" in entry:
            kernels.add(entry["kernel"])
    return kernels
