"""The kinds of failure: what the original of each is, which passes make it smaller, how a script
knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from flacheck.model import Cell, Record, Verdict
from flacheck.packages.package import Package
from flacheck.repro.decoration import refused
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.oracle import Budget, Compiler, Failure, Oracle, SameCode, SameSignature
from flacheck.repro.output import message
from flacheck.repro.output.script import Symptom
from flacheck.repro.passes import FIRST, FRONT_END, PASSES, PIPELINE, PIPELINED, SLICES
from flacheck.repro.passes.tuning import SHIFTED, TUNING, TUNING_FIRST, key_check, tuned
from flacheck.repro.reducer import Pass
from flacheck.repro.slow import LEAST_SECONDS, SlowerThan, SlowOracle, quick
from flacheck.repro.versions import Table, contrasts
from flacheck.tables import targets

SLOW = "the compile is slow"
Cut = Callable[[], Specimen]
_COMPILE_SECONDS = 20
_SHORTEST = 120


class Kind(Protocol):
    """What differs between failures."""

    def original(self, cell: Cell, package: Package | None, cut: Cut) -> Specimen:
        """The specimen to start from; `cut` gives the cell's kernel cut out of its program."""
        ...

    def failure(self, record: Record) -> Failure:
        """What counts as the same failure."""
        ...

    def passes(self) -> tuple[Sequence[Pass], Sequence[Pass]]:
        """Those that run first and once, and those that run round after round."""
        ...

    def oracle(self, compilers: Compiler, record: Record, found: Table, budget: Budget) -> Oracle:
        """What asks the compilers, once it is known what each release makes of the original."""
        ...

    def symptom(self, cell: Cell, record: Record, specimen: Specimen) -> Symptom:
        """How a script tells that the specimen fails as `record` says."""
        ...


class _Failing:
    """What fails on one release and compiles on others."""

    def failure(self, record: Record) -> Failure:
        return SameSignature(str(record.signature))

    def oracle(self, compilers: Compiler, record: Record, found: Table, budget: Budget) -> Oracle:
        release = record.toolchain
        return Oracle(compilers, release, self.failure(record), contrasts(found, release), budget)


class FailingCompile(_Failing):
    """A compile that does not end well, wherever: in the front end, a pass, LLVM, the assembler."""

    def original(self, cell: Cell, package: Package | None, cut: Cut) -> Specimen:
        return cut()

    def passes(self) -> tuple[Sequence[Pass], Sequence[Pass]]:
        return FIRST, PASSES

    def symptom(self, cell: Cell, record: Record, specimen: Specimen) -> Symptom:
        return Symptom(message.words(record), title(cell, record), timeout=_timeout(record))


class RefusedSource(FailingCompile):
    """A kernel that the front end refuses: what it says of one call it says of that call alone."""

    def passes(self) -> tuple[Sequence[Pass], Sequence[Pass]]:
        return FRONT_END, PASSES


class OverLimit(FailingCompile):
    """A compile that ends well and asks for more than the GPU has (FC501 and its like)."""

    def passes(self) -> tuple[Sequence[Pass], Sequence[Pass]]:
        """Most of the memory is a pipeline's, which only a loop has. Nothing smaller is as large:
        extents stay.
        """
        return PIPELINE, PIPELINED

    _LIMITS = (
        ("FC501", "compiled.metadata.shared", "shared_limit"),
        ("FC504", "compiled.metadata.tmem_size", "tensor_memory"),
    )

    def symptom(self, cell: Cell, record: Record, specimen: Specimen) -> Symptom:
        said = message.words(record)
        for code, used, limit in self._LIMITS:
            if code == record.code:
                most = getattr(targets.find(cell.target), limit)
                check = f'if {used} > {most}:\n    print("{said}", {used}, "of", {most})\n'
                return Symptom(said, title(cell, record), check, _timeout(record))
        return super().symptom(cell, record, specimen)


class SlowCompile(FailingCompile):
    """A compile that ends well, after many times the seconds that it takes elsewhere (FC921)."""

    def failure(self, record: Record) -> Failure:
        return SlowerThan(LEAST_SECONDS)

    def oracle(self, compilers: Compiler, record: Record, found: Table, budget: Budget) -> Oracle:
        return SlowOracle(compilers, record.toolchain, quick(found, record.toolchain), budget)

    def passes(self) -> tuple[Sequence[Pass], Sequence[Pass]]:
        """Every question takes seconds: slices first, they take the fewest."""
        return SLICES, PASSES[:-1]

    def symptom(self, cell: Cell, record: Record, specimen: Specimen) -> Symptom:
        limit = max(1.0, round(record.seconds / 2, 1))
        check = f'if time.perf_counter() - started > {limit}:  # seconds\n    print("{SLOW}")\n'
        prepare = "import time\n\nstarted = time.perf_counter()\n"
        row = targets.find(cell.target)
        title = f"{cell.toolchain.replace('==', ' ')} takes {record.seconds:.0f} s to compile this for {row.name}"
        return Symptom(SLOW, title, check, _timeout(record), prepare)


class TunerFault(_Failing):
    """A key that the autotuner reads wrongly, or past the end of the arguments (FC601, FC602)."""

    def original(self, cell: Cell, package: Package | None, cut: Cut) -> Specimen:
        launch = cell.launch
        return tuned(cut(), launch.configs if launch else (), launch.keys if launch else ())

    def failure(self, record: Record) -> Failure:
        return SameCode(str(record.code))

    def passes(self) -> tuple[Sequence[Pass], Sequence[Pass]]:
        return TUNING_FIRST, TUNING

    def symptom(self, cell: Cell, record: Record, specimen: Specimen) -> Symptom:
        if record.code == "FC602":
            return Symptom(SHIFTED, title(cell, record), key_check(specimen))
        return Symptom(message.words(record), title(cell, record))


class RefusedKey(TunerFault):
    """A key that is no parameter: the decorator raises as soon as the module is imported (FC603)."""

    def original(self, cell: Cell, package: Package | None, cut: Cut) -> Specimen:
        if package is None:
            return super().original(cell, package, cut)
        return refused(package, cell.kernel.name, cell.target)


def kind_of(cell: Cell, record: Record) -> Kind:
    """The kind of a failing cell, or of one that compiles and may be slow."""
    if record.verdict is Verdict.COMPILES:
        return SlowCompile()
    if record.stage == "ast":
        return RefusedSource()
    if record.stage == "load":
        return OverLimit()
    if record.code == "FC603":
        return RefusedKey()
    if cell.stage == "autotune":
        return TunerFault()
    return FailingCompile()


def title(cell: Cell, record: Record) -> str:
    """`triton 3.2.0 fails on sm90 (NVIDIA H100 80GB HBM3), stage llir: …` in one line without a
    path.
    """
    row = targets.find(cell.target)
    stage = f", stage {record.stage}" if record.stage else ""
    return f"{cell.toolchain.replace('==', ' ')} fails on {row.name} ({row.gpu}){stage}: {_first(record)}"


def _first(record: Record) -> str:
    """The decisive words, short enough for a line."""
    said = message.words(record)
    return said if len(said) <= 90 else said[:89] + "…"


def _timeout(record: Record) -> int:
    return max(_SHORTEST, round(_COMPILE_SECONDS * record.seconds))
