"""docs/reference/failures.md: every failure class in the published results, and whose it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from flacheck.evidence.analysis.order import by_version, split
from flacheck.evidence.published.library import open_library
from flacheck.rules import RULES
from tests.paths import ROOT

_JUDGEMENTS = ROOT / "tests" / "published_failures.yaml"
_HEAD = """\
# Published failures

This page is generated from `results/` and `tests/published_failures.yaml` by `python -m tests.reference_pages`.
`flacheck known PACKAGE` names the kernels. [Findings](../findings.md) has those that nobody had reported.

| code | failure | package | kernels | Triton | whose | reported |
|---|---|---|---|---|---|---|
"""


@dataclass
class _Failures:
    """The failures of a package with one code."""

    kernels: set[str] = field(default_factory=set)
    releases: set[str] = field(default_factory=set)
    is_made_up: bool = True
    is_tolerated: bool = True


def page() -> Iterator[str]:
    """Yield the page: a row for each code and package, and what the compiles cost."""
    library = open_library(ROOT / "results")
    judgements = yaml.safe_load(_JUDGEMENTS.read_text(encoding="utf-8"))
    failures: dict[tuple[str, str], _Failures] = {}
    seconds = cells = 0.0
    for entry in library.entries():
        body = library.body(entry)
        for cell in body.cells:
            seconds, cells = seconds + cell.seconds, cells + 1
            outcome = body.outcomes[cell.outcome]
            if outcome.verdict == "fails":
                own = failures.setdefault((outcome.code or "FC000", entry.about), _Failures())
                own.kernels.add(body.kernels[cell.kernel].name)
                own.releases.add(split(entry.toolchain)[1])
                own.is_made_up &= cell.is_made_up
                own.is_tolerated &= outcome.is_tolerated
    yield _HEAD
    for (code, about), own in sorted(failures.items()):
        yield _row(code, about, own, judgements)
    yield (
        f"\n## What the board costs\n\nIts {len(library.entries())} files hold {cells:,.0f} cells. "
        f"Compiling them took {seconds / 3600:.1f} hours in one process at a time; installing and "
        "capturing the packages come on top and are not in the records.\n"
    )


def _row(code: str, about: str, own: _Failures, judgements: dict[str, Any]) -> str:
    judgement = judgements["codes"].get(code, {"whose": "not looked at"})
    whose = judgement["whose"]
    report = judgements["reports"].get(f"{about.partition('==')[0]} {code}", "")
    if own.is_tolerated:
        whose = "nobody's: the autotuner drops the configuration"
    elif own.is_made_up and not judgement.get("always") and not report:
        whose = "flacheck: invented arguments"
    elif not report:
        report = next(iter(RULES[code].links), "")
        report = f"like <{report}>" if report else "not found"
    links = f"<{report}>" if report.startswith("https") else report
    if report.startswith("../"):
        links = f"[finding]({report})"
    releases = ", ".join(sorted(own.releases, key=by_version))
    name = about.replace("==", " ")
    cells = (f"[{code}](../codes.md#{_anchor(code)})", RULES[code].title, name)
    return f"| {' | '.join(cells)} | {len(own.kernels)} | {releases} | {whose} | {links or '–'} |\n"


def _anchor(code: str) -> str:
    return f"{code} {RULES[code].name}".lower().replace(" ", "-")
