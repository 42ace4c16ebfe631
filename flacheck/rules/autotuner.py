"""FC6xx: the autotuner and its keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flacheck.model import Finding
from flacheck.rules.base import FLA_ISSUES, Rule, text

# Frames of the autotuner itself may stand between the call and the exception (a list comprehension
# has its own frame before Python 3.12); a frame of another file means that the caller's code
# raised, not the key lookup.
_OWN_FRAMES = r"(?:(?!\s*File \"(?![^\"\n]*autotuner\.py\"))[^\n]*\n){0,8}?"

_REMEDY = (
    "Use Triton 3.2.0 or newer, which looks keys up by name, or move the tuned parameters behind all keys in the "
    "kernel's signature."
)

PAST_END = Rule(
    code="FC601",
    name="key-past-end",
    title="an autotune key points past the end of the arguments",
    summary="The first launch raises IndexError before any configuration is tried.",
    cause="Triton up to 3.1 finds a key by its position among all parameters, but looks it up in a list without the "
    "omitted ones (the tuned constexprs); a key behind enough of them lies past the end.",
    remedy=_REMEDY,
    patterns=text(
        rf"autotuner\.py\", line \d+, in \S+\n{_OWN_FRAMES}(?:\w+\.)*IndexError: (?:list|tuple) index out of range",
    ),
    bad=("triton<3.2.0",),
    good=("triton>=3.2.0",),
    links=(
        f"{FLA_ISSUES}/354",
        f"{FLA_ISSUES}/67",
        "https://github.com/triton-lang/triton/pull/4046",
    ),
    specificity=85,
)
SHIFTED = Rule(
    code="FC602",
    name="key-shifted",
    title="an autotune key silently reads another argument",
    summary="The kernel runs, but it is tuned by the wrong values.",
    cause="Triton up to 3.1 finds a key by its position among all parameters, but looks it up in a list without the "
    "omitted ones: every key behind an omitted parameter reads a later argument.",
    remedy=_REMEDY,
    bad=("triton<3.2.0",),
    good=("triton>=3.2.0",),
    links=(f"{FLA_ISSUES}/354", "https://github.com/triton-lang/triton/pull/4046"),
    specificity=60,
)
NO_ARGUMENT = Rule(
    code="FC603",
    name="key-no-argument",
    title="an autotune key is not an argument of the kernel",
    summary="The decorator raises ValueError as soon as the module is imported.",
    cause="The key list names something that the kernel does not take. Older releases dropped such a name silently; "
    "Triton 3.9.0 refuses it.",
    remedy="Remove the name from the key list, or correct it to the parameter that was meant.",
    patterns=text(
        r"ValueError: key contains names that are not kernel arguments: (?P<names>[^\n]*?)\. Valid"
    ),
    bad=("triton>=3.9.0",),
    good=("triton<3.9.0",),
    specificity=85,
)
AUTOTUNER = (PAST_END, SHIFTED, NO_ARGUMENT)
_BY_FAULT = {"past-end": PAST_END, "shifted": SHIFTED, "no-argument": NO_ARGUMENT}


def _one_key(key: Mapping[str, Any]) -> str:
    got = key.get("got")
    return f"{key['key']} reads {got}" if got else f"{key['key']} reads nothing"


def _finding(rule: Rule, keys: list[Mapping[str, Any]]) -> Finding:
    """One finding for all keys of one fault, which its title names."""
    names = ", ".join(str(key["key"]) for key in keys)
    message = "autotune keys: " + "; ".join(_one_key(key) for key in keys)
    return rule.finding(
        message, title=f"{rule.title}: {names}", facts={"keys": [dict(key) for key in keys]}
    )


def key_findings(keys: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Findings for `{"key", "want", "got", "fault"}` as an autotuner run reports them, run-ending
    faults first.
    """
    found = list(keys)
    grouped = {fault: [key for key in found if key.get("fault") == fault] for fault in _BY_FAULT}
    return [_finding(_BY_FAULT[fault], of_fault) for fault, of_fault in grouped.items() if of_fault]
