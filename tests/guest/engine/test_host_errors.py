"""The machine's errors under an exception."""

from __future__ import annotations

import errno
import subprocess
from typing import Any

import pytest

from flacheck.guest.engine.host_errors import host_error


def raise_over(cause: BaseException, explicit: bool) -> BaseException:
    """Return an error that is raised while another one is handled, as Triton's wrappers are."""
    try:
        try:
            raise cause
        except Exception as error:
            if explicit:
                raise RuntimeError("codegen error") from error
            raise RuntimeError("codegen error")  # noqa: B904  # the chain is what is tested
    except RuntimeError as error:
        return error


@pytest.mark.parametrize("number", [errno.EFBIG, errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
def test_a_limit_counts_wherever_it_stands(number: int) -> None:
    """A wrapper's error does not hide it."""
    cause = OSError(number, "words that no rule knows")
    assert host_error(raise_over(cause, explicit=False)) == errno.errorcode[number]


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.EPERM])
def test_an_error_that_was_handled_is_no_cause(number: int) -> None:
    """A file that is missing or may not be read is often expected; only an explicit cause counts."""
    cause = OSError(number, "words")
    assert host_error(raise_over(cause, explicit=False)) is None
    assert host_error(raise_over(cause, explicit=True)) == errno.errorcode[number]
    assert host_error(cause) == errno.errorcode[number]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (-25, "SIGXFSZ"),
        (-24, "SIGXCPU"),
        (-31, "SIGSYS"),
        (-9, "SIGKILL"),
        (-11, None),
        (255, None),
    ],
)
def test_a_program_that_a_signal_from_outside_ended(code: int, name: str | None) -> None:
    """A crash of the assembler, and its own exit status, are failures of the compiler."""
    error = raise_over(subprocess.CalledProcessError(code, ["ptxas"]), explicit=False)
    assert host_error(error) == name


@pytest.mark.parametrize("error", [ValueError("no tile"), OSError("could not get source code")])
def test_other_errors_are_not_the_machines(error: Any) -> None:
    """An OSError without a number is raised by Python's own code."""
    assert host_error(raise_over(error, explicit=True)) is None
