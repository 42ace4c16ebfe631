"""Explanations: the texts of a rule with its finding in a log."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from msgspec import Meta

from flacheck.errors import UsageError
from flacheck.model import Finding, Json
from flacheck.model.wire import Code, Count, JsonStruct
from flacheck.rules import context, direction, log_advisories, log_facts, next_steps
from flacheck.rules.base import GENERIC, RULES, UNCLASSIFIED, WRAPPER, Rule, with_plain_quotes
from flacheck.rules.classify import read
from flacheck.rules.context import LogContext
from flacheck.rules.decisive import clean, decisive_lines, is_wrapper
from flacheck.rules.excerpts import Excerpt
from flacheck.rules.signature import normalise
from flacheck.rules.translations import translated
from flacheck.tables.advisories import Advisory, PublishedAdvisory

# Codes that an explanation names beside its own.
_MOST_OTHERS = 3
_CERTAINTY = {
    "certain": "this message occurs with this cause only",
    "likely": "this message mostly has this cause",
    "possible": "this message has other causes, too",
}
_WRAPPER_REASON = (
    "the message reports that something failed, but not what; its cause is not in the log"
)
_EVIDENCE = {
    "compile": "a compile without a GPU shows it",
    "partly": "a compile without a GPU shows resources over a limit, and not the rest",
    "run": "only a run on the GPU shows it",
    "machine": "it depends on this machine; a compile elsewhere does not show it",
}
# Programs of a CUDA toolkit, or a file of CUDA C++ with an error.
_CUDA_BUILD = re.compile(r"\b(?:nvcc|ptxas|nvlink|cudafe\+\+|cicc)\b|\.cuh?(?:\(\d+\)|:\d+:)")
_BUILD_ERROR = re.compile(
    r"^[^\s(][^\n(]*\(\d+\): (?:catastrophic |internal )?error\b|:\d+: (?:fatal )?error: "
    r"|\b(?:nvcc|ptxas|nvlink|cicc|cudafe\+\+|fatbinary)[^\n]{0,500}?\b(?:error|fatal)\b\s*:"
    r"|\bld(?:\.\w+)?: "
)
_EXCERPT = 300
_COMMON_WORDS = frozenset("the a an of in to for and is not on with this that it".split())


class SpecifierSides(JsonStruct, frozen=True):
    """Specifiers of releases with a failure, and of releases without it."""

    bad: tuple[str, ...]
    good: tuple[str, ...]


class ExplainedFinding(JsonStruct, frozen=True):
    """A finding in a log; `line` counts from 1 and is null for a code without a log."""

    code: Code
    title: str
    confidence: Annotated[str, Meta(min_length=1)]
    line: Count | None
    excerpt: str
    cause: str
    remedy: str
    versions: SpecifierSides
    facts: Mapping[str, Any]


class UnexplainedErrors(JsonStruct, frozen=True):
    """The errors of a CUDA build that no specific rule matches, and the first of them."""

    count: Annotated[int, Meta(ge=1)]
    line: Count
    excerpt: str


class ExplainDocument(JsonStruct, frozen=True):
    """The failures in a log, the decisive finding first; an unknown failure is one of FC000.

    `advisories` are reports of kernels that compile and then go wrong, which match the log.
    `unexplained_errors` is null if each error of a CUDA build has a specific rule, and for other
    logs.
    """

    schema: Literal["flacheck.explain/1"]
    findings: tuple[ExplainedFinding, ...]
    advisories: tuple[PublishedAdvisory, ...]
    unexplained_errors: UnexplainedErrors | None = None


@dataclass(frozen=True)
class Explanation:
    """One finding with its rule's cause, remedy, versions and links.

    `line` is None for a code without a log. `why` gives the reason for the confidence, `others` the
    codes that would also fit. `next` holds commands that check the explanation, `lacks` the facts
    that such commands need and the log does not have, `log` the facts of the whole log, and `file`
    the log's name in an archive or a folder.
    """

    code: str
    title: str
    confidence: str
    line: int | None
    excerpt: str
    cause: str
    remedy: str
    bad: tuple[str, ...]
    good: tuple[str, ...]
    links: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    others: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    log: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""


def of_code(code: str) -> list[Explanation]:
    """Return the explanation of a code; for an unknown code raise UsageError with those known."""
    if code not in RULES:
        raise UsageError(f"no failure code {code}: known are {', '.join(sorted(RULES))}")
    explanation = _explain(RULES[code].finding(), {}, LogContext())
    return [replace(explanation, why=_EVIDENCE[RULES[code].shows], next=(), lacks=())]


def of_log(text: str) -> list[Explanation]:
    """Return the findings in a compiler's output, the decisive one first."""
    return of_excerpts([Excerpt(1, text)])


def of_excerpts(excerpts: Sequence[Excerpt], file: str = "") -> list[Explanation]:
    """Return the findings in the parts of a log, the decisive one first."""
    text = "\n".join(excerpt.text for excerpt in excerpts)
    facts = log_facts.of_log(text)
    findings: list[Finding] = []
    for excerpt in excerpts:
        for finding in read(excerpt.text):
            line = (finding.line or 1) + excerpt.line - 1
            findings.append(replace(finding, line=line))
    explanations = []
    for finding in select(findings):
        where = context.of_log(finding.excerpt or finding.message, text)
        explanations.append(_explain(finding, facts, where))
    return [replace(explanation, file=file) for explanation in explanations]


def advisories_of(excerpts: Sequence[Excerpt]) -> list[Advisory]:
    """Return the advisories that the parts of a log match."""
    return log_advisories.of_log("\n".join(excerpt.text for excerpt in excerpts))


def find_unexplained(excerpts: Sequence[Excerpt]) -> UnexplainedErrors | None:
    """Return the compilers' and linkers' errors in a CUDA build that no specific rule matches.

    An error that occurs in several units or instantiations counts once.
    """
    if not any(map(_CUDA_BUILD.search, (excerpt.text for excerpt in excerpts))):
        return None
    by_message: dict[str, tuple[int, str]] = {}
    for excerpt in excerpts:
        for line in decisive_lines(translated(clean(excerpt.text))):
            if _BUILD_ERROR.search(line.text) and not _has_specific_rule(line.text):
                place = (line.number + excerpt.line - 1, line.text)
                by_message.setdefault(normalise(line.text), place)
    if not by_message:
        return None
    number, text = min(by_message.values())
    return UnexplainedErrors(len(by_message), number, text[:_EXCERPT])


def add_unexplained(
    first: UnexplainedErrors | None, second: UnexplainedErrors | None
) -> UnexplainedErrors | None:
    """Return the errors of two logs together."""
    if first is None or second is None:
        return first or second
    return UnexplainedErrors(first.count + second.count, first.line, first.excerpt)


def _has_specific_rule(error: str) -> bool:
    rules = [rule for rule in RULES.values() if rule.specificity >= GENERIC]
    plain = with_plain_quotes(error)
    return is_wrapper(error) or any(rule.search(plain) for rule in rules)


def select(findings: Iterable[Finding]) -> list[Finding]:
    """Return one finding a code, the decisive one first.

    Wrappers and unrecognised failures count only where nothing else does.
    """
    by_code: dict[str, Finding] = {}
    for finding in findings:
        by_code.setdefault(finding.code, finding)
    causes = [found for found in by_code.values() if RULES[found.code].specificity >= WRAPPER]
    return sorted(causes or by_code.values(), key=_weight)


def merge(by_file: Mapping[str, Sequence[Explanation]]) -> list[Explanation]:
    """Return the explanations of several logs, each code once, the decisive one first."""
    by_code: dict[str, Explanation] = {}
    for explanations in by_file.values():
        for explanation in explanations:
            if len(by_file) == 1:
                explanation = replace(explanation, file="")
            by_code.setdefault(explanation.code, explanation)
    causes = [found for found in by_code.values() if RULES[found.code].specificity >= WRAPPER]
    candidates = causes or list(by_code.values())
    return sorted(candidates, key=lambda found: -RULES[found.code].specificity)


def _weight(finding: Finding) -> tuple[int, int]:
    return -RULES[finding.code].specificity, finding.line or 0


def _explain(finding: Finding, log: Mapping[str, Any], where: LogContext) -> Explanation:
    """Return a finding with the texts of its rule that fit the log's context."""
    rule = RULES[finding.code]
    texts = rule.texts_in(where)
    cause, remedy, confidence = texts.cause, texts.remedy, finding.confidence
    bad, good = texts.bad or (), texts.good or ()
    choice = direction.decide(rule, finding.facts, log)
    if choice:
        cause, remedy = choice.cause, choice.remedy
        bad, good = choice.bad, choice.good
    elif rule.direction and not rule.bad and finding.line:
        confidence = "possible"
    others = _others(rule, finding)
    facts = {**log, **_own_facts(finding)}
    return Explanation(
        code=finding.code,
        title=texts.title or finding.title,
        confidence=confidence,
        line=finding.line,
        excerpt=finding.excerpt or finding.message,
        cause=cause,
        remedy=remedy,
        bad=bad,
        good=good,
        links=_links(rule, finding, log),
        facts=finding.facts,
        why=_why(rule, confidence, others),
        others=others,
        next=tuple(next_steps.commands(rule, facts)),
        lacks=tuple(next_steps.find_missing_facts(rule, facts)),
        log=log,
    )


def _own_facts(finding: Finding) -> dict[str, Any]:
    """Return the facts of a message that name what a command selects."""
    return {name: finding.facts[name] for name in ("kernel",) if name in finding.facts}


def _links(rule: Rule, finding: Finding, log: Mapping[str, Any]) -> tuple[str, ...]:
    if rule.code != UNCLASSIFIED:
        return rule.links
    is_tritons = "triton" in log or "triton" in finding.message.lower()
    if not is_tritons:
        return ()
    return (next_steps.report_link(finding.message, log),)


def _why(rule: Rule, confidence: str, others: Sequence[str]) -> str:
    """Return the reason for the confidence, and where the failure shows."""
    if rule.code == UNCLASSIFIED:
        reason = "no rule matches"
        if others:
            reason += f"; the nearest are {', '.join(others)}"
        return reason
    reason = _CERTAINTY[confidence]
    if rule.specificity < WRAPPER:
        reason = _WRAPPER_REASON
    if others:
        reason += f"; {', '.join(others)} would also fit"
    return f"{reason}; {_EVIDENCE[rule.shows]}"


def _others(rule: Rule, finding: Finding) -> tuple[str, ...]:
    """Return the codes of other rules that match the line; the nearest ones if no rule does."""
    if not finding.excerpt:
        return ()
    if rule.code == UNCLASSIFIED:
        return _nearest(finding.message)
    codes = []
    excerpt = with_plain_quotes(finding.excerpt)
    for other in RULES.values():
        is_specific = other.specificity >= GENERIC
        if other is not rule and is_specific and other.search(excerpt):
            codes.append(other.code)
    return tuple(codes[:_MOST_OTHERS])


def _nearest(message: str) -> tuple[str, ...]:
    """Return the codes whose title and summary share most words with a message."""
    words = set(message.lower().split()) - _COMMON_WORDS
    shares = []
    for rule in RULES.values():
        own = set(f"{rule.title} {rule.summary}".lower().split()) - _COMMON_WORDS
        common = len(words & own)
        if common and rule.patterns:
            shares.append((-common / len(own), rule.code))
    return tuple(code for _, code in sorted(shares)[:_MOST_OTHERS])


def to_json(
    explanations: Sequence[Explanation],
    advisories: Sequence[Advisory] = (),
    unexplained_errors: UnexplainedErrors | None = None,
) -> Json:
    """Return the document flacheck.explain/1."""
    document = ExplainDocument(
        "flacheck.explain/1",
        tuple(map(_published, explanations)),
        tuple(advisory.published() for advisory in advisories),
        unexplained_errors,
    )
    return document.to_json()


def _published(explanation: Explanation) -> ExplainedFinding:
    facts = dict(explanation.facts)
    for name in ("why", "others", "next", "lacks", "log", "file"):
        value = getattr(explanation, name)
        if value:
            facts[name] = value
    versions = SpecifierSides(explanation.bad, explanation.good)
    return ExplainedFinding.from_value(explanation, versions=versions, facts=facts)
