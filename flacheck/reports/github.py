"""GitHub workflow commands: an annotation a signature, since GitHub shows ten of a kind at most."""

from __future__ import annotations

from collections.abc import Iterator

from flacheck.analysis.groups import SignatureGroup
from flacheck.model import Verdict
from flacheck.reports.base import Page, RunView
from flacheck.reports.wording import counts, reasons, title_of, where

SHOWN = 10


def render(view: RunView, page: Page) -> Iterator[str]:
    """Failures as errors (tolerated ones as notices), unknown and slow cells as warnings, then the counts."""
    for group in view.summary.by_signature[:SHOWN]:
        yield _command("notice" if group.tolerated == group.count else "error", _title(view, group), _text(group))
    hidden = len(view.summary.by_signature) - SHOWN
    if hidden > 0:
        yield _command("notice", "more failures", f"{hidden} more signatures: see the whole report")
    for reason in reasons(view, Verdict.UNKNOWN)[:SHOWN]:
        yield _command("warning", "unknown", f"{reason.count} × {reason.text} ({', '.join(reason.toolchains)})")
    if view.summary.slow:
        yield _command("warning", "FC921 slow compile", f"{len(view.summary.slow)} compiles are slow")
    yield _command("notice", "flacheck", counts(view.summary))
    for pin in view.summary.specifiers:
        yield _command("notice", f"known good on {pin.target}", " ".join(filter(None, (pin.triton, pin.torch))))


def _title(view: RunView, group: SignatureGroup) -> str:
    return " ".join(filter(None, (group.code, title_of(view, group.code))))


def _text(group: SignatureGroup) -> str:
    return f"{group.line}\n{group.count} × {where(group.toolchains, group.targets, group.kernels)}"


def _command(level: str, title: str, text: str) -> str:
    message = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    plain = title.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    # A property ends at a comma or a colon, a message does not.
    return f"::{level} title={plain.replace(':', '%3A').replace(',', '%2C')}::{message}\n"
