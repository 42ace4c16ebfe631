"""The rules by code; the files in `families/` hold the declarations, one family a file."""

import re
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from flacheck.model import Finding
from flacheck.rules.context import LogContext
from flacheck.tables import read_yaml

UNCLASSIFIED = "FC000"


# Rules below this specificity report that something failed, but not what: wrappers of other tools.
WRAPPER = 20
# Rules below this one match any message of a form, such as any failed assertion.
GENERIC = 50
# Families whose messages only Triton prints.
_TOOLS = {"front_end.yaml": "triton", "passes.yaml": "triton", "autotuner.yaml": "triton"}
# Compilers and libraries quote by the language of the system, and with a backtick.
_PLAIN_QUOTES = str.maketrans("`´‘’‚‹›「」“”„«»『』", "'" * 9 + '"' * 7)
_CONFIDENCES = ("certain", "likely", "possible")


@dataclass(frozen=True)
class RuleVariant:
    """The texts of a rule for one vendor, tool or system; an empty field fits any.

    `title`, `bad` and `good` are those of the rule unless they are given.
    """

    cause: str
    remedy: str
    title: str = ""
    vendor: str = ""
    tool: str = ""
    system: str = ""
    bad: tuple[str, ...] | None = None
    good: tuple[str, ...] | None = None

    def fits(self, context: LogContext) -> bool:
        """Return True if the variant is for this context."""
        sides = (self.vendor, self.tool, self.system)
        own = (context.vendor, context.tool, context.system)
        return all(side in ("", value) for side, value in zip(sides, own, strict=True))


@dataclass(frozen=True)
class Rule:
    """One failure code: its patterns in logs, its cause and its remedy.

    `patterns` search a message, then the whole log, in which `^` and `$` are the ends of lines;
    their named groups become facts. `weaker` are patterns that occur with another cause, too: they
    lower the confidence. Of several rules that match a message, the one with the highest
    `specificity` names it. `form` restricts the rule to messages of that form. `context` is a
    pattern that the log must contain as well. `warning` marks a message that programs also print
    when nothing fails. `bad` and `good` are PEP 440 specifiers of compilers (`triton==3.2.0`);
    empty if the cause is not a release. `vendor` and `tool` name the only ones whose logs have the
    failure; the first of the `variants` that fits the context of a log takes the place of the
    rule's own texts. `direction` names the table
    that decides between a release that is too old and one that is too new: `pins` or `names`.
    `effect` is the verdict that follows from the finding: `fails`, `unknown`, `compiles` or
    `advisory`; `shows` is where the failure shows: in a `compile` without a GPU, only `partly`
    there, in a `run` on a GPU, or on this `machine`. `host_errors` are the machine's errors that
    the rule names, as in `Attempt.host_error`. `right_binary` matches messages of compiles that end
    all the same with a right binary, as runs on a GPU showed.
    """

    code: str
    name: str
    title: str
    summary: str
    cause: str
    remedy: str
    patterns: tuple[re.Pattern[str], ...] = ()
    weaker: tuple[re.Pattern[str], ...] = ()
    form: str = ""
    context: re.Pattern[str] | None = None
    bad: tuple[str, ...] = ()
    good: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    specificity: int = 50
    effect: str = "fails"
    shows: str = "compile"
    confidence: str = "certain"
    direction: str = ""
    warning: bool = False
    host_errors: tuple[str, ...] = ()
    vendor: str = ""
    tool: str = ""
    variants: tuple[RuleVariant, ...] = ()
    right_binary: re.Pattern[str] | None = None

    def search(self, log: str) -> re.Match[str] | None:
        """Return the match of the first pattern that matches; None if no pattern does."""
        for pattern in (*self.patterns, *self.weaker):
            match = pattern.search(log)
            if match:
                return match
        return None

    def occurs_in(self, context: LogContext) -> bool:
        """Return True if logs of this context have the failure; Inductor runs Triton."""
        is_tool = self.tool in ("", context.tool)
        if context.tool == "inductor" and self.tool == "triton":
            is_tool = True
        return self.vendor in ("", context.vendor) and is_tool

    def texts_in(self, context: LogContext) -> RuleVariant:
        """Return the cause, the remedy and the releases that fit a context."""
        for variant in self.variants:
            if variant.fits(context):
                bad, good = variant.bad, variant.good
                return replace(
                    variant,
                    bad=self.bad if bad is None else bad,
                    good=self.good if good is None else good,
                )
        return RuleVariant(self.cause, self.remedy, bad=self.bad, good=self.good)

    def applies_in(self, log: str) -> bool:
        """Return True if the log has the context that the rule requires."""
        return self.context is None or self.context.search(log) is not None

    def finding(self, message: str = "", **changes: Any) -> Finding:
        """Return a finding of this rule."""
        plain = {"title": self.title, "confidence": self.confidence, **changes}
        return Finding(self.code, message=message, **plain)


def with_plain_quotes(text: str) -> str:
    """Return a text with `'` and `"` for quotes of every kind; its length stays the same."""
    return text.translate(_PLAIN_QUOTES)


def lower_confidence(confidence: str) -> str:
    """Return the next lower confidence."""
    place = _CONFIDENCES.index(confidence)
    return _CONFIDENCES[min(place + 1, len(_CONFIDENCES) - 1)]


def _load() -> dict[str, Rule]:
    rules = {}
    for family in sorted(files(__package__).joinpath("families").iterdir(), key=str):
        tool = _TOOLS.get(family.name, "")
        for entry in read_yaml(family.read_text(encoding="utf-8")):
            rules[entry["code"]] = _rule({"tool": tool, **entry})
    return dict(sorted(rules.items()))


def _rule(entry: dict[str, Any]) -> Rule:
    for name in ("bad", "good", "links", "host_errors"):
        entry[name] = tuple(entry.get(name, ()))
    for name in ("patterns", "weaker"):
        # A long pattern is a list of parts in the file.
        patterns = [with_plain_quotes("".join(parts)) for parts in entry.get(name, ())]
        entry[name] = tuple(re.compile(pattern, re.MULTILINE) for pattern in patterns)
    entry["variants"] = tuple(map(_variant, entry.get("variants", ())))
    for name in ("context", "right_binary"):
        if name in entry:
            entry[name] = re.compile(entry[name])
    return Rule(**entry)


def _variant(entry: dict[str, Any]) -> RuleVariant:
    for name in ("bad", "good"):
        if name in entry:
            entry[name] = tuple(entry[name])
    return RuleVariant(**entry)


RULES = _load()
# The rule of a host error that no other rule names.
_ANY_HOST_ERROR = "FC905"
_HOST_ERRORS = {name: rule for rule in RULES.values() for name in rule.host_errors}


def host_rule(error: str) -> Rule:
    """Return the rule of an error of the machine."""
    return _HOST_ERRORS.get(error, RULES[_ANY_HOST_ERROR])


def blames_release(code: str) -> bool:
    """Return True if a code's rule names releases that have the failure."""
    return code in RULES and bool(RULES[code].bad)
