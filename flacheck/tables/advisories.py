"""Advisories: kernels that compile and then fail when they run.

No compile can show these failures, so `advisories.yaml` quotes reports from GPUs: one row for each
report or group of reports.
"""

from collections.abc import Collection, Iterable
from datetime import date
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache
from typing import Annotated, Any

from msgspec import Meta, Struct, convert
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flacheck.model.wire import JsonStruct
from flacheck.tables import table

NotBlank = Annotated[str, Meta(pattern=r"\S")]
Link = Annotated[str, Meta(pattern=r"^https://\S+$")]
# The kernel glob of a row about a pattern in the code, which lists no kernels by name.
ANY_KERNEL = "*"


class Effect(str, Enum):
    """The effect when the kernel runs."""

    WRONG_RESULTS = "wrong results"
    NOT_A_NUMBER = "NaN"
    RACE = "results that differ from run to run"
    MEMORY_ERROR = "illegal or misaligned memory access"
    HANG = "hang"
    # The package itself raises an error before it launches the kernel.
    REFUSED = "refused at run time"


class PublishedAdvisory(JsonStruct, frozen=True, kw_only=True):
    """One row of `flacheck list advisories`; `text` is the whole of it in one line.

    Empty packages, dtypes or num_warps do not restrict it. The kernels ["*"] stand for a pattern in
    the code.
    """

    id: NotBlank
    triton: NotBlank
    targets: Annotated[tuple[NotBlank, ...], Meta(min_length=1)]
    kernels: Annotated[tuple[NotBlank, ...], Meta(min_length=1)]
    packages: tuple[NotBlank, ...]
    dtypes: tuple[NotBlank, ...]
    num_warps: tuple[int, ...]
    effect: Effect
    what: NotBlank
    when: str
    remedy: NotBlank
    reported: date
    sources: Annotated[tuple[Link, ...], Meta(min_length=1)]
    text: NotBlank


class Advisory(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One row of the table, which applies where all its conditions hold.

    An empty `packages`, `dtypes` or `num_warps` does not restrict it. `triton` is a PEP 440
    specifier. `packages` are requirements (`fla-core>=0.4,<0.5.2`). `kernels` are globs over a
    kernel's whole name or its last part; `["*"]` if the report is about a pattern in the code,
    which `when` describes. `when` gives further conditions under which the kernel fails. `remedy`
    is the action for the reader. `clues` are words that identify the failure in a log, beside the
    kernels' names: operators, tests, issues.
    """

    id: NotBlank
    triton: NotBlank
    targets: tuple[NotBlank, ...]
    kernels: tuple[NotBlank, ...]
    packages: tuple[NotBlank, ...] = ()
    dtypes: tuple[NotBlank, ...] = ()
    num_warps: tuple[int, ...] = ()
    effect: Effect
    what: NotBlank
    when: str = ""
    remedy: NotBlank
    reported: date
    sources: Annotated[tuple[Link, ...], Meta(min_length=1)]
    clues: tuple[NotBlank, ...] = ()

    @property
    def is_general(self) -> bool:
        """True if the advisory is about a pattern in the code and names no kernel."""
        return ANY_KERNEL in self.kernels

    @property
    def text(self) -> str:
        """The whole advisory in one line."""
        sentences = [f"{self.what}."]
        if self.when:
            sentences.append(f"Seen {self.when}.")
        return " ".join([*sentences, f"{self.remedy}.", f"({self.sources[0]})"])

    def to_json(self) -> dict[str, Any]:
        """Return the advisory as published JSON."""
        return self.published().to_json()

    def published(self) -> PublishedAdvisory:
        """Return the advisory without the words that identify it in a log."""
        return PublishedAdvisory.from_value(self)

    def covers(self, release: str, target: str) -> bool:
        """Return True if the advisory applies to this Triton release on this target."""
        return target in self.targets and _admits(self.triton, release)

    def names_kernel(self, kernel: str) -> bool:
        """Return True if the advisory lists a kernel by name."""
        last_part = kernel.rpartition(":")[2].rpartition(".")[2]
        return any(
            fnmatchcase(kernel, glob) or fnmatchcase(last_part, glob)
            for glob in self.kernels
            if glob != ANY_KERNEL
        )

    def names_package(self, package: str) -> bool:
        """Return True if the advisory applies to a package.

        The package is `name==version`, or a bare name for any version.
        """
        name, _, version = package.partition("==")
        ranges = []
        for requirement in map(Requirement, self.packages):
            if canonicalize_name(requirement.name) == canonicalize_name(name):
                ranges.append(str(requirement.specifier))
        if not self.packages or (ranges and not version):
            return True
        return any(_admits(specifier, version) for specifier in ranges)


def every() -> tuple[Advisory, ...]:
    """Return all advisories, in the order of the table."""
    return _load()


def against(
    release: str,
    target: str,
    *,
    kernels: Iterable[str] | None = None,
    package: str | None = None,
    dtypes: Collection[str] | None = None,
) -> tuple[Advisory, ...]:
    """Return the advisories against a Triton release (`3.7.0`) on a target.

    The release needs no compiled cell. An argument that is None is unknown and excludes nothing.
    With `kernels`, only advisories that list one of them count: a report about a pattern in the
    code cannot be held against a kernel by its name.
    """
    names = None if kernels is None else list(kernels)
    return tuple(
        advisory
        for advisory in every()
        if advisory.covers(release, target)
        and (names is None or any(map(advisory.names_kernel, names)))
        and (package is None or advisory.names_package(package))
        and _overlap(advisory.dtypes, dtypes)
    )


def of(
    kernels: Iterable[str], triton: str, target: str, packages: Collection[str] = ()
) -> list[str]:
    """Return the texts of the advisories against some kernels.

    `packages` (`name==version`) restricts them; an empty collection means that the packages are
    unknown.
    """
    return [
        advisory.text
        for advisory in against(triton, target, kernels=kernels)
        if not packages or any(map(advisory.names_package, packages))
    ]


@cache
def _load() -> tuple[Advisory, ...]:
    return convert(table("advisories")["advisories"], tuple[Advisory, ...])


def _admits(specifier: str, version: str) -> bool:
    """Return True if a specifier admits a version or the version cannot be ordered (a checkout)."""
    try:
        number = Version(version)
    except InvalidVersion:
        return True
    return SpecifierSet(specifier).contains(number, prereleases=True)


def _overlap(conditions: Collection[Any], values: Collection[Any] | None) -> bool:
    """Return True if an advisory's values and these have one in common; none means all."""
    return not conditions or values is None or not set(conditions).isdisjoint(values)
