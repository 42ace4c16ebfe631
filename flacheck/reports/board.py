"""The board of published results: a static site, read from a folder or from any web server."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import BaseLoader, Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from flacheck.capabilities.known_results.document import Known, KnownCause, KnownPlace
from flacheck.evidence.analysis.order import (
    by_target,
    by_version,
    count_noun,
    kernel_name,
    settings,
    split,
)
from flacheck.evidence.published.form import Highlight
from flacheck.reports import site
from flacheck.rules import RULES
from flacheck.version import __version__

_GOOD = ("good", "screened")
# Widths in a badge: a letter of 11 px Verdana, and the space around a text.
_LETTER, _SPACE = 6.6, 12
_COLORS = {"all": "#2da44e", "some": "#9a6700", "none": "#cf222e"}


def render(answers: Sequence[Known]) -> Iterator[tuple[str, str]]:
    """Yield (name of a file, its text) for the board: an index, a page and a badge a package."""
    script = _text("site.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = _environment()
    environment.globals.update(
        style=Markup(_text("site.css")), script_digest=digest, version=__version__
    )
    names = _file_names([answer.package for answer in answers])
    packages = [_package(answer, names[answer.package]) for answer in answers]
    index = environment.get_template("index.html.j2")
    yield (
        "index.html",
        index.render(title="flacheck: the board", packages=packages, script=Markup(script)),
    )
    page = environment.get_template("package.html.j2")
    badge = environment.get_template("badge.svg.j2")
    for package in packages:
        yield package["page"], page.render(title=f"flacheck: {package['name']}", package=package)
        yield package["badge"], badge.render(**package["badge_parts"])


def _environment() -> Environment:
    loader: BaseLoader = FunctionLoader(_text)
    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=loader,
    )


def _text(name: str) -> str:
    return files(site).joinpath(name).read_text(encoding="utf-8")


def _file_names(names: Sequence[str]) -> dict[str, str]:
    """Return a file name without its suffix for each package; no two share one."""
    taken = {"index"}
    file_names = {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-").lower() or "package"
        while plain in taken:
            plain += "-"
        taken.add(plain)
        file_names[name] = plain
    return file_names


@dataclass(frozen=True)
class _Row:
    """The places of a version on one GPU."""

    about: str
    target: str

    @staticmethod
    def of(place: KnownPlace) -> _Row:
        return _Row(place.about, place.target)


def _package(answer: Known, file_name: str) -> dict[str, Any]:
    """Return what the templates show of a package."""
    toolchains = sorted({place.toolchain for place in answer.places}, key=by_version)
    releases = []
    for toolchain in toolchains:
        torch = next(place.torch for place in answer.places if place.toolchain == toolchain)
        releases.append({"name": split(toolchain)[1], "torch": ", ".join(torch)})
    badge = _badge(answer)
    return {
        "name": answer.package,
        "page": f"{file_name}.html",
        "badge": f"{file_name}.svg",
        "badge_parts": badge,
        "badge_text": f"{badge['label']}: {badge['text']}",
        "answer": answer.answer,
        "releases": releases,
        "rows": _rows(answer, toolchains),
        "places": [_place(place) for place in answer.places],
        "pins": answer.pins,
        "gaps": _gaps(answer),
    }


def _rows(answer: Known, toolchains: Sequence[str]) -> list[dict[str, Any]]:
    by_row: dict[_Row, dict[str, KnownPlace]] = {}
    for place in answer.places:
        by_row.setdefault(_Row.of(place), {})[place.toolchain] = place
    rows = []
    # The newest version first.
    keys = sorted(by_row, key=lambda row: by_target(row.target))
    for row in sorted(keys, key=lambda row: by_version(row.about), reverse=True):
        cells = []
        configs = dict.fromkeys(place.configs for place in by_row[row].values())
        words = [answer.package, row.about, row.target, *configs]
        for toolchain in toolchains:
            on_release = by_row[row].get(toolchain)
            if on_release is None:
                cells.append({"id": "", "text": "not built", "tone": "unbuilt"})
                continue
            words += _words(on_release)
            text, tone = _short(on_release), _tone(on_release)
            cells.append({"id": _id(on_release), "text": text, "tone": tone})
        title = f"{row.about.partition('==')[2]} {row.target}".strip()
        rows.append(
            {
                "title": title,
                "note": f"--configs {'; '.join(configs)}",
                "cells": cells,
                "search": " ".join(dict.fromkeys(words)).lower(),
            }
        )
    return rows


def _words(place: KnownPlace) -> list[str]:
    """Return the words by which a search finds a place."""
    words = [split(place.toolchain)[1], place.standing.value, *place.torch, *place.failing_kernels]
    for cause in place.causes:
        words += [cause.code, _title(cause.code), cause.line]
    return words


def _id(place: KnownPlace) -> str:
    text = f"{place.about}-{split(place.toolchain)[1]}-{place.target}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)


def _short(place: KnownPlace) -> str:
    if place.failing_kernels:
        return f"{len(place.failing_kernels)} fail"
    text = place.standing.value
    if place.advisories:
        text += ", advised against"
    return text


def _tone(place: KnownPlace) -> str:
    if place.standing in _GOOD and place.advisories:
        return "advised"
    return place.standing.value


def _place(place: KnownPlace) -> dict[str, Any]:
    """Return what a page shows of a place."""
    release = split(place.toolchain)[1]
    option = f"--package {place.about}" if "==" in place.about else place.about
    command = f"flacheck known {place.about} --triton {release} --target {place.target}"
    scan = f"flacheck scan {option} --triton {release} --target {place.target}"
    widest = place.configs.partition(" ")[0]
    if widest != "usual":
        scan += f" --configs {widest}"
    configurations, kernels = place.configurations, place.kernels
    return {
        "id": _id(place),
        "about": place.about,
        "configs": place.configs,
        "release": release,
        "target": place.target,
        "standing": place.standing.value,
        "tone": _tone(place),
        "cells": place.cells,
        "extent": (
            f"{configurations.answered} of {_total(configurations.of)} configurations, "
            f"{kernels.answered} of {_total(kernels.of)} kernels"
        ),
        "torch": ", ".join(place.torch),
        "date": place.date,
        "flacheck": place.flacheck,
        "python": place.python,
        "advisories": place.advisories,
        "causes": [_cause(place, cause) for cause in place.causes],
        "highlights": list(map(_highlight, place.highlights)),
        "command": f"{command}\n{scan}",
    }


def _total(number: int | None) -> str:
    return "?" if number is None else str(number)


def _title(code: str) -> str:
    return RULES[code].title if code in RULES else ""


def _cause(place: KnownPlace, cause: KnownCause) -> dict[str, Any]:
    rule = RULES.get(cause.code)
    fallbacks = []
    for each in place.fallbacks:
        if each.kernel in cause.kernels:
            failing = settings(each.failing) or "as it is"
            fallbacks.append(f"{kernel_name(each.kernel)} ({failing}): use {settings(each.use)}")
    return {
        "code": cause.code,
        "title": _title(cause.code),
        "line": cause.line,
        "why": rule.cause if rule else "",
        "remedy": rule.remedy if rule else "",
        "links": [link for link in rule.links if link.startswith("https://")] if rule else [],
        "kernels": list(cause.kernels),
        "fallbacks": list(dict.fromkeys(fallbacks)),
    }


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


def _gaps(answer: Known) -> list[str]:
    gaps = []
    for gap in answer.not_built:
        names = ", ".join(split(each)[1] for each in gap.toolchains)
        gaps.append(f"{gap.about} --configs {gap.configs} on {gap.target}: Triton {names}")
    return gaps


def _badge(answer: Known) -> dict[str, Any]:
    """Return the parts of a package's badge: how many releases compile its newest version."""
    places = answer.places
    newest = max((place.about for place in places), key=by_version)
    own = [place for place in places if place.about == newest]
    releases = {place.toolchain for place in own}
    failing = {place.toolchain for place in own if place.standing not in _GOOD}
    passing = len(releases) - len(failing)
    version = newest.partition("==")[2]
    text = f"{passing} of {count_noun(len(releases), 'Triton release')}"
    if version:
        text = f"{version}: {text}"
    color = _COLORS["some"]
    if not passing:
        color = _COLORS["none"]
    elif not failing:
        color = _COLORS["all"]
    label = "compiles"
    return {
        "label": label,
        "text": text,
        "color": color,
        "left": round(len(label) * _LETTER + _SPACE),
        "right": round(len(text) * _LETTER + _SPACE),
    }
