"""The board of published results: a static site, read from a folder or from any web server."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import chain

from jinja2 import BaseLoader, Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from msgspec.structs import replace

from flacheck.capabilities.known_results.document import Known
from flacheck.evidence.analysis.weight import lacks_name
from flacheck.evidence.published.compiled_kernels import CompiledKernels, PlaceName
from flacheck.reports import site
from flacheck.reports.site.feed import feed_entries
from flacheck.reports.site.grid import Shown, list_releases, version_grids
from flacheck.reports.site.package import package_of
from flacheck.reports.site.release import release_page
from flacheck.version import __version__

# The releases of the first page; a package's page has all.
_NEWEST = 5


def render(
    answers: Sequence[Known], compiled: Mapping[PlaceName, CompiledKernels]
) -> Iterator[tuple[str, str]]:
    """Yield (name of a file, its text) for the board.

    It has an index, a page and a badge for each package, a page for each Triton release, and a
    feed.

    Args:
        answers: The published answer about each package, in the order of the board.
        compiled: The kernels of each place.
    """
    script = _text("site.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = _environment()
    environment.globals.update(
        style=Markup(_text("site.css")), script_digest=digest, version=__version__
    )
    file_names = _file_names([answer.package for answer in answers])
    places = {answer.package: _shown(answer, compiled) for answer in answers}
    packages = []
    for answer in answers:
        file_name = file_names[answer.package]
        packages.append(package_of(answer, places[answer.package], file_name))
    pages = {package["name"]: package["page"] for package in packages}
    releases = list_releases(chain.from_iterable(places.values()))
    newest = releases[:_NEWEST]
    for package in packages:
        package["newest_grids"] = version_grids(places[package["name"]], newest)
    index = environment.get_template("index.html.j2")
    yield (
        "index.html",
        index.render(
            title="flacheck: the board",
            packages=packages,
            newest=newest,
            releases=releases,
            script=Markup(script),
        ),
    )
    page = environment.get_template("package.html.j2")
    badge = environment.get_template("badge.svg.j2")
    for package in packages:
        yield package["page"], page.render(title=f"flacheck: {package['name']}", package=package)
        yield package["badge"], badge.render(**package["badge_parts"])
    of_release = environment.get_template("release.html.j2")
    for release in releases:
        shown = release_page(release, places, pages)
        yield release.page, of_release.render(title=f"flacheck: Triton {release.name}", **shown)
    entries = feed_entries(places, pages)
    yield "feed.xml", environment.get_template("feed.xml.j2").render(entries=entries)


def _shown(answer: Known, compiled: Mapping[PlaceName, CompiledKernels]) -> list[Shown]:
    """Return a package's places with the numbers of their cells."""
    shown = []
    for place in answer.places:
        name = (place.about, place.toolchain, place.target)
        missing = []
        for each in answer.package_failures:
            if each.package == place.about and place.toolchain in each.toolchains:
                missing += [each.kernel] * lacks_name(each.code)
        # A name that no release has is no failure of this one, and its kernels still fail.
        place = replace(
            place,
            failing_kernels=tuple(dict.fromkeys([*place.failing_kernels, *missing])),
            deciding_kernels=tuple(dict.fromkeys([*place.deciding_kernels, *missing])),
        )
        shown.append(Shown.of(place, compiled.get(name)))
    return shown


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
