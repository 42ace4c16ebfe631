"""Results in every format: made records, no compiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flacheck import reports
from flacheck.capabilities.autotune.results import TunerResult
from flacheck.reports import autotune as autotune_report
from flacheck.reports.document import Display
from tests.made_tuned import SOURCE, fatal, good, result
from tests.schemas import validate_json


def text(format: str, *results: TunerResult) -> str:
    """The results in a format, on a wide display."""
    report = autotune_report.report("made:*", results)
    return "".join(reports.render(format, report, Display(width=140)))


def document(*results: TunerResult) -> dict[str, Any]:
    """Return the results as JSON, validated against the schema."""
    content: dict[str, Any] = json.loads(text("json", *results))
    validate_json("autotune", content)
    return content


def test_a_table_says_what_ends_the_run_and_what_to_write(tmp_path: Path) -> None:
    """The table shows the outcome, the cause, and the key fault."""
    tuner_result = result(
        tmp_path, good(), fatal(), source=SOURCE.replace("'USE_G'],", "'NOTHING'],")
    )
    page = text("table", tuner_result)
    for words in (
        "2 configurations: 1 runs, 1 ends run · 1 key fault",
        "the run ends: configuration 2 of 2 fails with FC302",
        "16/227K",
        "50% 8× regs",
        "2: FC302 Assertion `reshapeOuts' failed.",
        "(made.py:8)",
        "key=['H', 'K'],",
    ):
        assert words in page
    markdown = text("markdown", tuner_result)
    assert "| 1 | BK=32 | 4 | 2 | compiles | runs | 16/227K |" in markdown
    assert "```python" in markdown
