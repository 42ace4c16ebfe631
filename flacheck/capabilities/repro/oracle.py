"""Does a specimen still show the failure, and only on the releases that it should? The kinds of
failure differ in what counts as the same one."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from flacheck.analysis.slow import TIMES
from flacheck.capabilities.repro.compilers import Compilers
from flacheck.capabilities.repro.identity import failing_pass
from flacheck.capabilities.repro.kernel.operation_types import (
    OperationTypes,
    operation_types,
    strangers,
)
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.versions import ReleaseVerdict
from flacheck.model import Record, Verdict

# The stages that a compile can be ended after; "ast" and "load" are none.
STAGES = ("ttir", "ttgir", "llir", "ptx", "cubin", "amdgcn", "hsaco")

# Shared and tensor memory are laid out before the assembler runs, so nothing after it need run.
_KNOWN_EARLY = ("FC501", "FC504")

# What a reduced slow compile must still take: enough that a busy machine does not decide.
LEAST_SECONDS = 2.0


@dataclass(frozen=True)
class Effort:
    """Candidates, compiles, candidates that slipped into another failure, and seconds, so far."""

    candidates: int
    ran: int
    slips: int
    seconds: float


@dataclass(frozen=True)
class SameFailure:
    """What counts as the same failure: a record of the failing release with this verdict and, where
    they are given, this signature, this code, and at least these seconds. `until` is the last stage
    that has to run to see it, `elsewhere` the last that must end well on other releases, None for
    all stages. Other releases must be `faster` by this factor; 0 leaves their time open."""

    verdict: Verdict = Verdict.FAILS
    signature: str | None = None
    code: str | None = None
    seconds: float = 0.0
    until: str | None = None
    elsewhere: str | None = None
    faster: float = 0.0

    def agrees(self, expected: ReleaseVerdict, record: Record) -> bool:
        """Whether another release's record of a specimen is as that of the original was."""
        there = ReleaseVerdict.of(record)
        if self.signature is None and expected.verdict is Verdict.FAILS:
            return record.code == (expected.signature or "").partition(":")[0]
        return expected.agrees(there)

    def shows(self, record: Record) -> bool:
        """Whether a record of the failing release is of this failure."""
        return (
            record.verdict is self.verdict
            and self.signature in (None, record.signature)
            and self.code in (None, record.code)
            and record.seconds >= self.seconds
        )


def same_signature(failing: Record) -> SameFailure:
    """The same code, stage, function and message: the identity of a failure."""
    signature, elsewhere = str(failing.signature), None
    if signature.startswith(_KNOWN_EARLY):
        elsewhere = "llir"
    until: str | None = signature.split(":")[1]
    if until not in STAGES:
        until = elsewhere
    return SameFailure(signature=signature, until=until, elsewhere=elsewhere)


def same_code(failing: Record) -> SameFailure:
    """The same code: the message names the keys at fault, and a reduction has fewer of them."""
    return SameFailure(code=str(failing.code))


def still_slow(_: Record) -> SameFailure:
    """A compile that ends well, not before some seconds, and much sooner on other releases."""
    return SameFailure(Verdict.COMPILES, seconds=LEAST_SECONDS, faster=TIMES)


@dataclass
class Oracle:
    """Whether a specimen shows the failure on `release` and does what the original does on the
    releases that are `kept`. `operations` are the original's: a candidate has none on other types.
    `failing_pass` is given where the failure's words do not tell it from others. The failing
    release is asked first and only up to the failing stage: that rejects most candidates. `slips`
    counts specimens by the signature of another failure that they showed."""

    compilers: Compilers
    release: str
    failure: SameFailure
    contrasts: Mapping[str, ReleaseVerdict]
    operations: frozenset[OperationTypes] = frozenset()
    failing_pass: str | None = None
    slips: Counter[str] = field(default_factory=Counter)
    _asked: set[str] = field(default_factory=set)
    _slipped: set[str] = field(default_factory=set)
    _passes: dict[str, str | None] = field(default_factory=dict)

    def check(self) -> None:
        """Raises BudgetSpent when the time is over."""
        self.compilers.budget.check()

    def __call__(self, specimen: Specimen) -> bool:
        """Whether it shows the failure, and what the original shows on the kept releases."""
        if not self.fails(specimen):
            return False
        here = self.compilers.compile(specimen, self.release, self.failure.until)
        for release, expected in self.contrasts.items():
            there = self.compilers.compile(specimen, release, self.failure.elsewhere)
            quick = there.seconds * self.failure.faster <= here.seconds
            if not self.failure.agrees(expected, there) or not quick:
                self._slipped.add(specimen.key)
                return False
        if self.failing_pass and self._pass_of(specimen) != self.failing_pass:
            self._slipped.add(specimen.key)
            return False
        return True

    def _pass_of(self, specimen: Specimen) -> str | None:
        if specimen.key not in self._passes:
            found = failing_pass(specimen, self.release, self.compilers)
            self._passes[specimen.key] = found
        return self._passes[specimen.key]

    def fails(self, specimen: Specimen) -> bool:
        """Whether it shows the failure on its release, whatever others make of it."""
        if self.operations and strangers(operation_types(specimen), self.operations):
            return False
        record = self.compilers.compile(specimen, self.release, self.failure.until)
        known = specimen.key in self._asked
        self._asked.add(specimen.key)
        if self.failure.shows(record):
            return True
        # A probe that comes back as a candidate is no second slip.
        if not known and record.verdict is Verdict.FAILS and record.signature:
            self.slips[record.signature] += 1
        return False

    def hides(self, specimen: Specimen) -> bool:
        """Whether anything in it could fail: not when the release compiles it as it should."""
        record = self.compilers.compile(specimen, self.release, self.failure.until)
        self._asked.add(specimen.key)
        return self.failure.shows(record) or record.verdict is not Verdict.COMPILES

    @property
    def effort(self) -> Effort:
        """What was spent so far."""
        budget = self.compilers.budget
        slipped = self.slips.total() + len(self._slipped)
        return Effort(len(self._asked), budget.ran, slipped, budget.elapsed_seconds)
