"""The report of a reproduction: the reduced kernel, and how certain the result is."""

from collections.abc import Iterator
from pathlib import Path

from flacheck.capabilities.repro.output.result import Reproduced
from flacheck.capabilities.repro.output.script import kernel_text
from flacheck.capabilities.repro.versions import differing, join_versions
from flacheck.evidence.analysis.order import count_noun
from flacheck.reports.document import Item, Listing, Paragraph, Part, Report, Tone
from flacheck.reports.numbers import in_words

# The meaning of a script's exit status for a release.
_EXITS = ((0, "shows it"), (1, "does not show it"), (125, "cannot tell"))


def report(result: Reproduced, folder: Path, files: list[str]) -> Report:
    """Return the document of a reproduction; `files` are the names written into the folder."""
    return Report(_parts(result, folder), in_words(result.to_json(files)))


def _parts(result: Reproduced, folder: Path) -> Iterator[Part]:
    before, after, effort = result.original, result.reduction, result.effort
    yield Listing(kernel_text(after).rstrip("\n"), "python")
    cost = f"{count_noun(effort.candidates, 'candidate')}, {count_noun(effort.ran, 'compile')}"
    size = f"{before.lines} lines to {after.lines}, {before.nodes} nodes to {after.nodes}"
    yield Paragraph(f"{size}: {cost}, {effort.seconds:.0f} s")
    if not result.complete:
        early = "the search or the verification was ended early: this is the best so far"
        yield Paragraph(early, Tone.DOUBT)
    if result.lost_neighbours:
        names = join_versions(result.lost_neighbours)
        yield Paragraph(f"this may be another bug: it differs on {names}", Tone.DOUBT)
    if effort.slips:
        candidates = count_noun(effort.slips, "smaller candidate")
        yield Paragraph(
            f"{candidates} rejected: a different error, or a failure on a release that must compile"
        )
    runs = f"{result.runs} fresh processes on {result.cell.toolchain}"
    yield Paragraph(f"{folder / 'repro.py'} shows the failure in {runs}", Tone.STRONG)
    yield from _releases(result)


def _releases(result: Reproduced) -> Iterator[Part]:
    for status, words in _EXITS:
        names = [name for name, exit_status in result.exits.items() if exit_status == status]
        if names:
            yield Item(f"{words}: {join_versions(names)}")
    if result.lost_releases:
        text = f"the original fails like this on {join_versions(result.lost_releases)} too"
        yield Paragraph(f"{text}; the script does not show it there", Tone.DOUBT)
    others = differing(result.original_table, result.reduced_table)
    if others:
        yield Paragraph(f"differs from the original on {join_versions(others)}", Tone.DOUBT)
