"""flacheck explain: what a failure code means, or which failure a compiler's output shows."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flacheck.cli import common
from flacheck.errors import Exit, UsageError

if TYPE_CHECKING:
    from flacheck.rules.explanation import Explanation

_CODE = re.compile(r"FC\d{3}", re.IGNORECASE)


@common.command
def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="CODE|FILE|-", help="A code such as FC302, a log file, or - for stdin."
        ),
    ],
    format: Annotated[str, typer.Option("--format", help="table or json.")] = "table",
    output: common.Output = None,
) -> int:
    """Name the failure in a compiler's output: cause, versions, remedy, links."""
    from flacheck.rules import explanation

    if format not in ("table", "json"):
        raise UsageError(f"unknown format {format!r}: explain knows table and json")
    found = (
        explanation.of_code(what.upper())
        if _CODE.fullmatch(what)
        else explanation.of_log(_text(what))
    )
    if format == "json":
        common.write(
            [json.dumps(explanation.to_json(found), indent=2, ensure_ascii=False) + "\n"], output
        )
    else:
        common.write(_lines(found), output)
    return Exit.OK if found and found[0].code != explanation.UNCLASSIFIED else Exit.FINDINGS


def _text(what: str) -> str:
    if what == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        return Path(what).read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(
            f"{what}: cannot be read ({error.strerror}); give a code (FC302), a log file, or -"
        ) from None


def _lines(found: Sequence[Explanation]) -> Iterator[str]:
    if not found:
        yield "no failure in this text\n"
    for entry in found:
        yield f"{entry.code}  {entry.title}\n"
        if entry.line:
            yield f"  line {entry.line}: {entry.excerpt}\n"
        yield f"  cause:  {entry.cause}\n  remedy: {entry.remedy}\n"
        for word, versions in (("fails", entry.bad), ("works", entry.good)):
            yield from [f"  {word}:  {', '.join(versions)}\n"] if versions else []
        yield from (f"  see:    {link}\n" for link in entry.links)
