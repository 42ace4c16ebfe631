"""flacheck explain: what a failure code means, or which failure a log shows."""

import logging
import sys
from collections import deque
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

import flacheck
from flacheck import UsageError
from flacheck.cli import common, flags

_LOG = logging.getLogger(__name__)
# Bytes at either end of a log that are read; a long build prints a tenth of it.
_HALF, _BLOCK = 8 << 20, 1 << 20
# What is read at all: a device or a pipe may never end.
_MOST = 1 << 30
_WHAT = "A code such as FC302, a log file, or - for stdin."


@common.command
def explain(
    what: Annotated[str, typer.Argument(metavar="CODE|FILE|-", help=_WHAT)],
    format: flags.ShortFormat = "table",
    output: flags.Output = None,
) -> int:
    """Name the failure in a log: cause, versions, remedy, links, known wrong results."""
    from flacheck import reports
    from flacheck.api.explain import is_code
    from flacheck.reports import explanation as explain_report

    reports.check(format, reports.TABLE_OR_JSON)
    text = what
    if not is_code(what):
        text = _text(what)
    explanation = flacheck.explain(text)
    report = explain_report.report(explanation.findings, explanation.advisories)
    common.show(format, report, output)
    return explanation.exit_code


def _text(what: str) -> str:
    # Bytes, for a compiler's output may hold anything.
    if what == "-" and sys.stdin is None:
        raise UsageError("stdin is closed; name a log file")
    try:
        if what == "-":
            return _beginning_and_end(sys.stdin.buffer, "stdin")
        with Path(what).open("rb") as file:
            return _beginning_and_end(file, what)
    except OSError as error:
        why = f"cannot be read ({error.strerror}); give a code (FC302), a log file, or -"
        raise UsageError(f"{what}: {why}") from None


def _beginning_and_end(stream: BinaryIO, name: str) -> str:
    """Return the text of a log; of a long one both ends.

    As many empty lines as were left out stand between them, so that line numbers stay.
    """
    beginning = stream.read(_HALF)
    end: deque[bytes] = deque()
    size = lines = total = 0
    while total < _MOST and (block := stream.read(_BLOCK)):
        end.append(block)
        size, total = size + len(block), total + len(block)
        if size - len(end[0]) >= _HALF:
            oldest = end.popleft()
            size -= len(oldest)
            lines += oldest.count(b"\n")
    if total > size:
        _LOG.warning(
            f"{name} is long: only its first and last {_HALF >> 20} MB were read; cut the part that"
            " failed out of it if the failure stands between them"
        )
    # A log with more lines than this consists of empty lines; their numbers are useless.
    blank_lines = min(lines, _HALF)
    return (beginning + b"\n" * blank_lines + b"".join(end)).decode("utf-8", "replace")
