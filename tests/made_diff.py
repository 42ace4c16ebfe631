"""Hand-made comparisons of two releases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Any

from flacheck.capabilities.diff.compared_side import ComparedSide
from flacheck.capabilities.diff.differences import differences
from flacheck.capabilities.diff.matching import match
from flacheck.capabilities.diff.package_view import PackageNotice
from flacheck.capabilities.diff.result import Comparison
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.model import Record
from flacheck.tables.advisories import Advisory, Effect
from tests.made_records import failure, record, unknown

OLD, NEW = "triton==3.5.1", "triton==3.7.1"
ADVISORY = Advisory(
    id="made-1",
    triton=">=3.4,<3.7.1",
    targets=("sm90",),
    kernels=("one",),
    effect=Effect.WRONG_RESULTS,
    what="The gradient of one is wrong on Hopper",
    when="with 4 warps",
    remedy="Use Triton 3.7.1 or newer",
    reported=date(2026, 1, 31),
    sources=("https://example.org/1",),
)


def side(toolchain: str, torch: str | None, records: Sequence[Record]) -> ComparedSide:
    verdicts = Counter(each.verdict for each in records)
    missing = sum(each.code == "FC903" for each in records)
    pins = {OLD: ("2.9.1",), NEW: ("2.12.1", "2.13.0")}[toolchain]
    return ComparedSide(f"torch=={torch}", toolchain, toolchain, torch, pins, verdicts, missing)


def result(
    before: Sequence[Record],
    after: Sequence[Record],
    untested_keys: Any = None,
    why: str = "not launched",
    is_waived: bool = False,
    **more: Any,
) -> Comparison:
    change_list = differences(
        match(before, after),
        untested_keys or {},
        lambda _: is_waived,
        lambda _: why,
        lambda _: "new",
    )
    return Comparison(
        before=side(OLD, "2.9.1", before),
        after=side(NEW, "2.12.1", after),
        about="tiny==1.0",
        targets=("sm90",),
        changes=tuple(change_list),
        **more,
    )


def kernels(toolchain: str, *names: str, **more: Any) -> list[Record]:
    return [record(toolchain=toolchain, kernel=f"a.b:{name}", **more) for name in names]


def every_difference() -> Comparison:
    """Return two releases that differ in every possible way."""
    figures = {"shared": 1024, "shared_limit": 232448, "registers": 128, "stack": 0, "spills": 0}
    spoilt = failure("FC501", "too much", toolchain=NEW, kernel="a.b:untested")
    before = [
        *kernels(OLD, "one", "fails", "lost", "slow", "unknown", "untested"),
        *kernels(OLD, "fat", resources=figures),
        failure(toolchain=OLD, kernel="a.b:mended"),
        failure(toolchain=OLD, kernel="a.b:other"),
    ]
    after = [
        *kernels(NEW, "one", "mended", "new"),
        *kernels(NEW, "slow", seconds=30.0),
        *kernels(NEW, "fat", resources={**figures, "spills": 64, "registers": 255}),
        failure(toolchain=NEW, kernel="a.b:fails"),
        failure(line="another", toolchain=NEW, kernel="a.b:other"),
        unknown(toolchain=NEW, kernel="a.b:unknown"),
        spoilt,
    ]
    use = Fallback("a.b:fails", None, NEW, "sm90", {"num_warps": 4}, {"num_warps": 2}, steps=1.0)
    coverage = {"package": "tiny==1.0", "toolchain": NEW, "launchable": 9, "recorded": 8}
    return result(
        before,
        after,
        untested_keys={spoilt.key: "the made-up sizes need more than the GPU has"},
        advisories=((ADVISORY,), ()),
        package=(
            PackageNotice("requires", "tiny 1.0 requires torch>=2.5", False, False),
            PackageNotice("requires", "tiny 1.0 requires triton<3.6", False, True),
            PackageNotice("warns", "Triton 3.7.1 is not supported", False, True),
        ),
        fallbacks=(use,),
        configs="usual",
        coverage=({**coverage, "missed": [], "cut": []},),
        run="20261122-000000-0",
    )
