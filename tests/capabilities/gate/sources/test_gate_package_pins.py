"""Pins of packages beside torch and Triton, in each kind of file."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.capabilities.gate import sources
from tests.made_pin_files import write

pytestmark = pytest.mark.usefixtures("here")

NAMES = ("one-kernel", "two-kernels")


def _pins(*paths: str) -> list[str]:
    return [pin.about for pin in sources.packages_of(map(Path, paths), NAMES)]


def test_a_requirements_file_and_the_files_that_it_includes() -> None:
    """Extras, markers and builds are read; other packages and systems are left out."""
    write("base.txt", "two_kernels===2.0+cu126\n")
    text = (
        "-r base.txt\ntorch==2.12.1\nOne.Kernel[fast]==1.0.0 ; python_version > '3'\nother==3\n"
        "one-kernel==0.9 ; sys_platform == 'win32'\n-e ./one-kernel\n"
    )
    write("requirements.txt", text)
    assert _pins("requirements.txt") == [
        "two-kernels==2.0 (base.txt:1)",
        "one-kernel==1.0.0 (requirements.txt:3)",
    ]


@pytest.mark.parametrize("requirement", ["one-kernel", "one-kernel>=1", "one-kernel==1.*"])
def test_a_range_has_no_version(requirement: str) -> None:
    """A range names the package without a version."""
    write("requirements.txt", requirement)
    assert _pins("requirements.txt") == ["one-kernel (requirements.txt:1)"]


def test_the_address_of_a_wheel_has_a_version() -> None:
    """The file name of a wheel gives the version of the package."""
    write("requirements.txt", "one-kernel @ https://x.example/one_kernel-1.0-py3-none-any.whl\n")
    assert _pins("requirements.txt") == ["one-kernel==1.0 (requirements.txt:1)"]


@pytest.mark.parametrize(
    ("name", "header", "table"),
    [("uv.lock", "version = 1", "package"), ("pylock.toml", "lock-version = '1.0'", "packages")],
)
def test_a_lock_has_exact_versions(name: str, header: str, table: str) -> None:
    """A lock's version has its line."""
    write(name, f'{header}\n[[{table}]]\nname = "one-kernel"\nversion = "1.0.0"\n')
    assert _pins(name) == [f"one-kernel==1.0.0 ({name}:4)"]
    write(name, f'{header}\n[[{table}]]\nname = "one-kernel"\nsource = {{editable = "."}}\n')
    assert _pins(name) == []
