"""The report of a bisection: the cell, the verdict of each release, and the changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from packaging.version import Version

from flacheck.capabilities.bisect.history import Bisection, Change, Entry, Find
from flacheck.evidence.analysis.order import short
from flacheck.pipeline.resolved_cell import settings
from flacheck.reports import phrases
from flacheck.reports.document import Item, Paragraph, Part, Report, Table, Tone, Words, row
from flacheck.reports.numbers import in_words
from flacheck.reports.phrases import beside
from flacheck.rules import RULES

# Messages of MLIR run to several hundred characters; the table is to be read at a glance.
_LINE = 100


def report(bisection: Bisection) -> Report:
    """Return the document of a bisection."""
    return Report(_parts(bisection, bisection.torches), in_words(bisection.to_json()))


def _parts(bisection: Bisection, torches: Sequence[str]) -> Iterator[Part]:
    cell = bisection.cell
    yield Paragraph(beside(cell.kernel.name, cell.kernel.package), Tone.STRONG)
    words = [cell.key[:12], cell.target, cell.dtype, settings(cell)]
    if cell.stage != "compile":
        words.append(cell.stage)
    yield Paragraph("  ".join(filter(None, words)))
    rows = []
    for entry in bisection.history:
        rows.append(_row(entry, bisection.lines.get(entry.toolchain, "")))
    yield Table(("release", "verdict", "code", ""), tuple(rows))
    if len(bisection.history) < bisection.of:
        count = f"{len(bisection.history)} of {bisection.of} releases were tested"
        yield Paragraph(f"{count}; --every tests all")
    if bisection.supported_from:
        yield Paragraph(f"{cell.target} is supported from {bisection.supported_from} on")
    for change in bisection.changes:
        yield _change(change, torches)
    if not bisection.changes:
        yield Paragraph(_nothing(bisection))
    elif cell.kernel.language != "cuda":
        yield from phrases.items("Next", [f"flacheck repro {cell.key[:12]}"], code=True)


def _row(entry: Entry, line: str) -> tuple[Words, ...]:
    release = short(entry.toolchain)
    if entry.fails:
        _, word, assertion = line.partition("Assertion")
        # A failed assertion is shown as function and condition, without the full declaration.
        if _function(entry) and word:
            line = f"{_function(entry)}: {word}{assertion}"
        verdict = Words("fails", Tone.BAD)
        return row(release, verdict, entry.code or "", Words(_cut(line), code=True))
    if entry.has_verdict:
        return row(release, Words("compiles", Tone.GOOD), "", _seconds(entry))
    return row(release, Words(entry.verdict.value, Tone.DOUBT), "", _cut(entry.reason or ""))


def _function(entry: Entry) -> str:
    """Return the bare name of the compiler's function that failed, from the signature."""
    return (entry.signature or ":::").split(":")[2].strip("-")


def _seconds(entry: Entry) -> str:
    if entry.slow:
        return f"{entry.seconds:.1f} s, {entry.slow:.0f} times the fastest"
    return f"{entry.seconds:.1f} s"


def _cut(text: str) -> str:
    if len(text) <= _LINE:
        return text
    return text[: _LINE - 1] + "…"


def _change(change: Change, torches: Sequence[str]) -> Item:
    before = f"{short(change.before.toolchain)} {_describe(change.before)}"
    after = f"{short(change.after.toolchain)} {_describe(change.after)}"
    sides = f"{_torch(change.torch_before, torches)} | {_torch(change.torch_after, torches)}"
    line = Item(f"{before} → {after}; torch {sides}", Tone.STRONG)
    if not change.between:
        return line
    between = ", ".join(map(short, change.between))
    return replace(line, notes=(f"no verdict under {between}: the change may be there",))


def _describe(entry: Entry) -> str:
    if entry.fails:
        about = _function(entry)
        if not about and entry.code in RULES:
            about = RULES[entry.code].title
        return beside(f"fails {entry.code}", about)
    if entry.slow:
        return f"compiles in {_seconds(entry)}"
    return "compiles"


def _torch(side: Sequence[str], torches: Sequence[str]) -> str:
    """Return `2.5.*` for all releases of a minor version, else the names of the releases."""
    all_releases, words = _by_minor(torches), list[str]()
    for minor, releases in _by_minor(side).items():
        if set(releases) == set(all_releases.get(minor, ())):
            releases = [f"{minor}.*"]
        words += releases
    return ", ".join(words) or "none"


def _by_minor(torches: Sequence[str]) -> Mapping[str, list[str]]:
    releases: dict[str, list[str]] = {}
    for torch in sorted(torches, key=Version):
        version = Version(torch)
        releases.setdefault(f"{version.major}.{version.minor}", []).append(torch)
    return releases


def _nothing(bisection: Bisection) -> str:
    """Return the reason why the search found no change."""
    with_verdict = []
    own = None
    for entry in bisection.history:
        if entry.has_verdict:
            with_verdict.append(entry)
        if entry.toolchain == bisection.cell.toolchain:
            own = entry
    if bisection.find is not Find.CHANGE and own is not None and not own.has_verdict:
        return f"{own.toolchain} itself gave no verdict to compare with: {own.reason}"
    if len(with_verdict) < 2:
        return "undecidable: fewer than two releases gave a verdict"
    if bisection.find is Find.CHANGE:
        return f"nothing changes: all {len(with_verdict)} releases that gave a verdict agree"
    fails = own is not None and own.fails
    # The change that broke a failing cell, or fixed a compiling one, lies before it.
    side, other = "newer", "fails"
    if fails == (bisection.find is Find.FAIL):
        side = "older"
    if fails:
        other = "compiles"
    return f"not found: no {side} release {other}"
