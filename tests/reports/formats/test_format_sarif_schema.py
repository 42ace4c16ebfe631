"""SARIF reports against models generated from the official schema of SARIF 2.1.0."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as Log

from flacheck import reports
from flacheck.reports.document import Display
from tests.made_reports import REPORTS


def sarif_of(command: str, folder: Path) -> dict:
    text = "".join(reports.render("sarif", REPORTS[command](folder), Display()))
    return json.loads(text)


@pytest.mark.parametrize("command", sorted(REPORTS))
def test_a_report_is_valid_sarif(command: str, tmp_path: Path) -> None:
    """The report follows the schema of SARIF 2.1.0."""
    value = sarif_of(command, tmp_path)
    log = Log.model_validate(value)
    (run,) = log.runs
    assert run.tool.driver.name == "flacheck"
    assert len(run.results) == len(value["runs"][0]["results"])


@pytest.mark.parametrize("fault", ["unknown property", "no message", "level", "version"])
def test_a_fault_is_rejected(fault: str, tmp_path: Path) -> None:
    """The models reject what the schema rejects."""
    value = sarif_of("scan", tmp_path)
    result = value["runs"][0]["results"][0]
    if fault == "unknown property":
        result["line"] = 3
    elif fault == "no message":
        del result["message"]
    elif fault == "level":
        result["level"] = "fatal"
    else:
        value["version"] = "2.0"
    with pytest.raises(ValidationError):
        Log.model_validate(value)
