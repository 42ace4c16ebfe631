"""From an attempt to a record: the one place where a verdict is made."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from flacheck import rules
from flacheck.model import MESSAGE_LIMIT, Attempt, Cell, Finding, Json, Outcome, Record, Verdict
from flacheck.tables import targets

# What Triton's launcher says of arguments that do not fit a kernel's parameters.
_UNFIT = (
    "missing a required argument",
    "required positional argument",
    "was specified but unrecognised",
    "cannot rebuild",
)
# Exceptions of a module that cannot be loaded where it is: no fault of the compiler.
_UNLOADED = ("StubError", "ModuleNotFoundError", "ImportError")
# How the front end wraps what goes wrong in a kernel's source; the launcher raises before that.
_OF_SOURCE = ("CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct")
_SAID_BY_WORKER = "flacheck: "
# What a worker raises over source from a file that leads out of Triton's language.
_NOT_ADMITTED = "NotAdmitted"
_OF_TRITON = re.compile(r"(from|No module named) '?triton\b")


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
    code = findings[0].code
    tolerated = attempt.tolerated and _has_choice(cell)
    if rules.RULES[code].effect == "unknown":
        reason = _own_words(findings[0]) or findings[0].title
        return _record(cell, attempt, Verdict.UNKNOWN, findings, reason=reason, tolerated=tolerated)
    return with_facts(
        _record(cell, attempt, Verdict.FAILS, findings, tolerated=tolerated), _api(attempt)
    )


def _own_words(finding: Finding) -> str:
    """What flacheck's worker itself says of a cell that it does not compile, which is more than
    the rule's title says."""
    first = finding.message.partition("\n")[0]
    if first.startswith(_SAID_BY_WORKER):
        return first.removeprefix(_SAID_BY_WORKER)
    return ""


def _has_choice(cell: Cell) -> bool:
    """Whether an autotuner skips a configuration of the launch that fails: one that has no other,
    like a program that launches without an autotuner, is ended by the failure."""
    return cell.stage != "compile" or len(cell.configs) > 1


def _api(attempt: Attempt) -> Json:
    """The API that the release lacks, where the worker saw that the source asks for one."""
    return {name: held for name, held in attempt.facts.items() if name == "api"}


def _finished(cell: Cell, attempt: Attempt) -> Record:
    over = rules.over_limits(attempt.resources, targets.find(cell.target))
    if over:
        tolerated = _has_choice(cell)
        return _record(cell, attempt, Verdict.FAILS, over, stage="load", tolerated=tolerated)
    findings = rules.classify(attempt)
    if findings:
        return _record(cell, attempt, Verdict.FAILS, findings)
    reason = f"up to {cell.until}" if cell.until else None
    return _record(cell, attempt, Verdict.COMPILES, reason=reason)


def _unfit(attempt: Attempt) -> str | None:
    last = _last_line(attempt.log)
    if attempt.outcome is Outcome.NOT_STARTED:
        return f"the compiler does not start: {last}"
    if attempt.outcome is Outcome.LOST:
        return f"no answer: {last}"
    if attempt.outcome is not Outcome.RAISED:
        return None
    if _NOT_ADMITTED in attempt.exception:
        return f"refused: {_refusal(attempt.log)}; --trust compiles it all the same"
    unloaded = any(name in attempt.exception for name in _UNLOADED) and not _OF_TRITON.search(last)
    if unloaded and attempt.stage == "import":
        return f"the kernel could not be loaded: {last}"
    # What a line of the kernel calls, it calls whatever it was launched with.
    of_source = any(name in attempt.exception for name in _OF_SOURCE)
    unfit = any(text in last for text in _UNFIT)
    if attempt.stage in ("import", "ast") and unfit and not of_source:
        return f"the launch does not fit the kernel: {last}"
    return None


def _refusal(log: str) -> str:
    """The message of the exception, which others may have wrapped."""
    raised = [line for line in log.splitlines() if f"{_NOT_ADMITTED}: " in line]
    return raised[0].partition(f"{_NOT_ADMITTED}: ")[2][:500] if raised else ""


def _last_line(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    return lines[-1].strip()[:500] if lines else ""


def record_untried(cell: Cell, verdict: Verdict, reason: str, code: str | None = None) -> Record:
    """A cell that was not compiled: skipped, or unknown for want of its compiler."""
    findings = [rules.RULES[code].finding(reason)] if code else []
    return _record(cell, Attempt(Outcome.NOT_STARTED), verdict, findings, reason=reason)


def with_facts(record: Record, facts: Mapping[str, Any]) -> Record:
    """The record with facts added to its decisive finding."""
    if not facts:
        return record
    first, *others = record.findings
    return record.with_(findings=({**first, "facts": {**first["facts"], **facts}}, *others))


def unstable(first: Record, second: Record) -> Record:
    """A failure that a fresh worker does not confirm is no verdict."""
    seen = " then ".join(record.signature or record.verdict.value for record in (first, second))
    return without_verdict(first, f"unstable: {seen}")


def without_verdict(failure: Record, reason: str) -> Record:
    """Return a failure as `unknown`, with the reason why it says nothing of the cell."""
    return failure.with_(verdict=Verdict.UNKNOWN, reason=reason, tolerated=False)


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
    code = signature = None
    if findings:
        code = findings[0].code
        signature = rules.signature(findings[0], stage)
        message = findings[0].message
    peak_mb = attempt.peak_mb
    return Record(
        cell=cell,
        verdict=verdict,
        reason=reason,
        tolerated=tolerated,
        code=code,
        signature=signature,
        stage=stage,
        signal=attempt.signal,
        message=message[:MESSAGE_LIMIT],
        findings=tuple(finding.to_json() for finding in findings or ()),
        seconds=round(attempt.seconds, 4),
        peak_mb=None if peak_mb is None else round(peak_mb, 1),
        cached=False,
        resources=_resources(cell, attempt),
    )


def _resources(cell: Cell, attempt: Attempt) -> Mapping[str, Any]:
    used = asdict(attempt.resources)
    used["shared_limit"] = targets.find(cell.target).shared_limit
    names = ["shared", "shared_limit", "registers", "stack", "spills"]
    if attempt.resources.functions:
        names.append("functions")
    return {name: used[name] for name in names}
