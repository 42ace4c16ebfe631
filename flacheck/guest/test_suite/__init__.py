"""Runs a checkout's own tests so that the recorder sees what they launch.

The host starts it with one argument, a JSON object: `output` (the launches file), `report` (a JSON
file), `card` (a row of the target table), `package` (`name==version`), `packages` (folder →
`name==version`, the checkout among them), `checkout` (its folder), `seconds` (of work, as the
package driver counts it), `progress` (a file that says what is being run).

The report: {"tests": {"passed", "failed", "skipped"}, "failures": {test: its last words},
"wanting": tests that failed where a value was read that nobody computed, "cut": functions of which
no test was run for want of time, "unrun": how many cases were not run, "uncollected": {file: why},
"ended": why nothing could be run, or null, "work": in seconds of a usual machine, "seconds": of
CPU}
"""

import json
import os
import sys
import time
from typing import Any

from ..recorder.session import Settings, session


def main() -> None:
    config = json.loads(sys.argv[1])
    settings = Settings(config["output"], config["card"], config["packages"], config["package"])
    with session(settings) as recorder:
        report = _run(config, recorder)
        # A launches file has a header, also where nothing was launched.
        recorder.journal.begin()
    report["seconds"] = round(time.process_time(), 1)
    partial = f"{config['report']}.part"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    os.replace(partial, config["report"])


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
    # The checkout's own settings may name plugins that are not here.
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
