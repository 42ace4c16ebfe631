"""From what a compiler said, or how an attempt ended, to findings; the most specific decides."""

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
_KILLED = "FC905"
_TAIL_LINES = 5
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
# Frames that every failure of a kind passes through: they name no cause.
_PLUMBING = re.compile(
    r"<|_*(?:run|compile|wrapper|make_\w+|ast_to_ttir|_init_handles|__init__|"
    r"(?:generic_)?visit\w*|decorator|raise_|_run|check_call)$"
)


def _facts(match: re.Match[str]) -> dict[str, Any]:
    """Numbers as numbers, lists of names as lists, the rest as printed."""
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
    """The compiler's function that complained; Python's only where it is more than plumbing."""
    function = asserting_function(line.text)
    if not function and not _PLUMBING.match(line.function):
        function = line.function
    return function


def _matched(rule: Rule, log: str, lines: list[Line]) -> Finding | None:
    """The rule's finding in a log, the line that it stands on in front of the other decisive ones.

    A decisive line is looked at before the whole log: a traceback shows source that says the same.
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
        # Of several lines the last, the exception under its source.
        last = match.start() + len(match[0].rstrip())
        number = log.count("\n", 0, last) + 1
        text = log[log.rfind("\n", 0, last) + 1 :].partition("\n")[0].strip()
        cause = next((each for each in lines if each.number == number), Line(number, text, 0))
    function = ""
    if rule.effect != "unknown":
        function = _function(cause)
    return rule.finding(
        join([cause.text, *(line.text for line in lines if line is not cause)]),
        function=function,
        facts=_facts(match),
        line=cause.number,
        excerpt=cause.text[:_EXCERPT],
    )


def read(text: str) -> list[Finding]:
    """What a compiler's raw output says: decisive finding first, FC000 for an unknown failure, []
    for none."""
    log = clean(text)
    lines = decisive_lines(log)
    by_weight = sorted(RULES.values(), key=lambda rule: -rule.specificity)
    findings = list(filter(None, (_matched(rule, log, lines) for rule in by_weight)))
    # Of equally specific ones the first in the log: what a compiler says later follows from it.
    findings.sort(key=lambda finding: (-RULES[finding.code].specificity, finding.line or 0))
    if lines and not findings:
        message, first = join([line.text for line in lines]), lines[0]
        where = {"line": first.number, "excerpt": first.text[:_EXCERPT]}
        return [RULES[UNCLASSIFIED].finding(message, function=_function(first), **where)]
    return findings


def _ended(attempt: Attempt) -> str:
    """How an attempt ended, for want of a better message."""
    how = attempt.signal or attempt.outcome.value
    if attempt.signal is None and attempt.exit_code is not None:
        how = f"exit status {attempt.exit_code}"
    said = "nothing on stderr"
    tail = [line for line in attempt.log.splitlines() if line.strip()][-_TAIL_LINES:]
    if tail:
        said = "\n".join(["the last lines were:", *tail])
    return f"{how} in stage {attempt.stage or 'unknown'}, {said}"


def _failed(attempt: Attempt, keys: list[Finding]) -> list[Finding]:
    """What the log says. An exception and the audit of the keys may tell of one fault: the audit's
    facts then complete the exception."""
    findings = read(attempt.log)
    if not findings or findings[0].code == UNCLASSIFIED:
        ended = _ended(attempt)
        if attempt.signal == "SIGKILL":
            findings.insert(0, RULES[_KILLED].finding(ended, confidence="medium"))
        elif not findings:
            findings = [RULES[UNCLASSIFIED].finding(join([ended]), confidence="low")]
    if findings[0].code == _KILLED and attempt.oom_killed:
        killed = findings.pop(0)
        findings.insert(0, RULES["FC902"].finding(killed.message, facts={"killed": True}))
    left = {finding.code: finding for finding in keys}
    merged = []
    for finding in findings:
        audited = left.pop(finding.code, None)
        if audited:
            facts = {**finding.facts, **audited.facts}
            finding = replace(finding, title=audited.title, facts=facts)
        merged.append(finding)
    return [*merged, *left.values()]


def classify(attempt: Attempt) -> list[Finding]:
    """Why an attempt ended as it did, decisive finding first; [] for a finished one without a
    fault.

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
    return _failed(attempt, keys)
