"""The unreduced standalone script's specimen: a cell's kernel cut out with all that it uses, its
launch complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flacheck.engine import loop as scan
from flacheck.errors import Exit, FlacheckError
from flacheck.model import Cell, Json, Outcome
from flacheck.packages.package import Package
from flacheck.repro.compilers import Compilers
from flacheck.repro.kernel.specimen import Specimen


class NotReproduced(FlacheckError):
    """The failure could not be shown by a script of its own."""

    exit_code = Exit.FINDINGS


class Stopped(FlacheckError):
    """Interrupted before there was anything to show."""

    exit_code = Exit.INTERRUPTED


def original(
    cell: Cell, package: Package | None, compilers: Compilers, loading: Iterable[str]
) -> Specimen:
    """The cell as a specimen, cut out under the first of the `loading` releases that can import its
    kernel.

    Raises NotReproduced with the reason when no release can.
    """
    reasons = []
    for release in loading:
        facts, reason = _cut(cell, package, compilers, release)
        if facts is not None:
            return _specimen(cell, facts)
        reasons.append(f"{release}: {reason}")
    raise NotReproduced(
        f"{cell.kernel.name} cannot be cut out of its program; " + "; ".join(reasons[:3])
    )


def _cut(
    cell: Cell, package: Package | None, compilers: Compilers, release: str
) -> tuple[Json | None, str]:
    """What the guest cut out, or why it could not."""
    if "source" in cell.kernel.origin:
        return {
            "text": cell.kernel.origin["source"],
            "qualname": cell.kernel.origin["qualname"],
            "heuristics": {},
        }, ""
    worker = compilers.kind(release, package, "import" in cell.kernel.origin)
    attempt = compilers.ask(worker, {**scan.request(cell), "op": "cut", "until": None})
    if attempt.outcome is not Outcome.FINISHED:
        lines = attempt.log.strip().splitlines()
        return None, lines[-1] if lines else attempt.outcome.value
    return (
        (dict(attempt.facts), "")
        if attempt.facts.get("text")
        else (None, str(attempt.facts.get("reason")))
    )


def _specimen(cell: Cell, facts: Mapping[str, Any]) -> Specimen:
    launch = cell.launch
    given = dict(launch.args) if launch else {}
    heuristics = {name: {"constexpr": value} for name, value in facts["heuristics"].items()}
    return Specimen(
        source=facts["text"],
        name=facts["qualname"],
        args=ordered({**given, **heuristics}, facts["text"], facts["qualname"]),
        target=cell.target,
        options=dict(cell.options),
    )


def ordered(args: Mapping[str, Any], source: str, name: str) -> dict[str, Any]:
    """Arguments in the order of the kernel's parameters; a parameter that has a default need not be
    given.
    """
    whole = Specimen(source, name, dict(args), "sm80")
    arguments = whole.function.args
    names = [a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]
    return {name: args[name] for name in names if name in args}
