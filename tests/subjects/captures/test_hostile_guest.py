"""A package that puts something else in place of the files that flacheck reads after its capture."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.subjects.captures.test_drive_sandbox import package, start_capture

pytest.importorskip("torch")

# The package's process ends itself, so that its own recorder writes nothing any more.
END = """
import json, os
os.chdir(os.environ["TMPDIR"])
os.remove("launches.jsonl")
LAUNCHES = '{"schema": "flacheck.launches/1"}\\n{"id": "a", "kernel": "m:k", "launch": {}}\\n'
def report():
    with open("report.json", "w") as file: json.dump({"modules": {}, "operators": {}}, file)
def launches():
    with open("launches.jsonl", "w") as file: file.write(LAUNCHES)
"""
ATTACKS = {
    "report.json is a link": "launches(); os.symlink({outside!r}, 'report.json')",
    "launches.jsonl is a pipe": "os.mkfifo('launches.jsonl'); report()",
    "launches.jsonl is a device": "os.symlink('/dev/zero', 'launches.jsonl'); report()",
    "report.json is a folder": "launches(); os.mkdir('report.json')",
    "report.json is sparse": "launches(); open('report.json', 'w').close(); os.truncate('report.json', 1 << 31)",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_package_leads_flacheck_nowhere(tmp_path: Path, attack: str) -> None:
    """The capture ends with an error; nothing outside was written, printed or stored."""
    secret, outside = tmp_path / "id_rsa", tmp_path / "profile.sh"
    secret.write_text("PRIVATE KEY")
    act = ATTACKS[attack].format(secret=str(secret), outside=str(outside))
    path = package(tmp_path / "p", f"{END}\n{act}\nos._exit(1)\n")
    start = time.monotonic()
    out, err = start_capture(path, tmp_path / "c").communicate(timeout=200)
    assert time.monotonic() - start < 120
    assert "GuestFileError" in err, err
    assert attack.split()[0] in err
    assert not outside.exists()
    assert "PRIVATE" not in out + err
    files = [file for file in (tmp_path / "c" / "captures").rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 1 << 20
    assert not any("PRIVATE" in file.read_text() for file in files)
