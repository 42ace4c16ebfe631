"""Failures with one signature, together."""

from collections.abc import Sequence
from dataclasses import dataclass

from flacheck.analysis.known_good import group_by_key
from flacheck.analysis.observation import ObservedCell
from flacheck.analysis.order import by_target, by_version
from flacheck.model import Json

# A failure that no rule knows is shown like any other.
UNCLASSIFIED = "FC000"


@dataclass(frozen=True)
class SignatureGroup:
    """One failure wherever it shows. `line` is its decisive line, `tolerated` how many of its cells
    an autotuner would pass over, `made_up` how many have arguments that flacheck invented,
    `example` the key of one cell (an untolerated one if there is any)."""

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

    def to_json(self) -> Json:
        return {
            "signature": self.signature,
            "code": self.code,
            "count": self.count,
            "toolchains": list(self.toolchains),
            "targets": list(self.targets),
            "kernels": list(self.kernels),
        }


def by_signature(cells: Sequence[ObservedCell]) -> list[SignatureGroup]:
    """The failing cells by signature: those that stop a run first, then the most frequent."""
    groups = group_by_key(
        (cell.signature or cell.code or UNCLASSIFIED, cell) for cell in cells if cell.fails
    )
    made = [_group(signature, failing) for signature, failing in groups.items()]
    # The signature comes last, so that the order does not depend on that of the records.
    return sorted(
        made,
        key=lambda group: (group.tolerated_count == group.count, -group.count, group.signature),
    )


def _group(signature: str, cells: Sequence[ObservedCell]) -> SignatureGroup:
    # What stops a run is the better example; the key decides, so that shards agree on it.
    example = min(cells, key=lambda cell: (cell.tolerated, cell.made_up, cell.key))
    return SignatureGroup(
        signature=signature,
        code=example.code or UNCLASSIFIED,
        count=len(cells),
        toolchains=tuple(sorted({cell.toolchain for cell in cells}, key=by_version)),
        targets=tuple(sorted({cell.target for cell in cells}, key=by_target)),
        kernels=tuple(sorted({cell.kernel for cell in cells})),
        tolerated_count=sum(cell.tolerated for cell in cells),
        stage=example.stage,
        line=example.line,
        example=example.key,
        made_up=sum(cell.made_up for cell in cells),
    )
