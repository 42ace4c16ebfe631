"""The package driver in its sandbox: no secrets, one capture for several scans, no orphan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flacheck.errors import IncompleteError
from flacheck.guest.engine.escapes import lay_bait
from tests.engine.test_executors import has_gone, running
from tests.escaping import code, expected
from tests.paths import ROOT

pytest.importorskip("torch")

DRIVE = """
import json, logging, sys
from flacheck.subjects.captures.cards import card
from flacheck.subjects.captures.capture_job import CaptureJob, capture_package
from flacheck.source.packages.package import Package
from flacheck.toolchains import FAMILIES
logging.basicConfig(level=logging.INFO, format="%(message)s")
path = sys.argv[1]
toolchain = FAMILIES["triton"].provide(FAMILIES["triton"].find_installed())
class Tiny(Package):
    modules = ("tiny",)
done = capture_package(CaptureJob(Tiny("tiny", "1.0", path, "d", {}), toolchain, card("h100")))
print(json.dumps([done.import_error, done.report.get("modules")]))
"""


def package(folder: Path, text: str) -> Path:
    (folder / "tiny").mkdir(parents=True)
    (folder / "tiny" / "__init__.py").write_text(text)
    return folder


def start_capture(path: Path, cache: Path, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVE, str(path)],
        cwd=ROOT,
        env={**os.environ, "FLACHECK_CACHE_DIR": str(cache), **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_package_sees_none_of_the_users_variables(tmp_path: Path) -> None:
    """A package is other people's code; two scans at once drive it only once."""
    path = package(
        tmp_path / "p",
        "import os\nraise ValueError('|'.join(sorted(os.environ)) + open(os.devnull).read())\n",
    )
    both = [start_capture(path, tmp_path / "c", AWS_SECRET_ACCESS_KEY="hush") for _ in range(2)]
    outputs = [each.communicate(timeout=200) for each in both]
    for out, err in outputs:
        error, _ = json.loads(out.splitlines()[-1])
        assert "TRITON_CACHE_DIR" in error, err
        assert "AWS_SECRET_ACCESS_KEY" not in error
    programs = [
        line for _, err in outputs for line in err.splitlines() if line.endswith("H100 80GB HBM3 …")
    ]
    assert len(programs) == 1
    folder = next((tmp_path / "c" / "captures").glob("tiny-*"))
    assert sorted(file.name for file in folder.iterdir()) == [
        "launches.jsonl",
        "log.txt",
        "report.json",
    ]


BREAKS_OUT = """
{probes}
found = sorted(set({expected!r}) - set(closed))
for path in {profile!r}, "/etc/shadow":
    try:
        found.append(open(path).read()[:20])
    except OSError:
        pass
raise ValueError(f"came by {{found}}")
"""


def test_a_package_has_no_way_out(tmp_path: Path) -> None:
    """Variables of flacheck and its parent, files, processes, the network and other closable ways
    are closed.
    """
    (tmp_path / "outside").mkdir()
    profile = str(Path.home() / ".bashrc")
    ways = expected("programs")
    with lay_bait(str(tmp_path / "outside")) as bait:
        text = BREAKS_OUT.format(probes=code(bait), expected=ways, profile=profile)
        path = package(tmp_path / "p", text)
        capture = start_capture(path, tmp_path / "c", AWS_SECRET_ACCESS_KEY="hush")
        out, err = capture.communicate(timeout=100)
    error, _ = json.loads(out.splitlines()[-1])
    assert "ValueError: came by []" in error, err


def test_a_driver_dies_with_a_killed_scan(tmp_path: Path) -> None:
    """The package's processes end too; the next scan finds no incomplete capture."""
    marker = f"flacheck-test-{os.getpid()}-driven"
    path = package(
        tmp_path / "p",
        "import signal, subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)', '{marker}'])\n"
        # A capture skips `time.sleep`.
        "signal.pause()\n",
    )
    scan = start_capture(path, tmp_path / "c")
    try:
        end = time.monotonic() + 60
        while not running(marker) and time.monotonic() < end:
            time.sleep(0.1)
        assert running(marker)
    finally:
        scan.kill()
        scan.communicate()
    assert has_gone(marker)
    folder = next((tmp_path / "c" / "captures").glob("tiny-*"))
    assert [file.name for file in folder.iterdir()] == ["log.txt"]


def test_a_driver_that_is_killed_is_one_message(tmp_path: Path) -> None:
    """The message has the current step and the path of the log."""
    path = package(tmp_path / "p", "import os\nos.kill(os.getpid(), 9)\n")
    capture = start_capture(path, tmp_path / "c")
    _, err = capture.communicate(timeout=100)
    assert IncompleteError.__name__ in err
    assert "ended without a report while importing tiny: SIGKILL ended it; its log is" in err


def test_a_module_that_ends_the_process_is_left_out(tmp_path: Path) -> None:
    """The capture is made again without it; the report has the module's error."""
    path = package(tmp_path / "p", "")
    (path / "tiny" / "crashes.py").write_text("import os\nos.abort()\n")
    capture = start_capture(path, tmp_path / "c")
    out, err = capture.communicate(timeout=200)
    import_error, modules = json.loads(out.splitlines()[-1])
    assert import_error is None
    assert list(modules) == ["tiny.crashes"]
    assert "ModuleNotFoundError" in modules["tiny.crashes"]
    assert "importing tiny.crashes ended the capture (SIGABRT ended it): going on" in err
