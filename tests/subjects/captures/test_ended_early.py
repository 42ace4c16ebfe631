"""A driver that is ended before its report: what it launched until then is kept."""

from __future__ import annotations

import json

from flacheck.subjects.captures.capture_job import partial_content

HEADER = '{"schema": "flacheck.launches/1", "package": "tiny==1"}\n'
LAUNCH = '{"id": "a", "kernel": "m:one", "launch": {"args": {}}}\n'


def test_launches_are_kept_as_made_up() -> None:
    """A half-written line is dropped; the report counts the dropped part."""
    text = HEADER + LAUNCH + '{"id": "b", "ker'
    content = partial_content(text.encode(), "all after calling m:f: its time was over")
    assert content is not None
    lines = [json.loads(line) for line in content.launches.splitlines()]
    assert [line.get("made_up") for line in lines] == [None, True]
    assert content.report["cut"] == ["all after calling m:f: its time was over"]
    assert content.report["late"]


def test_without_a_launch_there_is_nothing_to_keep() -> None:
    """The end is then an error."""
    assert partial_content(HEADER.encode(), "all") is None
