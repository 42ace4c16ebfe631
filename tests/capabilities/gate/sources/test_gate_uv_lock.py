"""A uv.lock: exact versions and forks."""

from __future__ import annotations

import pytest

from flacheck.capabilities.gate import sources
from flacheck.errors import UsageError
from tests.made_pin_files import read, write
from tests.paths import TESTS

GOLDEN = TESTS / "golden" / "pins"


pytestmark = pytest.mark.usefixtures("here")


LOCK = """version = 1

[[package]]
name = "torch"
version = "2.6.0"
source = { registry = "https://example.com" }
resolution-markers = ["python_version < '3'"]

[[package]]
name = "torch"
version = "2.7.1+cu126"
dependencies = [
    { name = "triton", version = "3.3.1", marker = "sys_platform == 'linux'" },
]

[[package]]
name = "torch"
version = "2.8.0"
dependencies = [
    { name = "triton", version = "3.4.0" },
]

[[package]]
name = "triton"
version = "3.3.1"

[[package]]
name = "triton"
version = "3.4.0"

[[package]]
name = "triton"
version = "3.5.0"
"""


def test_a_lock_that_forks_is_several_installations() -> None:
    """Each torch of a fork has its own Triton; forks for other machines are left out."""
    assert read(write("uv.lock", LOCK)) == {
        "uv.lock (torch==2.7.1+cu126)": [
            "uv.lock:11 torch==2.7.1+cu126",
            "uv.lock:25 triton==3.3.1",
        ],
        "uv.lock (torch==2.8.0)": ["uv.lock:18 torch==2.8.0", "uv.lock:29 triton==3.4.0"],
        "uv.lock (triton==3.5.0)": ["uv.lock:33 triton==3.5.0"],
    }


def test_dependencies_of_another_kind_in_a_lock_are_an_error() -> None:
    """Dependencies of another type are an error with their line."""
    text = (
        '[[package]]\nname="triton"\nversion="3.4.0"\n'
        '[[package]]\nname="torch"\nversion="2"\ndependencies=["triton"]\n'
    )
    with pytest.raises(UsageError, match=r"^uv.lock:6: dependencies is not an array of tables"):
        sources.of_files([write("uv.lock", text)])


def test_a_real_lock_with_conflicting_extras() -> None:
    """A lock of `uv lock` with conflicting extras has two installations."""
    installations = sources.of_files([GOLDEN / "uv.lock"])
    assert [[pin.requirement for pin in installation.pins] for installation in installations] == [
        ["torch==2.6.0", "triton==3.2.0"],
        ["torch==2.8.0", "triton==3.4.0"],
    ]
    rows = (GOLDEN / "uv.lock").read_text().splitlines()
    lines = [
        (pin.specifier[2:], rows[(pin.line or 0) - 1])
        for installation in installations
        for pin in installation.pins
    ]
    assert all(row == f'version = "{version}"' for version, row in lines)
