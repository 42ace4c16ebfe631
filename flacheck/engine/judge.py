"""From an attempt to a record: the one place where a verdict is made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from flacheck import rules
from flacheck.model import MESSAGE_LIMIT, Attempt, Cell, Finding, Outcome, Record, Verdict
from flacheck.tables import targets

_UNFIT = (
    "missing a required argument",
    "required positional argument",
    "was specified but unrecognised",
    "cannot rebuild",
)
_UNLOADED = ("StubError", "ModuleNotFoundError", "ImportError")
_OF_TRITON = re.compile(r"(from|No module named) '?triton\b")
_MADE_UP = (
    "flacheck made up a call of an inner function, and the kernel does not take what it was given"
)


def judge(cell: Cell, attempt: Attempt) -> Record:
    """The verdict on a cell that was tried.

    A launch that flacheck could not rebuild, or a kernel it could not load without torch, is
    `unknown`: that is flacheck's limit and never the compiler's failure.
    """
    unfit = _unfit(attempt)
    if unfit:
        return _record(
            cell, attempt, Verdict.UNKNOWN, reason=unfit, message=_last_line(attempt.log)
        )
    if attempt.outcome is Outcome.FINISHED:
        return _finished(cell, attempt)
    findings = rules.classify(attempt)
    if (
        cell.kernel.origin.get("made_up")
        and attempt.stage == "ast"
        and findings[0].code == rules.UNCLASSIFIED
    ):
        return _record(cell, attempt, Verdict.UNKNOWN, findings, reason=_MADE_UP)
    effect = Verdict.UNKNOWN if rules.RULES[findings[0].code].effect == "unknown" else Verdict.FAILS
    reason = findings[0].title if effect is Verdict.UNKNOWN else None
    return _record(cell, attempt, effect, findings, reason=reason, tolerated=attempt.tolerated)


def _finished(cell: Cell, attempt: Attempt) -> Record:
    over = rules.over_limits(attempt.resources, targets.find(cell.target))
    if over:
        return _record(cell, attempt, Verdict.FAILS, over, stage="load", tolerated=True)
    findings = rules.classify(attempt)
    if findings:
        return _record(cell, attempt, Verdict.FAILS, findings)
    reason = f"up to {cell.until}" if cell.until else None
    return _record(cell, attempt, Verdict.COMPILES, reason=reason)


def _unfit(attempt: Attempt) -> str | None:
    last = _last_line(attempt.log)
    if attempt.outcome is Outcome.NOT_STARTED:
        return f"the compiler does not start: {last}"
    if attempt.outcome is not Outcome.RAISED:
        return None
    unloaded = any(name in attempt.exception for name in _UNLOADED) and not _OF_TRITON.search(last)
    if unloaded and attempt.stage == "import":
        return f"the kernel could not be loaded: {last}"
    if attempt.stage in ("import", "ast") and any(text in last for text in _UNFIT):
        return f"the launch does not fit the kernel: {last}"
    return None


def _last_line(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    return lines[-1].strip()[:500] if lines else ""


def untried(cell: Cell, verdict: Verdict, reason: str, finding: Finding | None = None) -> Record:
    """A cell that was not compiled: skipped, or unknown for want of its compiler."""
    return _record(
        cell, Attempt(Outcome.NOT_STARTED), verdict, [finding] if finding else [], reason=reason
    )


def without_toolchain(cell: Cell, verdict: Verdict, reason: str, code: str | None) -> Record:
    """A cell whose compiler could not be had."""
    return untried(cell, verdict, reason, rules.RULES[code].finding(reason) if code else None)


def with_facts(record: Record, facts: Mapping[str, Any]) -> Record:
    """The record with facts added to its decisive finding."""
    if not facts:
        return record
    first, *others = record.findings
    return record.with_(findings=({**first, "facts": {**first["facts"], **facts}}, *others))


def unstable(cell: Cell, first: Record, second: Record) -> Record:
    """A failure that a fresh worker does not confirm is no verdict."""
    seen = " then ".join(record.signature or record.verdict.value for record in (first, second))
    return first.with_(verdict=Verdict.UNKNOWN, reason=f"unstable: {seen}", tolerated=False)


def _record(
    cell: Cell,
    attempt: Attempt,
    verdict: Verdict,
    findings: list[Finding] | None = None,
    *,
    reason: str | None = None,
    stage: str | None = None,
    tolerated: bool = False,
    message: str = "",
) -> Record:
    stage = stage or attempt.stage
    decisive = findings[0] if findings else None
    return Record(
        key=cell.key,
        kernel=cell.kernel.name,
        package=cell.kernel.package,
        how=_how(cell),
        toolchain=cell.toolchain,
        target=cell.target,
        dtype=cell.dtype,
        shape=dict(cell.shape),
        launch=cell.launch.to_json() if cell.launch else None,
        options=dict(cell.options),
        widened=cell.widened,
        verdict=verdict,
        reason=reason,
        tolerated=tolerated,
        code=decisive.code if decisive else None,
        signature=rules.signature(decisive, stage) if decisive else None,
        stage=stage,
        signal=attempt.signal,
        message=(decisive.message if decisive else message)[:MESSAGE_LIMIT],
        findings=tuple(finding.to_json() for finding in findings or ()),
        seconds=round(attempt.seconds, 4),
        peak_mb=round(attempt.peak_mb, 1) if attempt.peak_mb is not None else None,
        cached=False,
        resources=_resources(cell, attempt),
    )


def _how(cell: Cell) -> str:
    if "corpus" in cell.kernel.origin:
        return "corpus"
    if "import" in cell.kernel.origin:
        return "import"
    return "cut" if "source" in cell.kernel.origin else "stub"


def _resources(cell: Cell, attempt: Attempt) -> Mapping[str, Any]:
    used = asdict(attempt.resources)
    used["shared_limit"] = targets.find(cell.target).shared_limit
    return {name: used[name] for name in ("shared", "shared_limit", "registers", "stack", "spills")}
