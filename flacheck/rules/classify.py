"""Findings from a compiler's output or the end of an attempt; the most specific one decides."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from flacheck.model import Attempt, Finding, Outcome
from flacheck.rules.base import (
    GENERIC,
    RULES,
    UNCLASSIFIED,
    WRAPPER,
    Rule,
    host_rule,
    lower_confidence,
    with_plain_quotes,
)
from flacheck.rules.decisive import (
    INSTANTIATION,
    INSTANTIATION_LINES,
    Line,
    clean,
    decisive_lines,
    join,
)
from flacheck.rules.measurements import key_findings
from flacheck.rules.signature import asserting_function, without_library_versions
from flacheck.rules.translations import translated

_EXCERPT = 300
# Lines apart within which a generic message belongs to a specific one.
_ONE_FAILURE = 200
_BY_WEIGHT = sorted(RULES.values(), key=lambda rule: -rule.specificity)
_SIGKILL = "FC905"
_REMOVED_API = "FC101"
# Signals by which the kernel enforces a limit or the sandbox; no compiler sends them to itself.
_LIMIT_SIGNALS = ("SIGXFSZ", "SIGXCPU", "SIGSYS")
_TAIL_LINES = 5
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
# Frames that every failure of a kind passes through; none of them is the cause.
_PLUMBING = re.compile(
    r"<|_*(?:run|compile|wrapper|make_\w+|ast_to_ttir|_init_handles|__init__|"
    r"(?:generic_)?visit\w*|decorator|raise_|_run|check_call)$"
)


def _facts(match: re.Match[str], text: str) -> dict[str, Any]:
    """Return numbers as numbers, lists of names as lists, the rest as text, quoted as in `text`."""
    facts: dict[str, Any] = {}
    for name, plain in match.groupdict().items():
        if plain is None:
            continue
        value = text[match.start(name) : match.end(name)]
        facts[name] = without_library_versions(value)
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


def _cause(log: str, lines: list[Line], match: re.Match[str]) -> Line:
    """Return the last line of a match in the whole log.

    A match of several lines ends with the exception, under its source.
    """
    last = match.start() + len(match[0].rstrip())
    number = log.count("\n", 0, last) + 1
    for line in lines:
        if line.number == number:
            return line
    text = log[log.rfind("\n", 0, last) + 1 :].partition("\n")[0].strip()
    return Line(number, text, 0)


@dataclass(frozen=True)
class _Hit:
    """A rule's match in a text, the line that it explains, and whether that is a message.

    `match` was found in `text` with plain quotes in the place of all others.
    """

    rule: Rule
    match: re.Match[str]
    text: str
    line: Line
    is_message: bool


def _hits(log: str, lines: list[Line], text: str, is_failed: bool) -> Iterator[_Hit]:
    """Yield each rule's first match in a log, the most specific rules first.

    Decisive lines are searched before the whole log, because a traceback shows source with the same
    words. A generic rule matches messages only. The context is searched in the uncleaned `text`.
    """
    plain_log = with_plain_quotes(log)
    plain_lines = [(line, with_plain_quotes(line.text)) for line in lines]
    for rule in _BY_WEIGHT:
        if rule.warning and not lines and not is_failed:
            continue
        if not rule.patterns or not rule.applies_in(text):
            continue
        hit = _message_hit(rule, plain_lines)
        if hit is not None:
            yield hit
        else:
            if WRAPPER <= rule.specificity < GENERIC:
                continue
            # Figures of a successful compile explain no failure of another one.
            if rule.effect == "compiles" and (lines or is_failed):
                continue
            match = rule.search(plain_log)
            if match:
                yield _Hit(rule, match, log, _cause(log, lines, match), False)


def _message_hit(rule: Rule, plain_lines: Iterable[tuple[Line, str]]) -> _Hit | None:
    """Return a rule's first match in decisive lines, given with plain quotes, too."""
    for line, plain in plain_lines:
        if not rule.form or line.form == rule.form:
            match = rule.search(plain)
            if match:
                return _Hit(rule, match, line.text, line, True)
    return None


def _select(hits: Iterable[_Hit]) -> list[_Hit]:
    """Return the hits that name different failures, the decisive one first.

    The most specific rule names a line. A wrapper counts only if no other rule matches, and a
    generic rule only far from a specific one, because both report consequences of the failure.
    """
    by_line: dict[int, _Hit] = {}
    for hit in hits:
        by_line.setdefault(hit.line.number, hit)
    hits_left: list[_Hit] = []
    for hit in by_line.values():
        weight = hit.rule.specificity
        stronger = [other for other in hits_left if other.rule.specificity >= WRAPPER]
        if weight < WRAPPER and stronger:
            continue
        if weight < GENERIC and any(_is_near(hit, other) for other in stronger):
            continue
        hits_left.append(hit)
    # Among equally specific hits the first in the log decides: later errors follow from it.
    return sorted(hits_left, key=lambda hit: (-hit.rule.specificity, hit.line.number))


def _is_near(hit: _Hit, other: _Hit) -> bool:
    return abs(hit.line.number - other.line.number) <= _ONE_FAILURE


def _finding(hit: _Hit, lines: list[Line]) -> Finding:
    function = ""
    if hit.rule.effect != "unknown":
        function = _function(hit.line)
    others = [line.text for line in lines if line is not hit.line]
    confidence = hit.rule.confidence
    if not hit.is_message or hit.match.re in hit.rule.weaker:
        confidence = lower_confidence(confidence)
    return hit.rule.finding(
        without_library_versions(join([hit.line.text, *others])),
        function=function,
        facts=_facts(hit.match, hit.text) | _instantiation(hit.line, lines),
        confidence=confidence,
        line=hit.line.number,
        excerpt=hit.line.text[:_EXCERPT],
    )


def _instantiation(error: Line, lines: list[Line]) -> dict[str, Any]:
    """Return the template arguments with which a C++ error occurs, as a fact."""
    for line in lines:
        is_below = 0 < line.number - error.number <= INSTANTIATION_LINES
        if is_below and line.text.startswith(INSTANTIATION):
            arguments = line.text.removeprefix(INSTANTIATION).removesuffix("]")
            return {"instantiation": without_library_versions(arguments)}
    return {}


def _with_own_words(finding: Finding, lines: list[str]) -> Finding:
    """Return a finding in a translated log with the words of the log itself as its excerpt."""
    line = lines[(finding.line or 1) - 1].strip()
    return replace(finding, excerpt=line[:_EXCERPT])


def read(text: str, is_failed: bool = False) -> list[Finding]:
    """Return the findings in a compiler's raw output, the decisive one first.

    FC000 stands for an unrecognised failure; without a failure the list is empty. `is_failed` is
    True for the output of a compile that is known to have failed: a warning may then be the cause.
    """
    own = clean(text)
    log = translated(own)
    lines = decisive_lines(log)
    findings = [_finding(hit, lines) for hit in _select(_hits(log, lines, text, is_failed))]
    if log != own:
        findings = [_with_own_words(finding, own.splitlines()) for finding in findings]
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
    findings = read(attempt.log, is_failed=True)
    if not findings or findings[0].code == UNCLASSIFIED:
        message = _describe_end(attempt)
        if attempt.signal == "SIGKILL":
            findings.insert(0, RULES[_SIGKILL].finding(message, confidence="likely"))
        elif not findings:
            findings = [RULES[UNCLASSIFIED].finding(join([message]), confidence="possible")]
    if findings[0].code == _SIGKILL and attempt.oom_killed:
        signal = findings.pop(0)
        findings.insert(0, RULES["FC902"].finding(signal.message, facts={"killed": True}))
    if attempt.facts.get("api") and RULES[findings[0].code].specificity < GENERIC:
        # The worker found the name that the release lacks; the message has any words.
        first = findings.pop(0)
        removed = RULES[_REMOVED_API].finding(first.message, function=first.function)
        findings.insert(0, replace(removed, line=first.line, excerpt=first.excerpt))
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
    if attempt.host_error or attempt.signal in _LIMIT_SIGNALS:
        return [_host_finding(attempt, attempt.host_error or str(attempt.signal))]
    return _classify_failure(attempt, keys)


def _host_finding(attempt: Attempt, error: str) -> Finding:
    """Return the finding of an attempt that an error of the machine ended."""
    lines = decisive_lines(clean(attempt.log))
    message = join([line.text for line in lines]) or _describe_end(attempt)
    if error == "SIGKILL" and attempt.oom_killed:
        return RULES["FC902"].finding(message, facts={"killed": True})
    return host_rule(error).finding(without_library_versions(message), facts={"error": error})
