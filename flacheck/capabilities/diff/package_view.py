"""The package's own view of a release: its requirements, refusals and warnings."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import field
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from flacheck import files
from flacheck.capabilities.diff.differences import Difference, DifferenceKind
from flacheck.capabilities.diff.matching import match
from flacheck.capabilities.diff.sides import ReleaseSide, Side
from flacheck.evidence.analysis.order import count_noun
from flacheck.evidence.published.form import CaptureFacts
from flacheck.evidence.published.packing import PublishedPlace
from flacheck.model import Record, Verdict
from flacheck.model.wire import JsonStruct
from flacheck.pipeline.capture_facts import facts_of, warnings_of
from flacheck.pipeline.package_launches import PackageCapture
from flacheck.source import modules
from flacheck.source.packages.package import Package
from flacheck.toolchains import torch_pins

# The stages before any kernel is compiled.
_OWN_STAGES = ("import", "call")


class PackageNotice(JsonStruct, frozen=True):
    """A requirement, refusal or warning of the package.

    `from` and `to` are true if the package warns or refuses under that side, or if the side does
    not satisfy the requirement.
    """

    kind: Literal["requires", "refuses", "warns"]
    text: str
    under_from: bool = field(name="from")
    under_to: bool = field(name="to")


class Describes(Protocol):
    """A package at an exact version."""

    @property
    def identity(self) -> str:
        """The package's name and version."""
        ...

    def requires(self, names: Sequence[str]) -> list[tuple[str, Requirement]]:
        """Return the requirements on some packages, each with its owner."""
        ...


class SideCapture(Protocol):
    """A package's launches under one compiler for one target: captured here, or published."""

    @property
    def package(self) -> Describes:
        """The package."""
        ...

    @property
    def place(self) -> tuple[str, str]:
        """The compiler and the target."""
        ...

    @property
    def facts(self) -> CaptureFacts | None:
        """The facts of the capture; None without one."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """The messages that the package prints under the compiler."""
        ...

    def defines(self, kernel: str) -> bool:
        """Return True if the package has a kernel of this name."""
        ...


@dataclass(frozen=True)
class OwnCapture:
    """A capture that was made here."""

    capture: PackageCapture

    @property
    def package(self) -> Package:
        """The package."""
        return self.capture.package

    @property
    def place(self) -> tuple[str, str]:
        """The compiler and the target."""
        return self.capture.choice.identity, self.capture.target

    # Captures are long files, and most comparisons need the facts of none of them.
    @cached_property
    def facts(self) -> CaptureFacts | None:
        """The facts of the capture; None without one."""
        return facts_of(self.capture)

    @property
    def warnings(self) -> Sequence[str]:
        """The messages that the package prints under the compiler."""
        return warnings_of(self.capture)

    def defines(self, kernel: str) -> bool:
        """Return False if the package lacks a kernel's module, or the module never names it."""
        module, _, name = kernel.partition(":")
        file = modules.file_of(Path(self.package.path), module)
        if file is None:
            return False
        text = files.read_text(file, links=True, errors="replace")
        return re.search(rf"\b{re.escape(name.rpartition('.')[2])}\b", text) is not None


@dataclass(frozen=True)
class PublishedPackage:
    """A package as published results describe it."""

    identity: str
    requirements: tuple[tuple[str, Requirement], ...]

    def requires(self, names: Sequence[str]) -> list[tuple[str, Requirement]]:
        """Return the requirements on some packages, each with its owner."""
        return [each for each in self.requirements if each[1].name.lower() in names]


@dataclass(frozen=True)
class PublishedCapture:
    """A capture that published results describe."""

    answer: PublishedPlace

    @property
    def package(self) -> PublishedPackage:
        """The package."""
        header = self.answer.header
        requirements = [(owner, Requirement(text)) for owner, text in header.requires]
        return PublishedPackage(header.about, tuple(requirements))

    @property
    def place(self) -> tuple[str, str]:
        """The compiler and the target."""
        return self.answer.request.place

    @property
    def facts(self) -> CaptureFacts | None:
        """The facts of the capture; None without one."""
        return self.answer.capture

    @property
    def warnings(self) -> Sequence[str]:
        """The messages that the package prints under the compiler."""
        return self.answer.header.warnings

    def defines(self, kernel: str) -> bool:
        """Return True if the package has a kernel of this name."""
        return kernel in self.answer.header.kernels


def is_own_word(record: Record) -> bool:
    """Return True for records of the package's import or of an operator's call."""
    return record.launch is None and record.cell.stage in _OWN_STAGES


def refusals(before: Sequence[Record], after: Sequence[Record]) -> list[Difference]:
    """Return the package's refusals as changes.

    An import or a call that fails on one side only is a regression, or mended.
    """
    changes = []
    for pair in match(_refused_records(before), _refused_records(after)):
        kind = DifferenceKind.UNCHANGED
        if pair.before is None:
            kind = DifferenceKind.REGRESSED
        if pair.after is None:
            kind = DifferenceKind.MENDED
        changes.append(
            Difference(pair, kind, f"refused by the package: {refusal_text(pair.record)}")
        )
    return changes


def _refused_records(records: Iterable[Record]) -> list[Record]:
    """Return the records of imports and calls without success."""
    refusals = []
    for record in records:
        if is_own_word(record) and record.verdict in (Verdict.FAILS, Verdict.UNKNOWN):
            refusals.append(record)
    return refusals


def refusal_text(record: Record) -> str:
    """Return the message of a failed import or call in one line."""
    return record.message.partition("\n")[0] or record.reason or "no message"


def captures_of(side: ReleaseSide, captures: Sequence[SideCapture]) -> tuple[SideCapture, ...]:
    """Return the captures under a side's compiler, of the side's package if it has one."""
    own_captures = []
    for capture in captures:
        is_own = side.package is None or capture.package.identity == side.package
        if is_own and capture.place[0] == side.choice.identity:
            own_captures.append(capture)
    return tuple(own_captures)


def words(
    packages: tuple[Describes | None, Describes | None],
    changes: Sequence[Difference],
    sides: tuple[Side, Side],
    captures: Sequence[SideCapture],
) -> list[PackageNotice]:
    """Return the package's requirements on torch and Triton, its refusals and its warnings."""
    notices = _requirements(packages, sides)
    for change in changes:
        text = f"{change.kernel}: {refusal_text(change.record)}"
        under = (change.pair.before is not None, change.pair.after is not None)
        notices.append(PackageNotice("refuses", text, *under))
    under_from, under_to = (_warnings(side, captures) for side in sides)
    for text in dict.fromkeys([*under_from, *under_to]):
        notices.append(PackageNotice("warns", text, text in under_from, text in under_to))
    return notices


def _requirements(
    packages: tuple[Describes | None, Describes | None], sides: tuple[Side, Side]
) -> list[PackageNotice]:
    """Return the requirements of each side's package, with the sides that do not satisfy them."""
    lacking_sides: dict[str, list[bool]] = {}
    for position, (package, side) in enumerate(zip(packages, sides)):
        if package is None:
            continue
        for owner, requirement in package.requires(("torch", "triton")):
            lacking = lacking_sides.setdefault(f"{owner} requires {requirement}", [False, False])
            if isinstance(side, ReleaseSide):
                is_met = _satisfies(side, requirement.name, requirement.specifier)
                lacking[position] = not is_met
    return [PackageNotice("requires", text, *lacking) for text, lacking in lacking_sides.items()]


def _satisfies(side: ReleaseSide, name: str, specifier: SpecifierSet) -> bool:
    """Return True if a side satisfies a requirement; for Triton alone, if one of its torch does."""
    versions = [side.choice.version]
    if name == "torch":
        versions = torch_pins.torch_for(side.choice.version)
        if side.torch:
            versions = [side.torch]
        # The torch of a Triton that no torch requires is unknown.
        if not versions:
            return True
    return any(specifier.contains(version, prereleases=True) for version in versions)


def _warnings(side: Side, captures: Sequence[SideCapture]) -> list[str]:
    """Return the package's warnings under a side's compiler, each once."""
    if not isinstance(side, ReleaseSide):
        return []
    texts: dict[str, None] = {}
    for capture in captures_of(side, captures):
        texts.update(dict.fromkeys(capture.warnings))
    return list(texts)


def missing(
    side_name: str,
    compiler: str | None,
    captures: Sequence[SideCapture],
    refusal_of: Mapping[str, str],
    coverage: Sequence[Mapping[str, Any]],
) -> Callable[[Record], str]:
    """Return a function that gives the reason why a side lacks a kernel.

    The kernel was not launched, the capture was cut, or the package refused. `refusal_of` maps the
    imports and calls that the package refuses under the side to their message; `coverage` is the
    plan's.
    """
    own = [each for each in captures if each.place[0] == compiler]
    reasons = {}
    for place in coverage:
        if place["toolchain"] == compiler:
            for entry in place["missed"]:
                reasons[entry["kernel"]] = entry["reason"]

    def reason(record: Record) -> str:
        if not own:
            return f"no result in {side_name}"
        for capture in own:
            if capture.place[1] == record.target and capture.facts is not None:
                return _why(record, capture, capture.facts, refusal_of, reasons)
        return "not launched: the package was not captured"

    return reason


def _why(
    record: Record,
    capture: SideCapture,
    facts: CaptureFacts,
    refusal_of: Mapping[str, str],
    reasons: Mapping[str, str],
) -> str:
    if facts.import_error:
        return f"refused by the package: {facts.import_error}"
    for name, text in refusal_of.items():
        if record.kernel in facts.refused.get(name, ()):
            return f"refused by the package: {name}: {text}"
    if not capture.defines(record.kernel):
        return f"{capture.package.identity} has no such kernel"
    if record.kernel in facts.launched:
        if facts.is_late:
            return f"capture cut: the time ran out before it was called in {record.dtype}"
        return f"not launched in {record.dtype}"
    if facts.cut:
        operators_left = count_noun(facts.cut, "operator")
        return f"capture cut: the time ran out before {operators_left} could be called"
    why = reasons.get(record.kernel, "no call that flacheck made reached its launch")
    return f"not launched: {why}"
