"""flacheck explain: what a failure code means, or which failure a compiler's output shows."""

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from flacheck.cli import common
from flacheck.errors import Exit, UsageError

_CODE = re.compile(r"FC\d{3}", re.IGNORECASE)
_WHAT = "A code such as FC302, a log file, or - for stdin."


@common.command
def explain(
    what: Annotated[str, typer.Argument(metavar="CODE|FILE|-", help=_WHAT)],
    format: common.ShortFormat = "table",
    output: common.Output = None,
) -> int:
    """Name the failure in a compiler's output: cause, versions, remedy, links."""
    from flacheck import reports
    from flacheck.reports import explanation as explain_report
    from flacheck.rules import UNCLASSIFIED, explanation

    reports.check(format, reports.TABLE_OR_JSON)
    if _CODE.fullmatch(what):
        explanations = explanation.of_code(what.upper())
    else:
        explanations = explanation.of_log(_text(what))
    common.show(format, explain_report.report(explanations), output)
    # The first one is the decisive one; the others came of it.
    if explanations and explanations[0].code != UNCLASSIFIED:
        return Exit.OK
    return Exit.FINDINGS


def _text(what: str) -> str:
    # Bytes, for a compiler's output may hold anything.
    if what == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        return Path(what).read_bytes().decode("utf-8", "replace")
    except OSError as error:
        why = f"cannot be read ({error.strerror}); give a code (FC302), a log file, or -"
        raise UsageError(f"{what}: {why}") from None
