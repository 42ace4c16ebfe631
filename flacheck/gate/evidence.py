"""The records that a gate goes by: those of a matrix, a package, kernels and targets, or every one
of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flacheck.inputs.expand import named
from flacheck.model import Record, Verdict, digest
from flacheck.store import FILE, Store


@dataclass(frozen=True)
class RecordFilter:
    """Which records count: `matrix` is a name or a file as `flacheck scan` takes it; a package
    comes before it.
    """

    matrix: str | None = None
    package: str | None = None
    kernels: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        """What is asked, in a few words."""
        whole = self.package or (f"matrix {self.stem}" if self.stem else "every record")
        return " · ".join(filter(None, (whole, ", ".join(self.kernels), ", ".join(self.targets))))

    @property
    def stem(self) -> str | None:
        """The matrix as its runs are called."""
        path = Path(self.matrix or "")
        return path.stem if path.suffix in (".yaml", ".yml", ".jsonl") else self.matrix

    def wants(self, record: Record) -> bool:
        """Whether a record is about what is asked; the matrix is not looked at."""
        if self.package and record.package != self.package:
            return False
        if self.targets and record.target not in self.targets:
            return False
        return not self.kernels or any(named(glob, record.kernel) for glob in self.kernels)


def no_history(signature: str) -> Sequence[Record]:
    """What failed with a signature where nothing was ever stored."""
    return ()


@dataclass(frozen=True)
class Evidence:
    """The newest record of each cell by `place`, and what ever failed with a signature."""

    newest: Mapping[str, Record] = field(default_factory=dict)
    failed_with: Callable[[str], Sequence[Record]] = no_history

    @property
    def records(self) -> list[Record]:
        return list(self.newest.values())


def place(record: Record) -> str:
    """What a cell is whatever its kernel's source: when that is edited, the new record takes the
    old one's place.
    """
    return digest(
        [
            record.kernel,
            record.package,
            record.toolchain,
            record.target,
            record.launch,
            dict(record.options),
        ],
        16,
    )


def exists(directory: Path) -> bool:
    """Whether there is a store; without one nothing is known, which is an answer too."""
    return (directory / FILE).is_file()


def of_store(store: Store, asked: RecordFilter) -> Evidence:
    """The store's newest records of what is asked. A compile that was stopped on request proves
    nothing.
    """
    newest: dict[str, tuple[float, Record]] = {}
    for added, record in _asked(store, asked):
        if record.verdict is Verdict.COMPILES and record.reason is not None:
            continue
        here = place(record)
        if here not in newest or newest[here][0] <= added:
            newest[here] = added, record
    return Evidence({here: record for here, (_, record) in newest.items()}, store.failed_with)


def _asked(store: Store, asked: RecordFilter) -> Iterator[tuple[float, Record]]:
    by_matrix = asked.stem if not asked.package else None
    keys = store.keys_of(by_matrix) if by_matrix else None
    for added, record in store.dated():
        if (keys is None or record.key in keys) and asked.wants(record):
            yield added, record
