"""Combinations that a new release of Triton, torch or a package adds to a file of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from flacheck import files
from flacheck.errors import UsageError
from flacheck.evidence.analysis.order import split
from flacheck.evidence.published.combinations import Combination


@dataclass(frozen=True)
class NewEntry:
    """An entry to add to a file of combinations."""

    package: str
    version: str
    releases: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def line(self) -> str:
        """The entry as a line of the file."""
        # A version such as 1.3 would be read as a number without quotes.
        releases = ", ".join(f"'{name}'" for name in self.releases)
        return (
            f"  - {{package: {self.package}, versions: ['{self.version}'], "
            f"triton: [{releases}], "
            f"targets: [{', '.join(self.targets)}], ship: true}}"
        )


def new_entries(
    combinations: Sequence[Combination],
    triton: Sequence[str],
    newest_version: Callable[[str], str],
) -> list[NewEntry]:
    """Return the entries that new releases add to the shipped ones.

    The newest version of a package is built under the releases of its newest listed one and under
    newer ones; a listed version under the newer ones alone.

    Args:
        combinations: The listed combinations.
        triton: All final releases of Triton, those of new torch releases among them.
        newest_version: Returns a package's newest version.
    """
    entries = []
    for package, own in _shipped_by_package(combinations).items():
        listed_version = max((_version(each) for each in own), key=Version)
        listed = [each for each in own if _version(each) == listed_version]
        targets = tuple(dict.fromkeys(each.target for each in listed))
        names = {split(name)[1] for each in listed for name in each.toolchains}
        releases = sorted(names, key=Version)
        newer = [name for name in triton if Version(name) > Version(releases[-1])]
        newest = newest_version(package)
        if Version(newest) > Version(listed_version):
            entries.append(NewEntry(package, newest, (*releases, *newer), targets))
        elif newer:
            entries.append(NewEntry(package, listed_version, tuple(newer), targets))
    return entries


def _shipped_by_package(combinations: Sequence[Combination]) -> dict[str, list[Combination]]:
    """Return the shipped combinations of each package in their usual configurations."""
    by_package: dict[str, list[Combination]] = {}
    for each in combinations:
        if each.is_package and each.is_shipped and each.configs == "usual":
            by_package.setdefault(each.about.partition("==")[0], []).append(each)
    return by_package


def _version(combination: Combination) -> str:
    return combination.about.partition("==")[2]


def add(file: Path, entries: Sequence[NewEntry]) -> None:
    """Append entries to a file of combinations.

    Raises:
        UsageError: If the file cannot be written.
    """
    if not entries:
        return
    lines = [each.line for each in entries]
    try:
        text = files.read_text(file, files.MOST_YAML).rstrip("\n")
        file.write_text("\n".join([text, *lines]) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written ({error.strerror})") from None
