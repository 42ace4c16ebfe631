"""flacheck explain: what a failure code means, or which failure a log shows."""

import sys
from pathlib import Path
from typing import Annotated, BinaryIO

import flacheck
from flacheck import UsageError
from flacheck.cli import common, flags

_WHAT = "A code such as FC302, a log, a .gz, .zst or .zip of logs, a folder, or - for stdin."


class ExplainCommand(flags.ShortReport, total=False):
    """The options of `flacheck explain`."""

    what: Annotated[str, flags.argument("CODE|FILE|-", _WHAT, complete="codes")]


@common.command(
    ExplainCommand,
    examples=[
        ("What does this code mean?", "flacheck explain FC302"),
        ("Which known failure is in this log?", "flacheck explain build.log"),
        ("The same for a pasted log (end it with Ctrl-D)", "flacheck explain -"),
    ],
    exits={
        0: "a failure or an advisory matches",
        1: "no rule matches",
    },
)
def explain(call: common.Call[ExplainCommand]) -> int:
    """Name the failure in a log: cause, versions, remedy, links.

    Known wrong results (advisories) are named as well.
    """
    from flacheck.reports import explanation as explain_report

    explanation = flacheck.explain(_log(call.options["what"]))
    report = explain_report.report(
        explanation.findings, explanation.advisories, explanation.unexplained_errors
    )
    call.show(report)
    return explanation.exit_code


def _log(what: str) -> str | Path | BinaryIO:
    """Return the code, path or stream that an argument names."""
    from flacheck.api.explain import is_code

    if is_code(what):
        return what
    if what != "-":
        return Path(what)
    if sys.stdin is None:
        raise UsageError("stdin is closed; name a log file")
    return sys.stdin.buffer
