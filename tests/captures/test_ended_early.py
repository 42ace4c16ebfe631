"""A driver that is ended before its report: what it launched until then is kept."""

from __future__ import annotations

import json
from pathlib import Path

from flacheck.captures.capture_job import save_partial


def config(folder: Path, text: str) -> dict[str, str]:
    (folder / "l.jsonl").write_text(text)
    return {"output": str(folder / "l.jsonl"), "report": str(folder / "r.json")}


HEADER = '{"schema": "flacheck.launches/1", "package": "tiny==1"}\n'
LAUNCH = '{"id": "a", "kernel": "m:one", "launch": {"args": {}}}\n'


def test_launches_are_kept_as_made_up(tmp_path: Path) -> None:
    """A line that was half written is not; the report says what was cut."""
    made = config(tmp_path, HEADER + LAUNCH + '{"id": "b", "ker')
    assert save_partial(made, "all after calling m:f: its time was over")
    lines = [json.loads(line) for line in Path(made["output"]).read_text().splitlines()]
    assert [line.get("made_up") for line in lines] == [None, True]
    report = json.loads(Path(made["report"]).read_text())
    assert report["cut"] == ["all after calling m:f: its time was over"]
    assert report["late"]


def test_without_a_launch_there_is_nothing_to_keep(tmp_path: Path) -> None:
    """Then the end is an error."""
    made = config(tmp_path, HEADER)
    assert not save_partial(made, "all")
    assert not Path(made["report"]).exists()
