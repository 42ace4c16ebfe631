"""Poetry's tables in a pyproject.toml, and its constraints."""

from __future__ import annotations

import sys

import pytest

from flacheck.capabilities.gate.sources import poetry
from tests.made_pin_files import read, write

pytestmark = pytest.mark.usefixtures("here")


def test_poetrys_tables() -> None:
    """Strings, tables, several constraints and groups are read."""
    minor = sys.version_info.minor
    text = f"""
[tool.poetry.dependencies]
python = "^3.9"
triton = {{version = "^3.2", markers = "sys_platform == 'linux'"}}
torch = [
    {{version = "~2.6", python = "<3.{minor}"}},
    {{version = "~2.7", python = ">=3.{minor}"}},
    {{version = "2.5.0", platform = "darwin"}},
]
[tool.poetry.dev-dependencies]
triton = "3.4.*"
[tool.poetry.group.gpu.dependencies]
triton = {{version = "3.3.0 || >=3.5,<3.6", optional = true}}
"""
    base = ["pyproject.toml:4 triton>=3.2,<4", "pyproject.toml:7 torch>=2.7,<2.8"]
    assert read(write("pyproject.toml", text)) == {
        "pyproject.toml": base,
        "pyproject.toml (group dev)": [*base, "pyproject.toml:11 triton==3.4.*"],
        "pyproject.toml (group gpu)": [*base, "pyproject.toml:13 triton==3.3.0 || >=3.5,<3.6"],
    }


@pytest.mark.parametrize(
    ("constraint", "specifier"),
    [
        ("^1.2.3", ">=1.2.3,<2"),
        ("^0.2.3", ">=0.2.3,<0.3"),
        ("^0.0.3", ">=0.0.3,<0.0.4"),
        ("^0.0", ">=0.0,<0.1"),
        ("^0", ">=0,<1"),
        ("~1.2.3", ">=1.2.3,<1.3"),
        ("~1.2", ">=1.2,<1.3"),
        ("~1", ">=1,<2"),
        ("~=3.8.0", "~=3.8.0"),
        ("3.4", "==3.4"),
        ("=3.4", "==3.4"),
        ("3.*", "==3.*"),
        ("*", ""),
        (">= 3.2 <3.9, != 3.3.0", ">=3.2,<3.9,!=3.3.0"),
        ("^2.6 || ~3.1", ">=2.6,<3 || >=3.1,<3.2"),
    ],
)
def test_poetrys_constraints_as_pep_440(constraint: str, specifier: str) -> None:
    """A Poetry constraint becomes a PEP 440 specifier."""
    assert poetry.pep440(constraint, "x") == specifier
