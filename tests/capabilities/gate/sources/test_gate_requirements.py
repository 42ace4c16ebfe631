"""Requirements files as pip reads them, each pin with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.capabilities.gate import sources
from flacheck.capabilities.gate.sources import requirement, requirements
from flacheck.capabilities.gate.sources.pin_files import PinFile
from flacheck.errors import UsageError
from tests.made_pin_files import no_warning, pins_by_installation, read, write

pytestmark = pytest.mark.usefixtures("here")


def test_requirements_as_pip_reads_them() -> None:
    """Comments, options, hashes, continuations, markers and CRLF are read like pip's."""
    text = r"""# torch==1.0
--index-url https://example.com/simple
-e .
./local/triton-thing
git+https://example.com/torch.git#egg=other
numpy==1.26  # triton==2.0
Torch[opt-einsum] >=2.6 , <2.9 ; python_version >= "3.8"  # why
triton==3.1.0 ; sys_platform == "win32"
triton==3.0.0 ; python_version < "3.0"
triton \
  >=3.2 \
  --hash=sha256:aa \
  --hash=sha256:bb
triton!=3.3.0
"""
    crlf = text.replace("\n", "\r\n")
    assert read(write("crlf.txt", "\ufeff" + crlf)) == {
        "crlf.txt": [
            "crlf.txt:7 torch>=2.6,<2.9",
            "crlf.txt:10 triton>=3.2",
            "crlf.txt:14 triton!=3.3.0",
        ]
    }


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


def test_a_wheel_is_an_exact_pin_and_another_address_any_release(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An address without a version admits every release, with a warning."""
    text = (
        "torch @ https://example.com/torch-2.7.1%2Bcu126-cp311-cp311-linux_x86_64.whl\n"
        "./wheels/triton-3.3.1-cp311-cp311-linux_x86_64.whl\n"
        "triton @ git+https://example.com/triton\n"
    )
    result = pins_by_installation(sources.of_files([write("r.txt", text)]))
    assert result == {
        "r.txt": ["r.txt:1 torch==2.7.1+cu126", "r.txt:2 triton==3.3.1", "r.txt:3 triton"]
    }
    assert caplog.messages == [
        "r.txt:3: the address of triton names no version and flacheck does not fetch it:"
        " every release is assumed"
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("numpy\ntriton==\n", "r.txt:2: 'triton==' is not a requirement"),
        ("numpy\n\ntri ton\n", "r.txt:3: 'tri ton' is not a requirement"),
        ("a\nb \\\n >>1\n", "r.txt:2: "),
        ("# x\n-r missing.txt\n", "r.txt:2: missing.txt is included and is not there"),
        ("numpy\n\xff", "r.txt:2: is not UTF-8"),
    ],
)
def test_a_bad_line_is_an_error_with_file_and_line(text: str, where: str) -> None:
    """The error has the line, even in another package's requirement."""
    path = Path("r.txt")
    path.write_bytes(text.encode("latin-1"))
    with no_warning(), pytest.raises(UsageError) as caught:
        sources.of_files([path])
    assert str(caught.value).startswith(where)


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


def test_a_comment_ends_a_continuation() -> None:
    """A comment ends a continuation, and the last line may have one."""
    assert [pin[:2] for pin in pins("triton \\\n# >=3.9\ntorch>=2 \\")] == [
        (1, "triton"),
        (3, "torch>=2"),
    ]


def test_hashes_hold_a_pin_to_its_release() -> None:
    """A pin with hashes has an obstacle for --fix."""
    (pin,) = pins("triton==3.4.0 --hash=sha256:aa\n")
    assert pin == (1, "triton==3.4.0", "its hashes are of that release")


@pytest.mark.parametrize(
    "line",
    [
        "./torch-geometric-2.0.tar.gz",
        "https://example.com/triton-windows-3.0.whl",
        "-e ./mytorch",
        "--index-url https://example.com/torch",
        "./a-folder/torch",
    ],
)
def test_an_address_of_something_else_is_no_pin(line: str) -> None:
    """An address with torch or triton in its name is not a pin."""
    assert pins(f"{line}\n") == []


def test_an_included_name_that_no_file_system_takes_is_not_there(here: Path) -> None:
    """An include with an impossible name is one error."""
    (here / "r.txt").write_text(f"triton==3.2.0\n-r {'a' * 300}.txt\n")
    with pytest.raises(UsageError, match=r"r\.txt:2: a+\.txt is included and is not there"):
        sources.of_files([Path("r.txt")])
