"""Requirements files as pip reads them, each pin with its file and line."""

from __future__ import annotations

import pytest

from flacheck.capabilities.gate.sources import requirements
from flacheck.capabilities.gate.sources.pin_files import PinFile
from tests.made_pin_files import write

pytestmark = pytest.mark.usefixtures("here")


def pins(text: str) -> list[tuple[int | None, str, str | None]]:
    """Return line, requirement and obstacle of each pin of a file."""
    file = write("r.txt", text)
    result = requirements.read(PinFile(file, "r.txt"))
    assert {label for label, _ in result} <= {None}
    return [(pin.line, pin.requirement, pin.obstacle) for _, pin in result]


def test_a_variable_is_expanded_as_pip_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a set `${UPPER_CASE}` variable is expanded."""
    monkeypatch.setenv("WANTED", "triton>=3.2")
    monkeypatch.delenv("UNSET", raising=False)
    assert [
        pin[:2]
        for pin in pins("numpy\n${WANTED}\n${UNSET}/torch-2.7.1-cp311-cp311-linux_x86_64.whl\n")
    ] == [
        (2, "triton>=3.2"),
        (3, "torch==2.7.1"),
    ]
