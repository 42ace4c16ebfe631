"""The failure from Triton's own IR, where it does not need Python any more."""

from __future__ import annotations

import re

from flacheck.engine import loop as scan
from flacheck.engine.judge import judge
from flacheck.model import Outcome
from flacheck.repro.compilers import Compilers
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.oracle import Failure


def surviving(
    specimen: Specimen, release: str, failure: Failure, compilers: Compilers
) -> str | None:
    """The specimen's TTIR when compiling that fails in the same way, else None."""
    if specimen.stage != "compile":
        return None
    cell = specimen.cell(release)
    kind, request = compilers.kind(release), scan.request(cell)
    shown = compilers.ask(kind, {**request, "op": "show", "until": "ttir"})
    text = shown.facts.get("ttir") if shown.outcome is Outcome.FINISHED else None
    if not text:
        return None
    text = without_locations(text)
    attempt = compilers.ask(kind, {**request, "op": "compile_ir", "ir": text, "until": None})
    return text if failure(judge(cell, attempt)) else None


def without_locations(text: str) -> str:
    """IR without the places of its source, which name files of the machine it was made on."""
    lines = [line for line in text.splitlines() if not line.startswith("#loc")]
    plain = [re.sub(r"\s*loc\((?:[^()]|\([^()]*\))*\)", "", line) for line in lines]
    return "\n".join(plain).strip() + "\n"
