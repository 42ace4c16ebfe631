"""A run of a checkout's own tests, whose launches are recorded.

The host starts it with one argument, a JSON object: `output` (the launches file), `report` (a JSON
file), `card` (a row of the target table), `package` (`name==version`), `packages` (folder →
`name==version`, including the checkout), `checkout` (its folder), `seconds` (of work, as the
package driver counts it), `progress` (a file that names the current test).

The report: {"tests": {"passed", "failed", "skipped"}, "failures": {test: its last error line},
"wanting": tests that failed after reading a guessed value, "cut": functions of which no test ran
in the available time, "unrun": the number of cases that did not run, "uncollected": {file: why},
"ended": why nothing could run, or null, "work": in seconds of a usual machine, "seconds": of CPU}
"""

import os
import sys
import time
from typing import Any

from ..engine import channel
from ..recorder.session import Settings, session
from ..search import write_json


def main() -> None:
    config = channel.read_config()
    settings = Settings(
        output=config["output"],
        card=config["card"],
        packages=config["packages"],
        package=config["package"],
    )
    with session(settings) as recorder:
        report = _run(config, recorder)
        # A launches file has a header even without launches.
        recorder.journal.begin()
    report["seconds"] = round(time.process_time(), 1)
    write_json(report, config["report"])


def _run(config: dict[str, Any], recorder: Any) -> dict[str, Any]:
    import torch  # noqa: F401 the fake device stands before anything of the package is imported

    try:
        import pytest
    except ImportError:
        return {"ended": "pytest is not installed beside flacheck: pip install pytest"}
    from .watcher import Watcher

    watcher = Watcher(config, recorder)
    os.chdir(config["checkout"])
    sys.path.insert(0, config["checkout"])
    # The checkout's settings may name plugins that are not installed.
    flags = ["-q", "-p", "no:cacheprovider", "-o", "addopts="]
    # These plugins open sockets when they are loaded, which the confinement refuses.
    flags += ["-p", "no:rerunfailures", "-p", "no:xdist"]
    flags += ["--continue-on-collection-errors", "-W", "ignore"]
    code = pytest.main(flags, plugins=[watcher])
    report = watcher.report()
    report["work"] = round(watcher.work(), 1)
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and not report["uncollected"]:
        report["ended"] = "it has no tests that pytest finds"
    elif code in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
        report["ended"] = "pytest could not run them"
    return report
