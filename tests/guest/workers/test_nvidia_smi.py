"""The `nvidia-smi` of the fake card."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from flacheck.guest.workers import nvidia_smi
from flacheck.subjects.captures.cards import card


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's folder leaves the path when the test ends."""
    monkeypatch.setenv("PATH", os.environ["PATH"])


def output_of(*arguments: Any) -> str:
    result = subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, check=True)
    return result.stdout


def test_it_is_found_and_names_the_card() -> None:
    """The program exits with 0 and prints the card's name."""
    nvidia_smi.provide(card("sm90"))
    assert card("sm90")["gpu"] in output_of()
    assert output_of("-L").startswith(f"GPU 0: {card('sm90')['gpu']}")


def test_it_answers_queries() -> None:
    """Queries are printed in the requested format, with "not available" for unknown fields."""
    nvidia_smi.provide(card("sm90"))
    query = "--query-gpu=compute_cap,memory.total,pstate"
    memory = card("sm90")["memory_gb"] * 1024
    assert output_of(query, "--format=csv,noheader,nounits") == f"9.0, {memory}, [N/A]\n"
    assert output_of(query, "--format=csv").splitlines()[0] == "compute_cap, memory.total, pstate"


def test_the_card_that_was_turned_to_last_speaks() -> None:
    """The path holds one folder, however often the card changes."""
    for name in ("sm90", "sm80", "sm90", "sm80"):
        nvidia_smi.provide(card(name))
    assert output_of("--query-gpu=compute_cap", "--format=csv,noheader") == "8.0\n"
    folders = [path for path in os.environ["PATH"].split(os.pathsep) if "flacheck-card-" in path]
    assert len(folders) == 1
