"""Several releases of one package: which of them work, and the newest that does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.order import by_version
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standing_state import Share, StandingState
from flacheck.model.wire import JsonStruct, ToolchainName


class PackagePlace(JsonStruct, frozen=True):
    """The standing of a package's release on a place."""

    toolchain: ToolchainName
    target: str
    standing: StandingState
    configurations: Share
    kernels: Share


class PackageReleaseAnswer(JsonStruct, frozen=True):
    """One of several releases of a package, with its standing on each place."""

    package: str
    places: tuple[PackagePlace, ...]


@dataclass(frozen=True)
class PackageRelease:
    """A release of a package, with its standing on each toolchain and target."""

    name: str
    version: str
    standings: tuple[Standing, ...]

    @property
    def spec(self) -> str:
        """`flash-kmeans==0.3.1`."""
        return f"{self.name}=={self.version}"

    @property
    def passing(self) -> tuple[Standing, ...]:
        """The places where the release is good or screened."""
        return tuple(standing for standing in self.standings if standing.is_passing)

    def document(self) -> PackageReleaseAnswer:
        """Return the release in the form of flacheck.run/1."""
        places = []
        for each in self.standings:
            shares = each.configurations, each.kernel_share
            places.append(PackagePlace(each.toolchain, each.target, each.state, *shares))
        return PackageReleaseAnswer(self.spec, tuple(places))


def package_releases(standings: Sequence[Standing]) -> tuple[PackageRelease, ...]:
    """Return the releases of the package, the newest first.

    The list is empty unless all standings are about several releases of one package.
    """
    by_release: dict[tuple[str, str], list[Standing]] = {}
    for standing in standings:
        name, exact, version = standing.question.about.partition("==")
        if not exact or standing.question.source:
            return ()
        by_release.setdefault((name, version), []).append(standing)
    names = {name for name, _ in by_release}
    if len(names) != 1 or len(by_release) < 2:
        return ()
    releases = []
    for name, version in sorted(by_release, key=lambda each: by_version(each[1]), reverse=True):
        releases.append(PackageRelease(name, version, tuple(by_release[name, version])))
    return tuple(releases)


def newest_working(releases: Sequence[PackageRelease]) -> PackageRelease | None:
    """Return the newest release that is good or screened on the most targets; None if none is."""
    best, most = None, 0
    for release in releases:
        places = group_by_key((standing.target, standing) for standing in release.passing)
        if len(places) > most:
            best, most = release, len(places)
    return best
