"""The page of a package: pins by GPU, the grid of all versions, and each place with its causes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flacheck.capabilities.known_results.document import Known, KnownCause, KnownPlace
from flacheck.evidence.analysis.order import by_target, by_version, kernel_name, settings, split
from flacheck.evidence.analysis.standing_state import describe_extent
from flacheck.evidence.analysis.weight import lacks_name
from flacheck.evidence.measured.comparison import CardComparison
from flacheck.evidence.published.form import Highlight
from flacheck.reports.site.badge import badge_of
from flacheck.reports.site.grid import Shown, gpu_name, list_releases, rule_title, version_grids
from flacheck.rules import RULES


def package_of(answer: Known, places: Sequence[Shown], file_name: str) -> dict[str, Any]:
    """Return what the templates show of a package."""
    badge = badge_of(places)
    releases = list_releases(places)
    newest = max((place.about for place in answer.places), key=by_version)
    return {
        "name": answer.package,
        "label": answer.package if newest.partition("==")[2] else "flacheck's own kernels",
        "version": newest.partition("==")[2],
        "page": f"{file_name}.html",
        "badge": f"{file_name}.svg",
        "badge_parts": badge,
        "badge_text": f"{badge['label']}: {badge['text']}",
        "answer": answer.answer,
        "recommendation": answer.recommendation,
        "nameless": [each for each in answer.package_failures if lacks_name(each.code)],
        "releases": releases,
        "grids": version_grids(places, releases),
        "pins": [(pin, gpu_name(pin.target)) for pin in reversed(answer.pins)],
        "places": [_place(each) for each in _newest_first(places)],
        "gaps": _gaps(answer),
    }


def _newest_first(places: Sequence[Shown]) -> list[Shown]:
    """Return places by version and release, the newest first, and then by GPU."""
    by_gpu = sorted(places, key=lambda each: by_target(each.place.target))
    by_release = sorted(by_gpu, key=lambda each: by_version(each.place.toolchain), reverse=True)
    return sorted(by_release, key=lambda each: by_version(each.place.about), reverse=True)


def _place(shown: Shown) -> dict[str, Any]:
    """Return what a page shows of a place."""
    place, release = shown.place, shown.release
    option = f"--package {place.about}" if "==" in place.about else place.about
    command = f"flacheck known {place.about} --triton {release} --target {place.target}"
    scan = f"flacheck scan {option} --triton {release} --target {place.target}"
    widest = place.configs.partition(" ")[0]
    if widest != "usual":
        scan += f" --configs {widest}"
    sizes = place.sizes.text if place.sizes is not None else ""
    return {
        "shown": shown,
        "answer": place,
        "about": place.about.replace("==", " "),
        "extent": describe_extent(place.configurations, place.kernels),
        "sizes": sizes,
        "torch": ", ".join(place.torch),
        "measured": [_measured(each) for each in place.measured],
        "causes": [_cause(place, cause) for cause in place.causes],
        "highlights": list(map(_highlight, place.highlights)),
        "command": f"{command}\n{scan}",
    }


def _cause(place: KnownPlace, cause: KnownCause) -> dict[str, Any]:
    rule = RULES.get(cause.code)
    fallbacks = []
    for each in place.fallbacks:
        if each.kernel in cause.kernels:
            failing = settings(each.failing) or "as it is"
            fallbacks.append(f"{kernel_name(each.kernel)} ({failing}): use {settings(each.use)}")
    return {
        "code": cause.code,
        "title": rule_title(cause.code),
        "line": cause.line,
        "why": rule.cause if rule else "",
        "remedy": rule.remedy if rule else "",
        "links": [link for link in rule.links if link.startswith("https://")] if rule else [],
        "kernels": list(cause.kernels),
        "fallbacks": list(dict.fromkeys(fallbacks)),
    }


def _measured(each: CardComparison) -> dict[str, Any]:
    """Return what a page shows of the release beside another one on a GPU."""
    tone = "advised" if each.slower else "good"
    if each.wrong:
        tone = "bad"
    facts = f"driver {each.driver}, {each.date}, {each.launches} launches"
    before = split(each.before)[1]
    return {"text": f"beside Triton {before}, {each.clause} ({facts})", "tone": tone}


def _highlight(each: Highlight) -> str:
    name = kernel_name(each.kernel)
    if each.kind == "spills":
        text = f"{name}: {each.value:,.0f} bytes of spills"
    elif each.kind == "shared":
        text = f"{name}: {each.value:,.0f} of {each.of or 0:,} bytes of shared memory"
    else:
        text = f"{name}: {each.value:.0f} s to compile"
    if each.cells > 1:
        text += f" (the worst of {each.cells} cells)"
    return text


def _gaps(answer: Known) -> Sequence[str]:
    gaps = []
    for gap in answer.not_built:
        names = ", ".join(split(each)[1] for each in gap.toolchains)
        gaps.append(f"{gap.about} --configs {gap.configs} on {gap.target}: Triton {names}")
    return gaps
