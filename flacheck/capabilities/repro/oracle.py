"""The test of a specimen: it still shows the failure, and only on the right releases.

The kinds of failure differ in the condition for the same failure.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from flacheck.capabilities.repro.compilers import Compilers
from flacheck.capabilities.repro.identity import failing_pass
from flacheck.capabilities.repro.kernel.operation_types import (
    OperationTypes,
    operation_types,
    strangers,
)
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.versions import ReleaseVerdict
from flacheck.evidence.analysis.slow import TIMES
from flacheck.model import Record, Verdict

# The stages after which a compile can end early; "ast" and "load" are not among them.
STAGES = ("ttir", "ttgir", "llir", "ptx", "cubin", "amdgcn", "hsaco")

# The compiler lays out shared and tensor memory before the assembler, so the rest need not run.
_EARLY_CODES = ("FC501", "FC504")

# The least seconds of a reduced slow compile: more than the noise of a busy machine.
LEAST_SECONDS = 2.0


class SearchEnded(Exception):
    """The search removed no line for some time; the best specimen so far is the result."""


@dataclass(frozen=True)
class Effort:
    """Candidates, compiles, candidates that slipped into another failure, and seconds so far."""

    candidates: int
    ran: int
    slips: int
    seconds: float


@dataclass(frozen=True)
class SameFailure:
    """The condition for the same failure.

    A record of the failing release must have `verdict`; `signature` and `code` must match unless
    they are None, and the compile must take at least `seconds`. `until` is the last stage that has
    to run to detect the failure, here and on other releases; None means all stages. Other releases
    must be `faster` by this factor; 0 ignores their time.
    """

    verdict: Verdict = Verdict.FAILS
    signature: str | None = None
    code: str | None = None
    seconds: float = 0.0
    until: str | None = None
    faster: float = 0.0

    def agrees(self, original: ReleaseVerdict, record: Record) -> bool:
        """Return True if another release's record matches that of the original."""
        there = ReleaseVerdict.of(record)
        if self.signature is None and original.verdict is Verdict.FAILS:
            return record.code == (original.signature or "").partition(":")[0]
        return original.agrees(there)

    def shows(self, record: Record) -> bool:
        """Return True if a record of the failing release shows this failure."""
        return (
            record.verdict is self.verdict
            and self.signature in (None, record.signature)
            and self.code in (None, record.code)
            and record.compile_seconds >= self.seconds
        )


def same_signature(failing: Record) -> SameFailure:
    """Return the condition of equal code, stage, function and message."""
    signature = str(failing.signature)
    until: str | None = signature.split(":")[1]
    if signature.startswith(_EARLY_CODES):
        until = "llir"
    elif until not in STAGES:
        until = None
    return SameFailure(signature=signature, until=until)


def same_code(failing: Record) -> SameFailure:
    """Return the condition of an equal code: the message lists keys, which a reduction removes."""
    return SameFailure(code=str(failing.code))


def still_slow(_: Record) -> SameFailure:
    """Return the condition of a compile that takes seconds, and much less on other releases."""
    return SameFailure(Verdict.COMPILES, seconds=LEAST_SECONDS, faster=TIMES)


@dataclass
class Oracle:
    """The test of a specimen on the failing `release` and on the `contrasts`.

    A specimen passes if it shows the failure on `release` and has the original's verdicts on the
    contrasts. `operations` are the original's: a candidate must not contain an operation on other
    types. `failing_pass` is set if the failure's message is not specific. The failing release
    compiles first and only up to the failing stage, which rejects most candidates. `slips` counts
    specimens by the signature of another failure that they showed. `search_end` is the second of
    the command at which a search without progress ends; `ended_early` is True after that.
    """

    compilers: Compilers
    release: str
    failure: SameFailure
    contrasts: Mapping[str, ReleaseVerdict]
    operations: frozenset[OperationTypes] = frozenset()
    failing_pass: str | None = None
    slips: Counter[str] = field(default_factory=Counter)
    search_end: float = inf
    ended_early: bool = False
    _tested_keys: set[str] = field(default_factory=set)
    _slip_keys: set[str] = field(default_factory=set)
    _passes: dict[str, str | None] = field(default_factory=dict)

    @property
    def elapsed_seconds(self) -> float:
        """The seconds since the command began."""
        return self.compilers.budget.elapsed_seconds

    def check(self) -> None:
        """Raise BudgetSpent after the budget's time, SearchEnded after the search's time."""
        self.compilers.budget.check()
        if self.elapsed_seconds > self.search_end:
            self.ended_early = True
            raise SearchEnded

    def __call__(self, specimen: Specimen) -> bool:
        """Return True if a specimen shows the failure and matches the original on the contrasts."""
        if not self.fails(specimen):
            return False
        here = self.compilers.compile(specimen, self.release, self.failure.until)
        for release, verdict in self.contrasts.items():
            there = self.compilers.compile(specimen, release, self.failure.until)
            is_fast = there.compile_seconds * self.failure.faster <= here.compile_seconds
            if not self.failure.agrees(verdict, there) or not is_fast:
                self._slip_keys.add(specimen.key)
                return False
        if self.failing_pass and self._pass_of(specimen) != self.failing_pass:
            self._slip_keys.add(specimen.key)
            return False
        return True

    def _pass_of(self, specimen: Specimen) -> str | None:
        if specimen.key not in self._passes:
            last_pass = failing_pass(specimen, self.release, self.compilers)
            self._passes[specimen.key] = last_pass
        return self._passes[specimen.key]

    def fails(self, specimen: Specimen) -> bool:
        """Return True if a specimen shows the failure on the failing release."""
        record = self.compilers.compile(specimen, self.release, self.failure.until)
        is_new = specimen.key not in self._tested_keys
        self._tested_keys.add(specimen.key)
        if self.failure.shows(record):
            return not self.operations or not strangers(operation_types(specimen), self.operations)
        # A probe that returns as a candidate must not count as a second slip.
        if is_new and record.verdict is Verdict.FAILS and record.signature:
            self.slips[record.signature] += 1
        return False

    def hides(self, specimen: Specimen) -> bool:
        """Return False if the release compiles a probe, so that no part of it can fail."""
        record = self.compilers.compile(specimen, self.release, self.failure.until)
        self._tested_keys.add(specimen.key)
        return self.failure.shows(record) or record.verdict is not Verdict.COMPILES

    @property
    def effort(self) -> Effort:
        """The effort so far."""
        budget = self.compilers.budget
        slips = self.slips.total() + len(self._slip_keys)
        return Effort(len(self._tested_keys), budget.ran, slips, budget.elapsed_seconds)
