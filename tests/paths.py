"""Folders that tests read from."""

from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
TABLES = ROOT / "flacheck" / "tables"
SCHEMAS = TABLES / "schemas"
