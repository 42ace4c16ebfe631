"""A pyproject.toml: extras, groups and Poetry's tables, each pin with its line."""

from __future__ import annotations

import pytest

from flacheck.capabilities.gate.sources import pyproject
from flacheck.capabilities.gate.sources.pin_files import PinFile
from tests.made_pin_files import read, write

pytestmark = pytest.mark.usefixtures("here")


PROJECT = """
[build-system]
requires = ["torch==1.0"]

[project]
name = "My.Project"
dependencies = [
    "numpy",
    "triton>=3.2",  # for the kernels
]
[project.optional-dependencies]
cu-12 = ['torch (>=2.6)']
all = ["my_project[CU_12]", "rich"]
docs = ["sphinx"]

[dependency-groups]
lint = ["ruff"]
Test_GPU = ["pytest", "triton<3.9"]
dev = [{include-group = "test-gpu"}, {include-group = "lint"}]
"""


def test_extras_and_groups_are_installations_of_their_own() -> None:
    """Each extra or group is an installation with the project's own pins."""
    base, torch, group = (
        "pyproject.toml:9 triton>=3.2",
        "pyproject.toml:12 torch>=2.6",
        "pyproject.toml:18 triton<3.9",
    )
    assert read(write("pyproject.toml", PROJECT)) == {
        "pyproject.toml": [base],
        "pyproject.toml (extra cu-12)": [base, torch],
        "pyproject.toml (extra all)": [base, torch],
        "pyproject.toml (group Test_GPU)": [base, group],
        "pyproject.toml (group dev)": [base, group],
    }


def labels(text: str) -> list[tuple[str | None, str]]:
    """Return each pin with its extra or group."""
    file = write("pyproject.toml", text)
    return [(label, pin.requirement) for label, pin in pyproject.read(PinFile(file, file.name))]


def test_an_extra_for_another_machine_is_not_followed() -> None:
    """An extra whose marker does not hold is left out."""
    text = """
[project]
name = "mine"
[project.optional-dependencies]
a = ["mine[b]; sys_platform == 'win32'"]
b = ["torch>=2"]
"""
    assert labels(text) == [("extra b", "torch>=2")]
