"""The commands that check an explanation, complete and ready to paste."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from flacheck.rules.base import UNCLASSIFIED, Rule
from flacheck.tables import table

_REPORT = "https://github.com/triton-lang/triton/issues/new?"
_TITLE, _BODY = 150, 1_500
# Where `flacheck capture` writes.
_LAUNCHES = "launches.jsonl"


def commands(rule: Rule, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield commands that check whether a rule's failure is the cause, by the facts of a log.

    A compile is proposed for what the log names: a package's kernels, or the launches of a program.
    """
    if rule.code == UNCLASSIFIED:
        return
    if rule.shows == "machine":
        yield "flacheck doctor"
        if rule.direction:
            yield "flacheck gate"
    elif rule.shows == "run":
        yield "flacheck list advisories"
    elif rule.code.startswith("FC8"):
        yield "flacheck toolchain list"
    else:
        yield from _compiles(facts)
    yield f"flacheck explain {rule.code}"


def _compiles(facts: Mapping[str, Any]) -> Iterator[str]:
    selection = []
    if "target" in facts:
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
    yield shlex.join(["flacheck", "bisect", *subject, *selection])
    yield shlex.join(["flacheck", "repro", *subject, *release, *selection])


def _records(facts: Mapping[str, Any], selection: list[str]) -> Iterator[str]:
    """Yield the commands that record a program's launches and compile them."""
    device = []
    if "target" in facts:
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
