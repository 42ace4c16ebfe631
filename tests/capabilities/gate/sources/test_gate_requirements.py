"""Requirements files as pip reads them, each pin with its file and line."""

from __future__ import annotations

import pytest

from flacheck.capabilities.gate.sources import requirement, requirements
from flacheck.capabilities.gate.sources.pin_files import PinFile
from tests.made_pin_files import read, write

pytestmark = pytest.mark.usefixtures("here")


def test_includes_are_relative_to_the_file_that_includes() -> None:
    """Included files are found beside the including one, and each is read once."""
    write("a/base.txt", "torch>=2.6\n-c ../b/limits.txt\n")
    write("b/limits.txt", "triton<3.9\n--constraint=more.txt\n--requirement ../r.txt\n")
    write("b/more.txt", "triton>=3.2\n")
    assert read(write("r.txt", "-ra/base.txt\ntriton!=3.3.0\n")) == {
        "r.txt": [
            "a/base.txt:1 torch>=2.6",
            "b/limits.txt:1 triton<3.9",
            "b/more.txt:1 triton>=3.2",
            "r.txt:2 triton!=3.3.0",
        ]
    }


@pytest.mark.parametrize(
    ("text", "specifier"),
    [
        ("triton", ""),
        ("triton ", ""),
        ("triton[x]; python_version > '3'", ""),
        ("triton>=3 , <4 ; python_version > '3'", ">=3 , <4"),
        ("triton (>=3,<4)", ">=3,<4"),
        ("triton[a, b]==3.*", "==3.*"),
    ],
)
def test_a_specifier_is_found_in_its_requirement(text: str, specifier: str) -> None:
    """The span of a specifier is what --fix replaces."""
    assert text[slice(*requirement.specifier_span(text))] == specifier


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


def test_hashes_hold_a_pin_to_its_release() -> None:
    """A pin with hashes has an obstacle for --fix."""
    (pin,) = pins("triton==3.4.0 --hash=sha256:aa\n")
    assert pin == (1, "triton==3.4.0", "its hashes are of that release")
