"""The releases of a package in a report: the newest that works, and the table of all."""

from collections.abc import Iterator, Sequence

from flacheck.evidence.analysis.order import by_target, count_noun, short
from flacheck.evidence.analysis.package_releases import PackageRelease
from flacheck.evidence.analysis.summary import Summary
from flacheck.reports import document
from flacheck.reports.document import Part, Tone, row


def sentence(summary: Summary) -> str:
    """Return `flash-kmeans 0.3.1 is the newest of 3 releases that works on sm90`, with others."""
    every = summary.package_releases
    if not every:
        return ""
    working = summary.working_release
    if working is None:
        return f"None of {len(every)} releases of {every[0].name} works{_nearest(every)}."
    targets = sorted({standing.target for standing in working.passing}, key=by_target)
    text = (
        f"{working.name} {working.version} is the newest of {len(every)} releases that works on "
        f"{', '.join(targets)}"
    )
    others = [each.version for each in every if each.passing and each is not working]
    if others:
        text += f" (also {', '.join(others)})"
    return f"{text}."


def _nearest(every: Sequence[PackageRelease]) -> str:
    """Return `; 0.6.0 comes nearest: 2 kernels fail under 3.7.1 on sm90`; "" without a failure.

    Releases whose capture or scan is incomplete do not count.
    """
    best = ""
    fewest = 0
    for release in every:
        for standing in release.standings:
            failing = {cell.kernel for cell in standing.failing}
            if not failing or standing.is_partial or (best and len(failing) >= fewest):
                continue
            fewest = len(failing)
            number = count_noun(fewest, "kernel fails", "kernels fail")
            place = f"{short(standing.toolchain)} on {standing.target}"
            best = f"; {release.version} comes nearest: {number} under {place}"
    return best


def table(summary: Summary) -> Iterator[Part]:
    """Yield the standing of each release on each toolchain and target."""
    every = summary.package_releases
    if not every:
        return
    yield document.Heading(f"Releases of {every[0].name}")
    rows = []
    for release in every:
        for standing in release.standings:
            obstacle = standing.obstacle
            if standing.is_passing:
                obstacle = standing.extent_text
            place = f"{short(standing.toolchain)} on {standing.target}"
            rows.append(row(release.version, place, standing.state.value, obstacle))
    yield document.Table(("release", "under", "standing", ""), tuple(rows), document.Fit.SPLIT)
    for release in every:
        for text in _failures(release):
            yield document.Item(f"{release.version}: {text}", Tone.BAD)


def _failures(release: PackageRelease) -> Iterator[str]:
    """Yield the failing kernels of a release by code."""
    kernels: dict[str, dict[str, None]] = {}
    for standing in release.standings:
        for cell in standing.failing:
            kernels.setdefault(cell.code or "unclassified", {})[cell.kernel] = None
    for code, names in kernels.items():
        first, *others = names
        more = f" and {len(others)} more" if others else ""
        yield f"{code} in {first}{more}"
