"""Advisories: what compiles and then goes wrong when it runs. No compile shows it, so people who
saw it on a GPU are quoted: `advisories.yaml` holds one row for each report or group of reports."""

from collections.abc import Collection, Iterable
from datetime import date
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache
from typing import Annotated, Any

from msgspec import Meta, Struct, convert, json
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flacheck.tables import table

NotBlank = Annotated[str, Meta(pattern=r"\S")]
Link = Annotated[str, Meta(pattern=r"^https://\S+$")]
# The kernel glob of a row that speaks of a pattern in the code, not of kernels by name.
ANY_KERNEL = "*"


class Effect(str, Enum):
    """What happens when the kernel runs."""

    WRONG_RESULTS = "wrong results"
    NOT_A_NUMBER = "NaN"
    RACE = "results that differ from run to run"
    MEMORY_ERROR = "illegal or misaligned memory access"
    HANG = "hang"
    # The package itself raises an error before it launches the kernel.
    REFUSED = "refused at run time"


class Advisory(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One row of the table. It applies where everything that it names applies; an empty `packages`,
    `dtypes` or `num_warps` names nothing, so it applies to all of them.

    `triton` is a PEP 440 specifier. `packages` are requirements (`fla-core>=0.4,<0.5.2`). `kernels`
    are globs over a kernel's whole name or its last part; `["*"]` where the report is about a
    pattern in the code, which `when` describes. `when` says under which further condition the
    kernel goes wrong. `remedy` is what the reader does about it. `clues` are words by which a log
    of the failure can be known, beside the kernels' names: operators, tests, issues.
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
        """Whether it speaks of a pattern in the code and names no kernel."""
        return ANY_KERNEL in self.kernels

    @property
    def text(self) -> str:
        """The whole advisory in one line."""
        sentences = [f"{self.what}."]
        if self.when:
            sentences.append(f"Seen {self.when}.")
        return " ".join([*sentences, f"{self.remedy}.", f"({self.sources[0]})"])

    def to_json(self) -> dict[str, Any]:
        """The advisory as JSON shows it."""
        plain: dict[str, Any] = json.decode(json.encode(self))
        del plain["clues"]
        return {**plain, "text": self.text}

    def covers(self, release: str, target: str) -> bool:
        """Whether it speaks of this Triton release on this target."""
        return target in self.targets and _admits(self.triton, release)

    def names_kernel(self, kernel: str) -> bool:
        """Whether a kernel is one that it speaks of by name."""
        last_part = kernel.rpartition(":")[2].rpartition(".")[2]
        return any(
            fnmatchcase(kernel, glob) or fnmatchcase(last_part, glob)
            for glob in self.kernels
            if glob != ANY_KERNEL
        )

    def names_package(self, package: str) -> bool:
        """Whether it speaks of a package: `name==version`, or a bare name for any version."""
        name, _, version = package.partition("==")
        ranges = [
            str(requirement.specifier)
            for requirement in map(Requirement, self.packages)
            if canonicalize_name(requirement.name) == canonicalize_name(name)
        ]
        if not self.packages or (ranges and not version):
            return True
        return any(_admits(admitted, version) for admitted in ranges)


def every() -> tuple[Advisory, ...]:
    """All advisories, in the order of the table."""
    return _load()


def against(
    release: str,
    target: str,
    *,
    kernels: Iterable[str] | None = None,
    package: str | None = None,
    dtypes: Collection[str] | None = None,
    num_warps: Collection[int] | None = None,
) -> tuple[Advisory, ...]:
    """What speaks against a Triton release (`3.7.0`) on a target, whether anything was compiled
    there or not.

    What is None is not known, and rules nothing out. Once kernels are given, only advisories that
    name one of them count: a report about a pattern in the code cannot be held against a kernel by
    its name (`general` lists those).
    """
    asked = None if kernels is None else list(kernels)
    return tuple(
        advisory
        for advisory in every()
        if advisory.covers(release, target)
        and (asked is None or any(map(advisory.names_kernel, asked)))
        and (package is None or advisory.names_package(package))
        and _meet(advisory.dtypes, dtypes)
        and _meet(advisory.num_warps, num_warps)
    )


def general(release: str, target: str) -> tuple[Advisory, ...]:
    """The advisories about patterns in the code that speak of this release and target. They are
    worth showing and never count against a release: nobody knows whether the pattern is there."""
    return tuple(each for each in against(release, target) if each.is_general)


def of(
    kernels: Iterable[str], triton: str, target: str, packages: Collection[str] = ()
) -> list[str]:
    """`against` some kernels of these packages (`name==version`; none named are not known), as
    text."""
    return [
        advisory.text
        for advisory in against(triton, target, kernels=kernels)
        if not packages or any(map(advisory.names_package, packages))
    ]


@cache
def _load() -> tuple[Advisory, ...]:
    return convert(table("advisories")["advisories"], tuple[Advisory, ...])


def _admits(specifier: str, version: str) -> bool:
    """Whether a specifier admits a version; one that nobody can order (a checkout's) may be in."""
    try:
        parsed = Version(version)
    except InvalidVersion:
        return True
    return SpecifierSet(specifier).contains(parsed, prereleases=True)


def _meet(named: Collection[Any], asked: Collection[Any] | None) -> bool:
    """Whether an advisory's values and those asked have one in common; none named means all."""
    return not named or asked is None or not set(named).isdisjoint(asked)
