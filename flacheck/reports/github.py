"""GitHub workflow commands: an annotation a signature, since GitHub shows ten of a kind at most."""

from __future__ import annotations

from collections.abc import Iterator

from flacheck.analysis.groups import SignatureGroup
from flacheck.model import Verdict
from flacheck.reports.base import Page, RunView
from flacheck.reports.wording import counts, reasons, title_of, where

SHOWN = 10


def render(view: RunView, page: Page) -> Iterator[str]:
    """Failures as errors (tolerated ones as notices), unknown and slow cells as warnings, then the
    counts.
    """
    for group in view.summary.by_signature[:SHOWN]:
        yield command(
            "notice" if group.tolerated == group.count else "error",
            _title(view, group),
            _text(group),
        )
    hidden = len(view.summary.by_signature) - SHOWN
    if hidden > 0:
        yield command("notice", "more failures", f"{hidden} more signatures: see the whole report")
    for reason in reasons(view, Verdict.UNKNOWN)[:SHOWN]:
        yield command(
            "warning", "unknown", f"{reason.count} × {reason.text} ({', '.join(reason.toolchains)})"
        )
    if view.summary.slow:
        yield command(
            "warning", "FC921 slow compile", f"{len(view.summary.slow)} compiles are slow"
        )
    yield command("notice", "flacheck", counts(view.summary))
    for pin in view.summary.specifiers:
        yield command(
            "notice", f"known good on {pin.target}", " ".join(filter(None, (pin.triton, pin.torch)))
        )


def _title(view: RunView, group: SignatureGroup) -> str:
    return " ".join(filter(None, (group.code, title_of(view, group.code))))


def _text(group: SignatureGroup) -> str:
    return f"{group.line}\n{group.count} × {where(group.toolchains, group.targets, group.kernels)}"


def command(
    level: str, title: str, text: str, file: str | None = None, line: int | None = None
) -> str:
    """A workflow command; with a file (and a line, from 1) it is shown there."""
    place = {"file": file, "line": line, "title": title}
    properties = ",".join(
        f"{name}={_escaped(str(value))}" for name, value in place.items() if value is not None
    )
    message = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::{level} {properties}::{message}\n"


def _escaped(text: str) -> str:
    plain = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    # A property ends at a comma or a colon, a message does not.
    return plain.replace(":", "%3A").replace(",", "%2C")
