"""Runs of a checkout's own tests, whose launches come before those of the package driver."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from flacheck import files
from flacheck.engine import programs
from flacheck.errors import IncompleteError
from flacheck.files import GuestFolder
from flacheck.guest.engine.confinement import Policy
from flacheck.model import Json
from flacheck.subjects.captures.capture_archive import LAUNCHES, REPORT
from flacheck.toolchains.scratch import temporary_folder

_LOG = logging.getLogger(__name__)
# Of CPU, for all tests together: twice a driver's, because tests also compute references.
TEST_SECONDS = 120
# By the clock, for tests that hang and ignore signals: the machine may be busy otherwise.
_PATIENCE, _AT_LEAST = 20, 600
_MEMORY_MB = 8192
_PROGRESS = "progress"


@dataclass(frozen=True)
class TestRun:
    """The lines of a test run's launches file, and the report on its outcome."""

    lines: tuple[Json, ...]
    report: Json


def run(
    config: Json,
    environment: Callable[[str], Mapping[str, str]],
    what: str,
    log: Path,
    policy: Callable[[str], Policy],
    stop: threading.Event | None = None,
) -> TestRun:
    """Run the tests of `config["checkout"]` under the recorder, confined by a `policy`.

    Environment and policy depend on the scratch folder. Raises IncompleteError if pytest itself is
    killed or hangs before the first launch.
    """
    _LOG.info(f"{what} …")
    with temporary_folder() as work:
        scratch = GuestFolder(Path(work))
        scratch.write_new(LAUNCHES, "")
        names = {"output": LAUNCHES, "report": REPORT, "progress": _PROGRESS}
        paths = {name: f"{work}/{file}" for name, file in names.items()}

        def beat(seconds: float) -> None:
            _LOG.info(f"{what} … {seconds:.0f} s, {_read_progress(scratch)}")

        end = programs.run(
            programs.guest_arguments(".test_suite", {**config, **paths}, scratch.path),
            environment(work),
            scratch.path,
            log,
            seconds=max(_PATIENCE * config["seconds"], _AT_LEAST),
            memory_mb=_MEMORY_MB,
            policy=policy(work),
            beat=beat,
            stop=stop,
        )
        lines = tuple(files.json_objects(scratch.read(LAUNCHES, files.MOST_LAUNCHES) or b""))
        report = scratch.read_json(REPORT, files.MOST_REPORT)
        if report is not None:
            return TestRun(lines, report)
        if not lines:
            raise IncompleteError(
                f"{what} ended without a report while {_read_progress(scratch)}: "
                f"{end.how}; its log is {log}"
            )
        # The launches before the end count, and the report contains the reason for the end.
        return TestRun(lines, {"ended": f"pytest itself ended: {end.how}"})


def _read_progress(scratch: GuestFolder) -> str:
    return scratch.read_end(_PROGRESS, 200) or "starting"


def merge_lines(tests: TestRun, driver: Iterable[Json]) -> list[Json]:
    """Merge the lines of both launches files.

    A launch that both made is kept once, as the tests made it, because the driver guesses
    arguments.
    """
    lines = list(map(_mark_test, tests.lines))
    ids = {line.get("id") for line in lines}
    for line in driver:
        if "schema" in line and tests.lines:
            continue
        if "id" not in line or line["id"] not in ids:
            lines.append(line)
    return lines


def _mark_test(line: Json) -> Json:
    """Return the line of a launch with its origin; other lines stay."""
    if "kernel" not in line:
        return line
    return {**line, "call": "test", "sizes_from": "the package's tests"}


def by_source(tests: TestRun, driver: Iterable[Json]) -> Json:
    """Return the kernels that only the tests launched, only the driver, and both."""
    of_tests, of_driver = _kernels(tests.lines), _kernels(driver)
    return {
        "tests": sorted(of_tests - of_driver),
        "driver": sorted(of_driver - of_tests),
        "both": sorted(of_tests & of_driver),
    }


def _kernels(lines: Iterable[Json]) -> set[str]:
    return {line["kernel"] for line in lines if "kernel" in line}
