"""Does a specimen still show the failure, and only on the releases that it should? The kinds of
failure differ in what counts as the same one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from flacheck.analysis.slow import TIMES
from flacheck.model import Record, Verdict
from flacheck.repro.compilers import Compilers
from flacheck.repro.kernel.specimen import Specimen

# The stages that a compile can be ended after; "ast" and "load" are none.
STAGES = ("ttir", "ttgir", "llir", "ptx", "cubin", "amdgcn", "hsaco")

# Shared and tensor memory are laid out before the assembler runs, so nothing after it need run.
_KNOWN_EARLY = ("FC501", "FC504")

# What a reduced slow compile must still take: enough that a busy machine does not decide.
LEAST_SECONDS = 2.0


@dataclass(frozen=True)
class Effort:
    """Candidates, compiles, candidates that slipped into another failure, and seconds, so far."""

    asked: int
    ran: int
    slipped: int
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
    """Whether a specimen shows the failure on `release` and compiles on the contrast releases. The
    failing release is asked first and only up to the failing stage: that rejects most candidates.
    `slips` counts specimens by the signature of another failure that they showed."""

    compilers: Compilers
    release: str
    failure: SameFailure
    contrasts: Sequence[str]
    slips: Counter[str] = field(default_factory=Counter)
    _asked: set[str] = field(default_factory=set)
    _fails_elsewhere: set[str] = field(default_factory=set)

    def __call__(self, specimen: Specimen) -> bool:
        """Whether it shows the failure on its release and none on the contrast releases."""
        if not self.fails(specimen):
            return False
        here = self.compilers.compile(specimen, self.release, self.failure.until)
        for release in self.contrasts:
            there = self.compilers.compile(specimen, release, self.failure.elsewhere)
            quick = there.seconds * self.failure.faster <= here.seconds
            if there.verdict is not Verdict.COMPILES or not quick:
                self._fails_elsewhere.add(specimen.key)
                return False
        return True

    def fails(self, specimen: Specimen) -> bool:
        """Whether it shows the failure on its release, whatever others make of it."""
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
        slipped = self.slips.total() + len(self._fails_elsewhere)
        return Effort(len(self._asked), budget.ran, slipped, budget.elapsed)
