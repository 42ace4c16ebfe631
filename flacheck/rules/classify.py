"""Findings from a compiler's output or the end of an attempt; the most specific one decides."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flacheck.model import Attempt, Finding, Outcome
from flacheck.rules.base import RULES, UNCLASSIFIED, Rule
from flacheck.rules.decisive import Line, clean, decisive_lines, join
from flacheck.rules.measurements import key_findings
from flacheck.rules.signature import asserting_function

_EXCERPT = 300
_SIGKILL = "FC905"
_TAIL_LINES = 5
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
# Frames that every failure of a kind passes through; none of them is the cause.
_PLUMBING = re.compile(
    r"<|_*(?:run|compile|wrapper|make_\w+|ast_to_ttir|_init_handles|__init__|"
    r"(?:generic_)?visit\w*|decorator|raise_|_run|check_call)$"
)


def _facts(match: re.Match[str]) -> dict[str, Any]:
    """Return numbers as numbers, lists of names as lists, the rest as text."""
    facts: dict[str, Any] = {}
    for name, value in match.groupdict().items():
        if value is None:
            continue
        facts[name] = value
        if name == "names":
            facts[name] = value.split(", ")
        elif value.startswith("0x") and _NUMBER.fullmatch(value):
            facts[name] = int(value, 16)
        elif _NUMBER.fullmatch(value):
            facts[name] = int(value)
    return facts


def _function(line: Line) -> str:
    """Return the compiler function that failed; a Python function only if it is not plumbing."""
    function = asserting_function(line.text)
    if not function and not _PLUMBING.match(line.function):
        function = line.function
    return function


def _match(rule: Rule, log: str, lines: list[Line]) -> Finding | None:
    """Return the rule's finding in a log; its message begins with the matching line.

    Decisive lines are searched before the whole log, because a traceback shows source with the same
    words.
    """
    for line in lines:
        match = rule.search(line.text)
        if match:
            cause = line
            break
    else:
        match = rule.search(log)
        if match is None:
            return None
        # A match of several lines ends with the exception, under its source.
        last = match.start() + len(match[0].rstrip())
        number = log.count("\n", 0, last) + 1
        text = log[log.rfind("\n", 0, last) + 1 :].partition("\n")[0].strip()
        cause = Line(number, text, 0)
        for line in lines:
            if line.number == number:
                cause = line
                break
    function = ""
    if rule.effect != "unknown":
        function = _function(cause)
    others = [line.text for line in lines if line is not cause]
    return rule.finding(
        join([cause.text, *others]),
        function=function,
        facts=_facts(match),
        line=cause.number,
        excerpt=cause.text[:_EXCERPT],
    )


def read(text: str) -> list[Finding]:
    """Return the findings in a compiler's raw output, the decisive one first.

    FC000 stands for an unrecognised failure; without a failure the list is empty.
    """
    log = clean(text)
    lines = decisive_lines(log)
    by_weight = sorted(RULES.values(), key=lambda rule: -rule.specificity)
    findings = []
    for rule in by_weight:
        finding = _match(rule, log, lines)
        if finding:
            findings.append(finding)
    # Among equally specific findings the first in the log decides: later errors follow from it.
    findings.sort(key=lambda finding: (-RULES[finding.code].specificity, finding.line or 0))
    if lines and not findings:
        message, first = join([line.text for line in lines]), lines[0]
        where = {"line": first.number, "excerpt": first.text[:_EXCERPT]}
        return [RULES[UNCLASSIFIED].finding(message, function=_function(first), **where)]
    return findings


def _describe_end(attempt: Attempt) -> str:
    """Return how an attempt ended, for a log without a better message."""
    how = attempt.signal or attempt.outcome.value
    if attempt.signal is None and attempt.exit_code is not None:
        how = f"exit status {attempt.exit_code}"
    stderr = "nothing on stderr"
    tail = [line for line in attempt.log.splitlines() if line.strip()][-_TAIL_LINES:]
    if tail:
        stderr = "\n".join(["the last lines were:", *tail])
    return f"{how} in stage {attempt.stage or 'unknown'}, {stderr}"


def _classify_failure(attempt: Attempt, keys: list[Finding]) -> list[Finding]:
    """Return the findings in the log and in the audit of the keys.

    If both report one fault, the audit's facts complete the finding of the log.
    """
    findings = read(attempt.log)
    if not findings or findings[0].code == UNCLASSIFIED:
        message = _describe_end(attempt)
        if attempt.signal == "SIGKILL":
            findings.insert(0, RULES[_SIGKILL].finding(message, confidence="medium"))
        elif not findings:
            findings = [RULES[UNCLASSIFIED].finding(join([message]), confidence="low")]
    if findings[0].code == _SIGKILL and attempt.oom_killed:
        signal = findings.pop(0)
        findings.insert(0, RULES["FC902"].finding(signal.message, facts={"killed": True}))
    audits = {finding.code: finding for finding in keys}
    result = []
    for finding in findings:
        audit = audits.pop(finding.code, None)
        if audit:
            facts = {**finding.facts, **audit.facts}
            finding = replace(finding, title=audit.title, facts=facts)
        result.append(finding)
    return [*result, *audits.values()]


def classify(attempt: Attempt) -> list[Finding]:
    """Return the findings of an attempt, the decisive one first; [] if it finished without a fault.

    Resource limits and slow compiles need more than the attempt: see `over_limits` and `slow`.
    """
    audit: list[Mapping[str, Any]] = list(attempt.facts.get("keys") or [])
    keys = key_findings(audit)
    if attempt.outcome is Outcome.FINISHED:
        return keys
    if attempt.outcome is Outcome.TIMED_OUT:
        message = f"stopped after {attempt.seconds:.0f} s in stage {attempt.stage or 'unknown'}"
        return [RULES["FC901"].finding(message, facts={"seconds": round(attempt.seconds, 1)})]
    if attempt.outcome is Outcome.OUT_OF_MEMORY:
        message = f"out of memory in stage {attempt.stage or 'unknown'}"
        facts: dict[str, Any] = {"peak_mb": attempt.peak_mb}
        if attempt.oom_killed:
            facts["killed"] = True
        return [RULES["FC902"].finding(message, facts=facts)]
    return _classify_failure(attempt, keys)
