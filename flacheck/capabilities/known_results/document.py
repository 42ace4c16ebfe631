"""The document flacheck.known/1."""

from __future__ import annotations

from typing import Literal

from flacheck.evidence.analysis.compiled_sizes import CompiledSizes
from flacheck.evidence.analysis.fallbacks import ReportedFallback
from flacheck.evidence.analysis.judgement import PackageFailure
from flacheck.evidence.analysis.standing_state import Share, StandingState
from flacheck.evidence.measured.comparison import CardComparison
from flacheck.evidence.published.form import Highlight
from flacheck.model.answer import Answer
from flacheck.model.wire import JsonStruct


class KnownCause(JsonStruct, frozen=True, kw_only=True):
    """A cause of failures on a place, with its kernels and their cells."""

    code: str
    signature: str
    line: str
    kernels: dict[str, int]


class KnownPlace(JsonStruct, frozen=True, kw_only=True):
    """The published answer of a package version on one release and GPU.

    `configs` are the configurations of its files, `edges and usual`. `failing_kernels` are those
    with a failure that counts, `deciding_kernels` those of them that models meet;
    `untested_kernels` are those of which every cell is untested. `sizes` are those of the compiled
    launches, null if they are unknown; `older_launches` is true if a capture of today would make
    other launches. `measured` has the release beside another one on each GPU where both were
    measured, by the user or the project. `reason` is null if the answer is about the package that
    is installed here, else the difference.
    """

    about: str
    configs: str
    toolchain: str
    torch: tuple[str, ...]
    target: str
    standing: StandingState
    cells: int
    configurations: Share
    kernels: Share
    sizes: CompiledSizes | None
    older_launches: bool
    untested_kernels: tuple[str, ...]
    failing_kernels: tuple[str, ...]
    deciding_kernels: tuple[str, ...]
    causes: tuple[KnownCause, ...]
    advisories: tuple[str, ...]
    fallbacks: tuple[ReportedFallback, ...]
    highlights: tuple[Highlight, ...]
    measured: tuple[CardComparison, ...]
    date: str
    flacheck: str
    python: str
    reason: str | None


class KnownPair(JsonStruct, frozen=True, kw_only=True):
    """A release that is good or screened for a package version, with its torch releases."""

    about: str
    configs: str
    toolchain: str
    torch: tuple[str, ...]
    targets: tuple[str, ...]
    standing: Literal["good", "screened"]
    configurations: Share
    kernels: Share
    advisories: tuple[str, ...]


class KnownPin(JsonStruct, frozen=True, kw_only=True):
    """The requirements to pin for a package version on a GPU; torch is null if none fits."""

    about: str
    target: str
    triton: str
    torch: str | None


class KnownGap(JsonStruct, frozen=True, kw_only=True):
    """A combination that the project lists and has not built."""

    about: str
    configs: str
    target: str
    toolchains: tuple[str, ...]


class Known(Answer, frozen=True, kw_only=True):
    """The published results of a package or a matrix, with the best release.

    `package_failures` are failures that every compiled release has: they make no release bad.
    """

    schema: Literal["flacheck.known/1"]
    source: Literal["published"]
    package: str
    places: tuple[KnownPlace, ...]
    known_good: tuple[KnownPair, ...]
    pins: tuple[KnownPin, ...]
    package_failures: tuple[PackageFailure, ...]
    not_built: tuple[KnownGap, ...]
