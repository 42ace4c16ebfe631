"""A bisection as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from packaging.version import Version

from flacheck.analysis.order import short
from flacheck.bisect.history import Bisection, Change, Entry, Find
from flacheck.inputs.cells import settings
from flacheck.model import Cell
from flacheck.rules import RULES

_LINE = 100


def lines(found: Bisection, torches: Sequence[str]) -> Iterator[str]:
    """The cell, each release that was asked, and last the changes; `torches` are all torch releases
    there are.
    """
    yield from (f"{line}\n" for line in _cell(found.cell))
    yield "\n"
    width = max(len(short(entry.toolchain)) for entry in found.history)
    for entry in found.history:
        yield f"{short(entry.toolchain):{width}}  {_outcome(entry)}".rstrip() + "\n"
    if len(found.history) < found.of:
        yield f"{len(found.history)} of {found.of} releases were asked; --find change asks all\n"
    yield "\n"
    for change in found.changes:
        yield from (f"{line}\n" for line in _change(change, torches))
    if not found.changes:
        yield f"{nothing(found)}\n"


def _cell(cell: Cell) -> Iterator[str]:
    yield f"{cell.kernel.name}" + (f"  ({cell.kernel.package})" if cell.kernel.package else "")
    stage = "" if cell.stage == "compile" else cell.stage
    said = settings(cell.launch.to_json() if cell.launch else None, cell.shape, cell.options)
    yield "  ".join(filter(None, (cell.key[:12], cell.target, cell.dtype or "", said, stage)))


def _outcome(entry: Entry) -> str:
    if entry.fails:
        return f"fails     {entry.code}  {_cut(_cause(entry))}"
    if entry.known:
        return f"compiles  {_seconds(entry)}"
    return f"{entry.verdict.value:8}  {_cut(entry.reason or '')}"


def _cause(entry: Entry) -> str:
    """The decisive line; of a failed assertion the function and what it asserts, without the rest
    of a declaration.
    """
    function, _, asserted = _function(entry), *entry.line.partition("Assertion")[1:]
    return f"{function}: Assertion{asserted}" if function and asserted else entry.line


def _function(entry: Entry) -> str:
    """The bare name of the compiler's function that complained, as the signature has it."""
    return (entry.signature or ":::").split(":")[2].strip("-")


def _seconds(entry: Entry) -> str:
    return f"{entry.seconds:.1f} s" + (
        f", {entry.slow:.0f} times the fastest" if entry.slow else ""
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LINE else text[: _LINE - 1] + "…"


def _change(change: Change, torches: Sequence[str]) -> Iterator[str]:
    before, after = (
        f"{short(entry.toolchain)} {_said(entry)}" for entry in (change.before, change.after)
    )
    sides = [_torch(side, torches) for side in (change.torch_before, change.torch_after)]
    yield f"{before} → {after}; torch {' | '.join(sides)}"
    if change.between:
        yield f"  no verdict under {', '.join(map(short, change.between))}: the change may be there"


def _said(entry: Entry) -> str:
    if entry.fails:
        rule = RULES.get(entry.code or "")
        about = _function(entry) or (rule.title if rule else "")
        return f"fails {entry.code}" + (f" ({about})" if about else "")
    return f"compiles in {_seconds(entry)}" if entry.slow else "compiles"


def _torch(side: Sequence[str], torches: Sequence[str]) -> str:
    """`2.5.*` for all the known releases of a minor version, else each by its name."""
    known = _by_minor(torches)
    words = [
        [f"{minor}.*"] if set(releases) == set(known.get(minor, ())) else list(releases)
        for minor, releases in _by_minor(side).items()
    ]
    return ", ".join(word for some in words for word in some) or "none"


def _by_minor(torches: Sequence[str]) -> Mapping[str, list[str]]:
    ordered = sorted(torches, key=Version)
    return {
        minor: list(some)
        for minor, some in groupby(ordered, lambda t: ".".join(map(str, Version(t).release[:2])))
    }


def nothing(found: Bisection) -> str:
    """Why no change was found."""
    known = [entry for entry in found.history if entry.known]
    own = next((entry for entry in found.history if entry.toolchain == found.cell.toolchain), None)
    if found.find is not Find.CHANGE and own is not None and not own.known:
        return f"{own.toolchain} itself gave no verdict, so nothing can be compared with it: {own.reason}"
    if len(known) < 2:
        return "undecidable: fewer than two releases gave a verdict"
    if found.find is Find.CHANGE:
        return f"nothing changes: all {len(known)} releases that gave a verdict agree"
    fails = own is not None and own.fails
    side = "older" if fails == (found.find is Find.FAIL) else "newer"
    return f"not found: no {side} release {'compiles' if fails else 'fails'}"
