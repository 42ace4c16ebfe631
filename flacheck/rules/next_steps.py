"""The commands that check an explanation, ready to paste, and what a log lacks for them."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from flacheck.rules.base import UNCLASSIFIED, Rule
from flacheck.tables import table
from flacheck.tables.targets import TARGETS

_REPORT = "https://github.com/triton-lang/triton/issues/new?"
_TITLE, _BODY = 150, 1_500
# Failures of dtypes, which `flacheck dtypes` follows through a package's layers.
_DTYPES = ("FC701", "FC703", "FC704")
# Failures that a known miscompile shows as: wrong results, and accesses beyond a tensor.
_MISCOMPILES = ("FC702", "FC705", "FC916", "FC917")
# Failures of the driver, or of what it loads.
_DRIVER = ("FC919", "FC932")
# What a compile needs of a log, and what prints it.
_PACKAGE = "the package and its version (`pip list`)"
_SUBJECT = f"{_PACKAGE}, or the traceback of the program"
_NEEDS = {
    "triton": "the release of Triton (`pip show triton`)",
    "target": "the GPU (`nvidia-smi`, `rocminfo`)",
}
# Where `flacheck capture` writes.
_LAUNCHES = "launches.jsonl"


def commands(rule: Rule, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield commands that check whether a rule's failure is the cause, by the facts of a log.

    A compile is proposed for what the log names: a package's kernels, or the launches of a program.
    """
    if rule.shows == "machine" or rule.code in _DRIVER:
        # Releases that do not fit together, or a fault of the machine.
        yield "flacheck check" if rule.direction else "flacheck doctor"
    elif rule.code in _DTYPES:
        if "package" in facts:
            yield shlex.join(["flacheck", "dtypes", "--package", facts["package"]])
    elif rule.code in _MISCOMPILES:
        yield "flacheck list advisories"
    elif rule.code.startswith("FC8"):
        yield "flacheck toolchain list"
    elif _is_shown_by_a_compile(rule):
        yield from _compiles(facts)
    elif rule.code != UNCLASSIFIED:
        yield f"flacheck explain {rule.code}"


def find_missing_facts(rule: Rule, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a log does not name and the commands of a rule need."""
    has_subject = "package" in facts or "script" in facts
    if rule.code in _DTYPES and "package" not in facts:
        yield _PACKAGE
    if not _is_shown_by_a_compile(rule):
        return
    if not has_subject:
        yield _SUBJECT
    for name, text in _NEEDS.items():
        if name not in facts:
            yield text


def _is_shown_by_a_compile(rule: Rule) -> bool:
    """Return True if a compile of the kernel under Triton shows the rule's failure."""
    is_other = rule.code == UNCLASSIFIED or rule.code.startswith("FC8")
    return rule.shows in ("compile", "partly") and not is_other


def _compiles(facts: Mapping[str, Any]) -> Iterator[str]:
    selection = []
    if facts.get("target") in TARGETS:
        selection = ["--target", facts["target"]]
    release = []
    if str(facts.get("triton")) in map(str, table("triton_releases")["releases"]):
        release = ["--triton", facts["triton"]]
    if "package" not in facts:
        if "script" in facts:
            yield from _records(facts, [*release, *selection])
        return
    subject = ["--package", facts["package"]]
    if "kernel" in facts:
        subject += ["--kernel", facts["kernel"]]
    yield shlex.join(["flacheck", "scan", *subject, *release, *selection])
    yield shlex.join(["flacheck", "bisect", *subject, *release, *selection])
    yield shlex.join(["flacheck", "repro", *subject, *release, *selection])


def _records(facts: Mapping[str, Any], selection: list[str]) -> Iterator[str]:
    """Yield the commands that record a program's launches and compile them."""
    device = []
    if facts.get("target") in TARGETS:
        # A library chooses its kernels by the card.
        device = ["--device", facts["target"]]
    yield shlex.join(["flacheck", "capture", *device, "--", "python", facts["script"]])
    yield shlex.join(["flacheck", "scan", _LAUNCHES, *selection])


def report_link(message: str, facts: Mapping[str, Any]) -> str:
    """Return a link that opens an issue about an unrecognised failure at the compiler's tracker."""
    title = message.partition("\n")[0][:_TITLE]
    lines = [f"{name}: {value}" for name, value in facts.items()]
    body = "\n".join(["```", message[:_BODY], "```", *lines])
    return _REPORT + urlencode({"title": title, "body": body})
