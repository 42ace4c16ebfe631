"""docs/codes.md: a section for each failure code, from its rule. `python -m tests.code_pages` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flacheck.rules import RULES
from flacheck.rules.base import Rule
from tests.rule_logs import evidence

PAGE = Path(__file__).parent.parent / "docs" / "codes.md"
_HEAD = """\
# Failure codes

`flacheck explain CODE` prints the same; `flacheck explain LOG` finds the code of a log. Codes are stable. This page is
generated from `flacheck/rules/families/` by `python -m tests.code_pages`.
"""
_SHOWS = {
    "compile": "a compile without a GPU",
    "partly": "a compile without a GPU, for resources over a limit",
    "run": "a run on the GPU",
    "machine": "this machine",
}


def _section(rule: Rule) -> Iterator[str]:
    yield f"\n## {rule.code} {rule.name}\n"
    yield f"**{rule.title}** · {rule.confidence} · shown by {_SHOWS[rule.shows]}\n"
    yield f"{rule.summary}\n"
    yield f"- Cause: {rule.cause}"
    yield f"- Remedy: {rule.remedy}"
    for variant in rule.variants:
        where = ", ".join(filter(None, (variant.vendor, variant.tool, variant.system)))
        yield f"- Remedy ({where}): {variant.remedy}"
    if rule.bad:
        yield f"- Fails: `{'`, `'.join(rule.bad)}`"
    if rule.good:
        yield f"- Works: `{'`, `'.join(rule.good)}`"
    for link in rule.links:
        yield f"- See <{link}>"
    reports = [name for code, name in evidence("golden") if code == rule.code and "#" in name]
    for report in reports:
        repository, _, number = report.partition("#")
        link = f"https://github.com/{repository}/issues/{number}"
        if link not in rule.links:
            yield f"- Reported in <{link}>"


def page() -> str:
    """The whole page."""
    lines = [_HEAD.rstrip("\n")]
    for rule in RULES.values():
        lines.extend(_section(rule))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
