"""The board's grid: a row for each GPU, a column for each Triton release, the newest first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flacheck.capabilities.known_results.document import KnownPlace
from flacheck.evidence.analysis.order import by_target, by_version, count_noun, split
from flacheck.evidence.published.compiled_kernels import CompiledKernels
from flacheck.rules import RULES
from flacheck.tables import targets

# The shares of working kernels from which a cell is "nearly all" and "most".
_NEARLY, _MOST = 0.98, 0.8
# Words of a card's full name that its everyday name lacks.
_MAKERS = {"NVIDIA", "Tesla", "AMD", "GeForce", "Instinct", "Radeon"}
_VARIANT = re.compile(r"-.*| \d+GB.*| SXM.*")


@dataclass(frozen=True)
class Release:
    """A column: a Triton release and the torch releases that pin it."""

    name: str
    torch: str

    @property
    def page(self) -> str:
        """The file of the release's page."""
        return f"triton-{self.name}.html"


@dataclass(frozen=True)
class Shown:
    """A place with the numbers of its cell.

    Attributes:
        place: The place.
        working: The number of kernels that compile and have no failure that counts.
        failing: The kernels with one; imports that fail and calls that are refused are no kernels.
    """

    place: KnownPlace
    working: int
    failing: frozenset[str]

    @staticmethod
    def of(place: KnownPlace, compiled: CompiledKernels | None) -> Shown:
        """Return a place with its numbers; without `compiled` they are those of its answer."""
        failing = frozenset(place.failing_kernels)
        if compiled is None:
            return Shown(place, max(0, place.kernels.answered - len(failing)), failing)
        return Shown(place, len(compiled.proven - failing), failing & compiled.failing)

    @property
    def deciding(self) -> frozenset[str]:
        """The failing kernels that models meet."""
        return self.failing.intersection(self.place.deciding_kernels)

    @property
    def share(self) -> str:
        """How many of the kernels that models meet work: `all 350`, `348 of 350`."""
        if not self.deciding:
            return f"all {self.working}"
        return f"{self.working} of {self.working + len(self.deciding)}"

    @property
    def note(self) -> str:
        """What fails beside them: kernels that models do not meet, imports, refused calls."""
        others = len(self.place.failing_kernels) - len(self.deciding)
        return count_noun(others, "other fails", "others fail") if others else ""

    @property
    def tone(self) -> str:
        """The class of the colour: only failures that models meet darken it."""
        if self.place.advisories:
            return "advised"
        if not self.place.failing_kernels:
            return "all"
        failing = len(self.place.deciding_kernels)
        share = self.working / max(1, self.working + failing)
        if share >= _NEARLY:
            return "nearly"
        return "most" if share >= _MOST else "few"

    @property
    def release(self) -> str:
        """The Triton release."""
        return split(self.place.toolchain)[1]

    @property
    def gpu(self) -> str:
        """The everyday name of the GPU."""
        return gpu_name(self.place.target)

    @property
    def anchor(self) -> str:
        """The identity on the package's page."""
        text = f"{self.place.about}-{self.release}-{self.place.target}"
        return re.sub(r"[^A-Za-z0-9._-]+", "-", text)

    @property
    def label(self) -> str:
        """The cell in words, for a pointer and for a screen reader."""
        total = self.working + len(self.failing)
        text = f"Triton {self.release} on {self.gpu}: {self.working} of {total} kernels compile"
        unlaunched = len(self.place.failing_kernels) - len(self.failing)
        if unlaunched:
            text += f"; {count_noun(unlaunched, 'import or call fails', 'imports or calls fail')}"
        return text + "; advised against" if self.place.advisories else text


@dataclass(frozen=True)
class GridRow:
    """A GPU with its places, None where nothing is built; `search` are the words of a search."""

    gpu: str
    target: str
    cells: tuple[Shown | None, ...]
    search: str


@dataclass(frozen=True)
class VersionGrid:
    """The rows of a package's version."""

    version: str
    rows: tuple[GridRow, ...]


def list_releases(places: Iterable[Shown]) -> list[Release]:
    """Return the releases of some places, the newest first."""
    torch_of = {each.place.toolchain: each.place.torch for each in places}
    releases = []
    for toolchain in sorted(torch_of, key=by_version, reverse=True):
        releases.append(Release(split(toolchain)[1], ", ".join(torch_of[toolchain])))
    return releases


def version_grids(places: Sequence[Shown], releases: Sequence[Release]) -> list[VersionGrid]:
    """Return the grid of each version of a package, the newest version first."""
    names = {release.name for release in releases}
    grids = []
    for about in sorted({each.place.about for each in places}, key=by_version, reverse=True):
        own = [each for each in places if each.place.about == about and each.release in names]
        rows = []
        for target in sorted({each.place.target for each in own}, key=by_target):
            rows.append(_row([each for each in own if each.place.target == target], releases))
        if rows:
            grids.append(VersionGrid(about.partition("==")[2], tuple(rows)))
    return grids


def _row(places: Sequence[Shown], releases: Sequence[Release]) -> GridRow:
    by_release = {each.release: each for each in places}
    first = places[0]
    words = [first.place.about, first.place.target, first.gpu]
    for shown in places:
        words += _words(shown.place)
    cells = [by_release.get(release.name) for release in releases]
    search = " ".join(dict.fromkeys([*words, *by_release])).lower()
    return GridRow(first.gpu, first.place.target, tuple(cells), search)


def _words(place: KnownPlace) -> list[str]:
    """Return the words by which a search finds a place."""
    words = [place.standing.value, *place.torch, *place.failing_kernels]
    for cause in place.causes:
        words += [cause.code, rule_title(cause.code), cause.line]
    return words


def gpu_name(target: str) -> str:
    """Return a GPU's everyday name: `H100`, `RTX 4090`."""
    name = " ".join(word for word in targets.find(target).gpu.split() if word not in _MAKERS)
    return _VARIANT.sub("", name)


def rule_title(code: str) -> str:
    """Return the title of a failure code; empty for an unknown one."""
    return RULES[code].title if code in RULES else ""
