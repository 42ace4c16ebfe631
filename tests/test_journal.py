"""The launches file as several threads write it."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from flacheck.guest.recorder.journal import SCHEMA, Journal

THREADS, LAUNCHES = 8, 40


@pytest.fixture
def often() -> object:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_write_whole_lines_in_an_order_that_can_be_read(
    tmp_path: Path, often: object
) -> None:
    """The header first, a source's text in the first line that names it, each launch once and all
    of them counted.
    """
    journal = Journal(SimpleNamespace(output=str(tmp_path / "l.jsonl"), card=None, package=None))
    append, together = journal._append, threading.Barrier(THREADS)

    def slowly(*values: dict[str, object]) -> None:
        time.sleep(0.001)
        append(*values)

    def work() -> None:
        together.wait()
        for n in range(LAUNCHES):
            journal.launch({"kernel": f"k{n}"}, f"s{n % 4}", "text", {}, dict)
            journal.guess("m.py:1", "item")

    journal._append = slowly  # type: ignore[method-assign]
    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.flush()
    lines = [json.loads(line) for line in (tmp_path / "l.jsonl").read_text().splitlines()]
    assert lines[0]["schema"] == SCHEMA and not any("schema" in line for line in lines[1:])
    launches = [line for line in lines if "kernel" in line]
    assert len(launches) == LAUNCHES and ["text" in line for line in launches] == [
        n < 4 for n in range(LAUNCHES)
    ]
    assert sum(line["count"] for line in lines if "of" in line) == (THREADS - 1) * LAUNCHES
    assert sum(line["count"] for line in lines if "guessed" in line) == THREADS * LAUNCHES
