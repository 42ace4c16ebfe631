"""The records that a gate goes by, and the plan of a scan for more."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flacheck.engine.plan import Plan
from flacheck.inputs import planning
from flacheck.inputs.expand import Selection, named
from flacheck.inputs.subject import Subject
from flacheck.model import Record, Verdict, digest
from flacheck.store import FILE, Store


@dataclass(frozen=True)
class RecordFilter:
    """Which records count. `matrix` is a name or a file; a package comes before it."""

    matrix: str | None = None
    package: str | None = None
    kernels: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        """What is asked, in a few words."""
        matrix = self.run_name and f"matrix {self.run_name}"
        whole = self.package or matrix or "every record"
        return " · ".join(filter(None, (whole, ", ".join(self.kernels), ", ".join(self.targets))))

    @property
    def run_name(self) -> str | None:
        """The matrix as its runs are called: a file's by the file's name alone."""
        path = Path(self.matrix or "")
        if path.suffix in (".yaml", ".yml", ".jsonl"):
            return path.stem
        return self.matrix

    def wants(self, record: Record) -> bool:
        """Whether a record is about what is asked; the matrix is not looked at."""
        if self.package and record.package != self.package:
            return False
        if self.targets and record.target not in self.targets:
            return False
        return not self.kernels or any(named(glob, record.kernel) for glob in self.kernels)

    def plan(self, releases: Sequence[str]) -> Plan:
        """What `flacheck scan` would compile for the same question under these releases alone."""
        toolchains = tuple(f"triton=={release}" for release in releases)
        selection = Selection(kernels=self.kernels, targets=self.targets, toolchains=toolchains)
        subject = Subject(self.matrix, self.package)
        return planning.plan(subject, selection)


@dataclass(frozen=True)
class Evidence:
    """The newest record of each cell by `cell_identity`, and what ever failed with a signature."""

    newest: Mapping[str, Record]
    failed_with: Callable[[str], Sequence[Record]]

    @property
    def records(self) -> list[Record]:
        return list(self.newest.values())


@contextmanager
def opened(folder: Path, wanted: RecordFilter) -> Iterator[Evidence]:
    """The evidence of the store in a folder, for as long as the store is open."""
    # No store is made: without one nothing is known, which is an answer too.
    if not (folder / FILE).is_file():
        yield Evidence({}, lambda signature: ())
    else:
        with Store.open(folder, create=False) as store:
            yield of_store(store, wanted)


def of_store(store: Store, wanted: RecordFilter) -> Evidence:
    """The store's newest records of what is asked."""
    keys = None
    if wanted.run_name and not wanted.package:
        keys = store.keys_of(wanted.run_name)
    newest: dict[str, tuple[float, Record]] = {}
    for added, record in store.dated():
        if (keys is not None and record.key not in keys) or not wanted.wants(record):
            continue
        # A compile that was stopped on request proves nothing.
        if record.verdict is Verdict.COMPILES and record.reason is not None:
            continue
        cell = cell_identity(record)
        if cell not in newest or newest[cell][0] <= added:
            newest[cell] = added, record
    return Evidence({cell: record for cell, (_, record) in newest.items()}, store.failed_with)


def cell_identity(record: Record) -> str:
    """What stays of a cell when its kernel's source is edited: the new record replaces the old."""
    launch = record.launch and record.launch.to_json()
    asked = [record.kernel, record.package, record.toolchain, record.target, launch]
    # Only kept while the gate runs, so a short digest is enough.
    return digest([*asked, dict(record.options)], 16)
