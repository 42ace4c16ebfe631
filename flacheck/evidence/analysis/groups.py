"""Failures grouped by signature."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.order import by_target, by_version
from flacheck.model.wire import Code, Count, JsonStruct, ToolchainName

# Unrecognised failures are shown like any other.
UNCLASSIFIED = "FC000"


_Names = Annotated[tuple[str, ...], Meta(min_length=1)]


class FailureGroup(JsonStruct, frozen=True):
    """The number of cells with one signature, and where they fail."""

    signature: str
    code: Code
    count: Count
    toolchains: Annotated[tuple[ToolchainName, ...], Meta(min_length=1)]
    targets: _Names
    kernels: _Names


@dataclass(frozen=True)
class SignatureGroup:
    """All occurrences of one failure.

    `line` is its decisive line, `tolerated_count` the number of its cells that an autotuner would
    skip, `made_up` the number whose arguments flacheck invented, `example` the key of one cell (an
    untolerated one if there is any). `instantiations` are the template arguments with which it
    occurs in C++.
    """

    signature: str
    code: str
    count: int
    toolchains: tuple[str, ...]
    targets: tuple[str, ...]
    kernels: tuple[str, ...]
    tolerated_count: int
    stage: str | None
    line: str
    example: str
    made_up: int = 0
    instantiations: tuple[str, ...] = ()

    def document(self) -> FailureGroup:
        """Return the group in the form of flacheck.run/1."""
        return FailureGroup.from_value(self)


def by_signature(cells: Sequence[ObservedCell]) -> list[SignatureGroup]:
    """Return the failing cells by signature: blocking ones first, then the most frequent."""
    failures: dict[str, list[ObservedCell]] = {}
    for cell in cells:
        if cell.fails:
            signature = cell.signature or cell.code or UNCLASSIFIED
            failures.setdefault(signature, []).append(cell)
    groups = [_make_group(signature, failing) for signature, failing in failures.items()]
    return sorted(groups, key=_by_importance)


def _by_importance(group: SignatureGroup) -> tuple[bool, int, str]:
    is_tolerated = group.tolerated_count == group.count
    # The signature comes last, so that the order does not depend on that of the records.
    return is_tolerated, -group.count, group.signature


def _make_group(signature: str, cells: Sequence[ObservedCell]) -> SignatureGroup:
    # A blocking failure is the better example; the key makes shards choose the same one.
    example = min(cells, key=lambda cell: (cell.tolerated, cell.made_up, cell.key))
    toolchains, targets, kernels = set[str](), set[str](), set[str]()
    instantiations = set[str]()
    tolerated_count = made_up_count = 0
    for cell in cells:
        toolchains.add(cell.toolchain)
        targets.add(cell.target)
        kernels.add(cell.kernel)
        tolerated_count += cell.tolerated
        made_up_count += cell.made_up
        if cell.instantiation:
            instantiations.add(cell.instantiation)
    return SignatureGroup(
        signature=signature,
        code=example.code or UNCLASSIFIED,
        count=len(cells),
        toolchains=tuple(sorted(toolchains, key=by_version)),
        targets=tuple(sorted(targets, key=by_target)),
        kernels=tuple(sorted(kernels)),
        tolerated_count=tolerated_count,
        stage=example.stage,
        line=example.line,
        example=example.key,
        made_up=made_up_count,
        instantiations=tuple(sorted(instantiations)),
    )
