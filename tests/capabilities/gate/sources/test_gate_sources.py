"""The files that a gate reads, and their installations."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.capabilities.gate import sources
from tests.made_pin_files import no_warning, pins_by_installation, read, write

pytestmark = pytest.mark.usefixtures("here")


def test_files_named_together_are_one_installation_but_a_lock_is_its_own() -> None:
    """Named files are one installation, a lock is another."""
    files = [
        write("r.txt", "torch==2.7.1\n"),
        write("c.txt", "triton==3.2.0\n"),
        write("uv.lock", ""),
    ]
    files[2].write_text('[[package]]\nname = "triton"\nversion = "3.5.0"\n')
    assert read(*files) == {
        "r.txt, c.txt": ["r.txt:1 torch==2.7.1", "c.txt:1 triton==3.2.0"],
        "uv.lock": ["uv.lock:3 triton==3.5.0"],
    }


def test_found_files_are_judged_each_by_itself(here: Path) -> None:
    """Each file in a folder is an installation; files without pins are left out."""
    write("requirements-a100.txt", "triton==3.2.0\n")
    write("requirements/h100.txt", "triton==3.4.0\n")
    write("requirements.txt", "numpy\n")
    write("notes.txt", "not a requirement at all\n")
    with no_warning():
        installations = sources.in_folder(here)
    assert pins_by_installation(installations) == {
        "requirements-a100.txt": ["requirements-a100.txt:1 triton==3.2.0"],
        "requirements/h100.txt": ["requirements/h100.txt:1 triton==3.4.0"],
    }


def test_the_live_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed packages are exact pins without a line."""
    there = {"triton": "3.4.0"}

    def version(name: str) -> str:
        if name not in there:
            raise sources.metadata.PackageNotFoundError(name)
        return there[name]

    monkeypatch.setattr(sources.metadata, "version", version)
    assert pins_by_installation(sources.read_installed()) == {
        "the live environment": ["(installed) triton==3.4.0"]
    }
    assert sources.read_installed()[0].pins[0].line is None
