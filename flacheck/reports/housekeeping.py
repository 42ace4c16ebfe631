"""The reports of `flacheck cache` and `flacheck runs`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flacheck.model.housekeeping import Action, CacheEntry, CacheListing, RunEntry, RunListing
from flacheck.reports.document import Fit, Paragraph, Part, Report, Table, Words, row

_MEGABYTE = 1e6
_HOURS_A_DAY = 24


def cache_report(listing: CacheListing) -> Report:
    """Return the report of the cache, or of a removal."""
    return Report(_cache_parts(listing), listing.to_json())


def _cache_parts(listing: CacheListing) -> Iterator[Part]:
    size = _size(listing.bytes)
    in_use = [each for each in listing.entries if each.in_use]
    count = len(listing.entries) - len(in_use)
    if not listing.entries:
        yield Paragraph(f"Nothing in {listing.folder} to show or to remove.")
        return
    yield Table(("kind", "name", "size", "last use"), _cache_rows(listing.entries), Fit.STAY)
    if listing.action is Action.LIST:
        yield Paragraph(f"{size} in {listing.folder}; {_sizes_by_kind(listing.entries)}")
    elif listing.action is Action.DRY_RUN:
        yield Paragraph(f"{count} folders, {size} would be removed (--dry-run).")
    else:
        yield Paragraph(f"{count} folders removed, {size} freed.")
    for entry in in_use:
        yield Paragraph(f"{entry.name} stays: another process uses it.")


def _cache_rows(entries: Sequence[CacheEntry]) -> tuple[tuple[Words, ...], ...]:
    rows = []
    for each in entries:
        rows.append(row(each.kind, each.name, f"{_size(each.bytes):>10}", _age(each.unused_days)))
    return tuple(rows)


def _sizes_by_kind(entries: Sequence[CacheEntry]) -> str:
    sizes: dict[str, int] = {}
    for each in entries:
        sizes[each.kind] = sizes.get(each.kind, 0) + each.bytes
    return ", ".join(f"{kind} {_size(size)}" for kind, size in sizes.items())


def _size(size: int) -> str:
    return f"{size / _MEGABYTE:,.1f} MB"


def _age(days: float) -> str:
    if days * _HOURS_A_DAY < 1:
        return "under 1 h ago"
    if days < 1:
        return f"{days * _HOURS_A_DAY:.0f} h ago"
    return f"{days:.0f} d ago"


def runs_report(listing: RunListing) -> Report:
    """Return the report of the stored runs, or of a removal."""
    return Report(_runs_parts(listing), listing.to_json())


def _runs_parts(listing: RunListing) -> Iterator[Part]:
    if not listing.runs:
        yield Paragraph(f"{listing.store} contains no runs.")
        return
    headings = ("run", "started", "purpose", "records", "cells", "state", "about")
    yield Table(headings, tuple(map(_run_row, listing.runs)), Fit.STAY)
    records = f"{listing.records_removed:,} records that no other run contains"
    if listing.action is Action.DRY_RUN:
        yield Paragraph(f"{len(listing.runs)} runs and {records} would be removed (--dry-run).")
    elif listing.action is Action.REMOVE:
        yield Paragraph(f"{len(listing.runs)} runs and {records} removed.")


def _run_row(run: RunEntry) -> tuple[Words, ...]:
    cells = "-"
    if run.cells is not None:
        cells = f"{run.cells:,}"
    state = "finished"
    if run.finished is None:
        state = "interrupted"
    started = run.started[:19].replace("T", " ")
    return row(run.id, started, run.purpose, f"{run.records:,}", cells, state, run.about)
