"""What the package itself says of a release: what it requires, refuses and warns of."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from packaging.specifiers import SpecifierSet

from flacheck.analysis.order import count_noun
from flacheck.capabilities.diff.differences import Difference, DifferenceKind
from flacheck.capabilities.diff.matching import match
from flacheck.capabilities.diff.sides import ReleaseSide, Side
from flacheck.model import Json, Record, Verdict
from flacheck.packages.package import Package
from flacheck.pipeline.package_launches import PackageCapture
from flacheck.toolchains import torch_pins

# Stages of what a package does by itself, before any kernel is compiled.
_OWN_STAGES = ("import", "call")


@dataclass(frozen=True)
class PackageNotice:
    """Something that a package says: `kind` is requires, refuses or warns. `under_from` and
    `under_to` are whether it says so, or is not given what it requires, under that side."""

    kind: str
    text: str
    under_from: bool
    under_to: bool

    def to_json(self) -> Json:
        return {
            "kind": self.kind,
            "text": self.text,
            "from": self.under_from,
            "to": self.under_to,
        }


def is_own_word(record: Record) -> bool:
    """Whether a record is of the package's own import or call, not of a kernel's compile."""
    return record.launch is None and record.cell.stage in _OWN_STAGES


def refusals(before: Sequence[Record], after: Sequence[Record]) -> list[Difference]:
    """What the package refuses, as changes: an import or a call that fails on one side only is a
    regression, or mended."""
    made = []
    for pair in match(*(_refused(records) for records in (before, after))):
        kind = DifferenceKind.UNCHANGED
        if pair.before is None:
            kind = DifferenceKind.REGRESSED
        if pair.after is None:
            kind = DifferenceKind.MENDED
        made.append(Difference(pair, kind, f"refused by the package: {refusal_text(pair.record)}"))
    return made


def _refused(records: Iterable[Record]) -> list[Record]:
    return [
        record
        for record in records
        if is_own_word(record) and record.verdict in (Verdict.FAILS, Verdict.UNKNOWN)
    ]


def refusal_text(record: Record) -> str:
    """What a failed import or call said, in one line."""
    return record.message.partition("\n")[0] or record.reason or "no message"


def words(
    package: Package | None,
    refused: Sequence[Difference],
    sides: tuple[Side, Side],
    captures: Sequence[PackageCapture],
) -> list[PackageNotice]:
    """All that the package says: requirements on torch and Triton, refusals, warnings."""
    made: list[PackageNotice] = []
    if package is not None:
        made += _required(package, sides)
    for change in refused:
        text = f"{change.kernel}: {refusal_text(change.record)}"
        under = (change.pair.before is not None, change.pair.after is not None)
        made.append(PackageNotice("refuses", text, *under))
    warned = [_warnings(side, captures) for side in sides]
    for text in dict.fromkeys([*warned[0], *warned[1]]):
        made.append(PackageNotice("warns", text, text in warned[0], text in warned[1]))
    return made


def _required(package: Package, sides: tuple[Side, Side]) -> list[PackageNotice]:
    made = []
    for owner, requirement in package.requires(("torch", "triton")):
        lacking = [
            isinstance(side, ReleaseSide)
            and not _satisfies(side, requirement.name, requirement.specifier)
            for side in sides
        ]
        made.append(PackageNotice("requires", f"{owner} requires {requirement}", *lacking))
    return made


def _satisfies(side: ReleaseSide, name: str, specifier: SpecifierSet) -> bool:
    """Whether a side has what is required; of Triton alone, whether any torch that pins it is."""
    versions = [side.choice.version]
    if name == "torch":
        versions = torch_pins.torch_for(side.choice.version)
        if side.torch:
            versions = [side.torch]
        # Nobody knows which torch comes with a Triton that none pins.
        if not versions:
            return True
    return any(specifier.contains(version, prereleases=True) for version in versions)


def _warnings(side: Side, captures: Sequence[PackageCapture]) -> list[str]:
    """What the package warned of under a side's compiler, each once."""
    if not isinstance(side, ReleaseSide):
        return []
    own = (each for each in captures if each.choice.identity == side.choice.identity)
    heard = (entry for each in own if each.driven for entry in each.driven.report.get("said", ()))
    return list(dict.fromkeys(entry["text"] for entry in heard))


def missing(
    side_name: str,
    compiler: str | None,
    captures: Sequence[PackageCapture],
    refused: Mapping[str, str],
    coverage: Sequence[Mapping[str, Any]],
) -> Callable[[Record], str]:
    """Why a side has nothing of a kernel: it was not launched, the capture was cut, or the package
    refused. `refused` maps what the package refuses under the side to what it said; `coverage` is
    the plan's."""
    own = [each for each in captures if each.choice.identity == compiler]
    missed = {
        entry["kernel"]: entry["reason"]
        for covered in coverage
        if covered["toolchain"] == compiler
        for entry in covered["missed"]
    }

    # Captures are long files, and most comparisons lack nothing.
    @cache
    def recorded(target: str) -> frozenset[str]:
        there = (each.driven for each in own if each.target == target)
        return frozenset(kernel for driven in there if driven for kernel in driven.kernels)

    def reason(record: Record) -> str:
        if not own:
            return f"no result in {side_name}"
        for capture in own:
            if capture.target == record.target and capture.driven is not None:
                return _why(record, capture, refused, missed, recorded(capture.target))
        return "not launched: the package was not captured"

    return reason


def _why(
    record: Record,
    capture: PackageCapture,
    refused: Mapping[str, str],
    missed: Mapping[str, str],
    recorded: Collection[str],
) -> str:
    assert capture.driven is not None
    if capture.driven.import_error:
        last = capture.driven.import_error.strip().splitlines()[-1]
        return f"refused by the package: {last}"
    operators = capture.driven.report["operators"]
    for name, text in refused.items():
        if record.kernel in operators.get(name, {}).get("kernels", ()):
            return f"refused by the package: {name}: {text}"
    report = capture.driven.report
    if record.kernel in recorded:
        if report.get("late"):
            return f"capture cut: the time ran out before it was called in {record.dtype}"
        return f"not launched in {record.dtype}"
    if report.get("cut"):
        left = count_noun(len(report["cut"]), "operator")
        return f"capture cut: the time ran out before {left} could be called"
    why = missed.get(record.kernel, "no call that flacheck made reached its launch")
    return f"not launched: {why}"
