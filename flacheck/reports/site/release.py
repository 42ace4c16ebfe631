"""The page of a Triton release: the kernels that it breaks and mends, by package and GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flacheck.evidence.analysis.order import by_target, by_version, count_noun, kernel_name
from flacheck.reports.site.grid import Release, Shown


def release_page(
    release: Release, places: Mapping[str, Sequence[Shown]], pages: Mapping[str, str]
) -> dict[str, Any]:
    """Return what a release's page shows: what it breaks comes first.

    Args:
        release: The release.
        places: The places of each package.
        pages: The file of each package's page.
    """
    rows = []
    for package, own in places.items():
        under_release = [each for each in own if each.release == release.name]
        for shown in sorted(under_release, key=lambda each: by_target(each.place.target)):
            rows.append(_row(shown, own, pages[package]))
    broken = sum(len(row["broken"]) for row in rows)
    packages = {row["package"] for row in rows if row["broken"]}
    sentence = f"Triton {release.name} breaks no published kernel that its predecessor compiles."
    if broken:
        sentence = (
            f"Triton {release.name} breaks {count_noun(broken, 'kernel')} that its predecessor "
            f"compiles, in {count_noun(len(packages), 'package')}; each GPU counts."
        )
    rows.sort(key=lambda row: (-len(row["broken"]), -row["failing"], row["package"]))
    return {"release": release, "sentence": sentence, "rows": rows}


def _row(shown: Shown, places: Sequence[Shown], page: str) -> dict[str, Any]:
    """Return a place beside the place of the release before on the same GPU."""
    before = _before(shown, places)
    now = shown.failing
    then = before.failing if before is not None else now
    return {
        "shown": shown,
        "package": shown.place.about.replace("==", " "),
        "link": f"{page}#{shown.anchor}",
        "failing": len(now),
        "predecessor": before.release if before is not None else "",
        "broken": sorted(map(kernel_name, now - then)),
        "mended": sorted(map(kernel_name, then - now)),
    }


def _before(shown: Shown, places: Sequence[Shown]) -> Shown | None:
    """Return the place of the newest older release of the same version on the same GPU."""
    own = shown.place
    older = []
    for each in places:
        is_same = (each.place.about, each.place.target) == (own.about, own.target)
        if is_same and by_version(each.place.toolchain) < by_version(own.toolchain):
            older.append(each)
    return max(older, key=lambda each: by_version(each.place.toolchain), default=None)
