"""From an attempt to a record: every verdict is made here."""

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from flacheck import rules
from flacheck.model import MESSAGE_LIMIT, Attempt, Cell, Finding, Outcome, Record, Verdict
from flacheck.model.record import RecordedFinding
from flacheck.tables import targets

# Messages of Triton's launcher about arguments that do not fit a kernel's parameters.
_UNFIT = (
    "missing a required argument",
    "required positional argument",
    "was specified but unrecognised",
    "cannot rebuild",
)
# Exceptions of a module that cannot be loaded on this machine; the compiler has not failed.
_STUB_ERROR = "StubError"
_LOAD_ERRORS = (_STUB_ERROR, "ModuleNotFoundError", "ImportError")
# The front end's exceptions about a kernel's source; the launcher's errors come earlier.
_SOURCE_ERRORS = ("CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct")
_WORKER_PREFIX = "flacheck: "
# The exception about source from a file that leads out of Triton's language.
_NOT_ADMITTED = "NotAdmitted"
_MISSING_TRITON = re.compile(r"(from|No module named) '?triton\b")


def judge(cell: Cell, attempt: Attempt) -> Record:
    """Return the verdict on a cell that was tried.

    A launch that flacheck could not rebuild, or a kernel that it could not load without torch, is
    `unknown`: that is a limit of flacheck, never a failure of the compiler.
    """
    unfit = _unfit(attempt)
    if unfit:
        return _record(
            cell, attempt, Verdict.UNKNOWN, reason=unfit, message=_last_line(attempt.log)
        )
    if attempt.outcome is Outcome.FINISHED:
        return _record_finished(cell, attempt)
    findings = rules.classify(attempt)
    if _has_right_binary(attempt, findings):
        return _record_finished(cell, _as_finished(cell, attempt), findings)
    code = findings[0].code
    tolerated = attempt.tolerated and _has_choice(cell)
    if rules.RULES[code].effect == "unknown":
        reason = _own_words(findings[0]) or findings[0].title
        if attempt.host_error:
            reason = f"{reason} ({attempt.host_error})"
        return _record(cell, attempt, Verdict.UNKNOWN, findings, reason=reason, tolerated=tolerated)
    record = _record(cell, attempt, Verdict.FAILS, findings, tolerated=tolerated)
    # The API that the release lacks.
    facts = {name: attempt.facts[name] for name in ("api",) if name in attempt.facts}
    return with_facts(record, facts)


def _has_right_binary(attempt: Attempt, findings: list[Finding]) -> bool:
    """Return True for a compile that printed an error and ended with a binary that is right."""
    pattern = rules.RULES[findings[0].code].right_binary
    if pattern is None or attempt.exception or attempt.resources.registers is None:
        return False
    errors = [line for line in attempt.log.splitlines() if "error:" in line]
    return all(pattern.search(line) for line in errors)


def _as_finished(cell: Cell, attempt: Attempt) -> Attempt:
    """Return an attempt with the last stage in place of the stage that printed an error."""
    last_stage = {"cuda": "cubin", "hip": "hsaco"}[targets.find(cell.target).backend]
    return replace(attempt, outcome=Outcome.FINISHED, stage=last_stage)


def _own_words(finding: Finding) -> str:
    """Return the worker's reason for not compiling a cell, "" without one.

    The worker's reason is more specific than the title of the rule.
    """
    first = finding.message.partition("\n")[0]
    if first.startswith(_WORKER_PREFIX):
        return first.removeprefix(_WORKER_PREFIX)
    return ""


def _has_choice(cell: Cell) -> bool:
    """Return True if an autotuner would skip a failing configuration of the launch.

    A launch without an autotuner, or with a single configuration, ends with the failure. A kernel
    that its program tries beside others for a launch may fail as well.
    """
    return cell.stage != "compile" or len(cell.configs) > 1 or cell.kernel.is_candidate


def _record_finished(cell: Cell, attempt: Attempt, warnings: list[Finding] | None = None) -> Record:
    over = rules.over_limits(attempt.resources, targets.find(cell.target))
    if over:
        tolerated = _has_choice(cell)
        return _record(cell, attempt, Verdict.FAILS, over, stage="load", tolerated=tolerated)
    findings = rules.classify(attempt)
    if findings:
        return _record(cell, attempt, Verdict.FAILS, findings)
    reason = f"up to {cell.until}" if cell.until else None
    return _record(cell, attempt, Verdict.COMPILES, warnings, reason=reason)


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
    return _unfit_exception(attempt, last)


def _unfit_exception(attempt: Attempt, last: str) -> str | None:
    """Return why the exception of an attempt concerns the load or the launch, not the kernel."""
    is_load_error = any(name in attempt.exception for name in _LOAD_ERRORS)
    if is_load_error and attempt.stage == "import" and not _MISSING_TRITON.search(last):
        return f"the kernel could not be loaded: {last}"
    if _STUB_ERROR in attempt.exception:
        return f"the kernel cannot be compiled without torch: {last}"
    # A call within the kernel's source does not depend on the arguments of the launch.
    is_source_error = any(name in attempt.exception for name in _SOURCE_ERRORS)
    # A kernel that no launch fits fails, whatever flacheck passes.
    unfit = any(text in last for text in _UNFIT) and "api" not in attempt.facts
    if attempt.stage in ("import", "ast") and unfit and not is_source_error:
        return f"the launch does not fit the kernel: {last}"
    return None


def _refusal(log: str) -> str:
    """Return the message of the exception, which other exceptions may wrap."""
    mark = f"{_NOT_ADMITTED}: "
    for line in log.splitlines():
        if mark in line:
            return line.partition(mark)[2][:500]
    return ""


def _last_line(log: str) -> str:
    for line in reversed(log.splitlines()):
        if line.strip():
            return line.strip()[:500]
    return ""


def record_untried(cell: Cell, verdict: Verdict, reason: str, code: str | None = None) -> Record:
    """Return the record of a cell that was not compiled: skipped, or without a compiler."""
    findings = []
    if code:
        findings.append(rules.RULES[code].finding(reason))
    return _record(cell, Attempt(Outcome.NOT_STARTED), verdict, findings, reason=reason)


def with_facts(record: Record, facts: Mapping[str, Any]) -> Record:
    """Return the record with facts added to its decisive finding."""
    if not facts:
        return record
    first, *others = record.findings
    decisive = {**first, "facts": {**first["facts"], **facts}}
    return record.with_(findings=(decisive, *others))


def fail_on_card(record: Record, finding: Finding, stage: str) -> Record:
    """Return the record of a cell that compiles, and fails when its binary runs on a GPU."""
    return record.with_(
        verdict=Verdict.FAILS,
        reason=None,
        code=finding.code,
        signature=rules.signature(finding, stage),
        stage=stage,
        message=finding.message[:MESSAGE_LIMIT],
        findings=(_recorded_finding(finding),),
        cached=False,
    )


def unstable(first: Record, second: Record) -> Record:
    """Return the record of a failure that a fresh worker did not confirm, without a verdict."""
    before = first.signature or first.verdict.value
    after = second.signature or second.verdict.value
    return without_verdict(first, f"unstable: {before} then {after}")


def without_verdict(failure: Record, reason: str) -> Record:
    """Return a failure as `unknown`, with the reason for the missing verdict."""
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
    if findings and verdict is not Verdict.COMPILES:
        code = findings[0].code
        signature = rules.signature(findings[0], stage)
        message = findings[0].message
    peak_mb = attempt.peak_mb
    if peak_mb is not None:
        peak_mb = round(peak_mb, 1)
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
        findings=tuple(map(_recorded_finding, findings or ())),
        seconds=round(attempt.seconds, 4),
        # A worker that died reports none.
        cpu_seconds=round(attempt.cpu_seconds, 2) or None,
        peak_mb=peak_mb,
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


def _recorded_finding(finding: Finding) -> RecordedFinding:
    return RecordedFinding(code=finding.code, title=finding.title, facts=dict(finding.facts))
