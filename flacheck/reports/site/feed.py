"""The board's Atom feed: an entry for each version of a package under each release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flacheck.evidence.analysis.order import by_version
from flacheck.reports.site.grid import Shown

# Entries of the feed: readers need the newest alone.
_MOST = 50


def feed_entries(
    places: Mapping[str, Sequence[Shown]], pages: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the entries of the feed, the newest first; `pages` are the packages' files."""
    entries = []
    for package, own in places.items():
        groups: dict[tuple[str, str], list[Shown]] = {}
        for shown in own:
            groups.setdefault((shown.place.about, shown.place.toolchain), []).append(shown)
        for (about, toolchain), group in groups.items():
            shares = ", ".join(f"{each.share} kernels on {each.gpu}" for each in group)
            name = about.replace("==", " ")
            entries.append(
                {
                    "id": f"tag:flacheck,2026:{about}/{toolchain}",
                    "title": f"{name} under Triton {group[0].release}: {shares}",
                    "link": f"{pages[package]}#{group[0].anchor}",
                    "date": max(each.place.date for each in group),
                    "order": by_version(toolchain),
                }
            )
    entries.sort(key=lambda entry: (entry["date"], entry["order"]), reverse=True)
    return entries[:_MOST]
