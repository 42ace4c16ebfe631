"""Does a specimen still show the failure, and only on the releases that it should? The kinds of
failure differ in what counts as the same one; memory and budget are common to all.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
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


class BudgetSpent(Exception):
    """No compile is left; the best so far stands."""


@dataclass
class Budget:
    """What reduction may spend: compiles, or seconds; None is no limit."""

    compiles: int | None = None
    seconds: float | None = None
    ran: int = 0
    _started: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """Count seconds from now on."""
        self._started = time.monotonic()

    def spend(self) -> None:
        """Count one compile; raises BudgetSpent when none is left."""
        if self.compiles is not None and self.ran >= self.compiles:
            raise BudgetSpent
        if self.seconds is not None and self.elapsed >= self.seconds:
            raise BudgetSpent
        self.ran += 1

    def lift(self) -> None:
        """Allow the few compiles that the end takes."""
        self.compiles = self.seconds = None

    @property
    def elapsed(self) -> float:
        """Seconds since `begin`."""
        return time.monotonic() - self._started


@dataclass(frozen=True)
class SameFailure:
    """What counts as the same failure.

    `shows` recognises it in a record of the failing release; `until` is the last stage that has to
    run there, `elsewhere` the last that must end well on other releases, None for all stages. Of a
    slow compile other releases must be `faster` by this factor; 0 leaves their time open.
    """

    shows: Callable[[Record], bool]
    until: str | None = None
    elsewhere: str | None = None
    faster: float = 0.0


def same_signature(failing: Record) -> SameFailure:
    """The same code, stage, function and message: the identity of a failure."""
    signature = str(failing.signature)

    def shows(record: Record) -> bool:
        return record.verdict is Verdict.FAILS and record.signature == signature

    elsewhere = None
    if signature.startswith(_KNOWN_EARLY):
        elsewhere = "llir"
    stage = signature.split(":")[1]
    if stage in STAGES:
        return SameFailure(shows, stage, elsewhere)
    return SameFailure(shows, elsewhere, elsewhere)


def same_code(failing: Record) -> SameFailure:
    """The same code. The message of an autotuner's fault names the keys that it is about, and a
    reduction has fewer of them: there the message is no part of the identity.
    """

    def shows(record: Record) -> bool:
        return record.verdict is Verdict.FAILS and record.code == failing.code

    return SameFailure(shows)


def still_slow(_: Record) -> SameFailure:
    """A compile that ends well, not before some seconds, and much sooner on other releases."""

    def shows(record: Record) -> bool:
        return record.verdict is Verdict.COMPILES and record.seconds >= LEAST_SECONDS

    return SameFailure(shows, faster=TIMES)


class Oracle:
    """Whether a specimen shows the failure on `release` and compiles on the contrast releases.

    The failing release is asked first and only up to the failing stage: that rejects most
    candidates. Every answer is remembered.
    """

    def __init__(
        self,
        compilers: Compilers,
        release: str,
        failure: SameFailure,
        contrasts: Sequence[str],
        budget: Budget,
    ) -> None:
        self.contrasts, self.budget = tuple(contrasts), budget
        self._compilers, self._release, self._failure = compilers, release, failure
        self._records: dict[tuple[str, str], Record] = {}
        self._slips: dict[str, str] = {}
        self._fails_elsewhere: set[str] = set()

    def __call__(self, specimen: Specimen) -> bool:
        """Whether it shows the failure on its release and none on the contrast releases."""
        if not self.fails(specimen):
            return False
        if all(self._passes(specimen, release) for release in self.contrasts):
            return True
        self._fails_elsewhere.add(specimen.key)
        return False

    def fails(self, specimen: Specimen) -> bool:
        """Whether it shows the failure on its release, whatever others make of it."""
        known = (specimen.key, self._release) in self._records
        record = self._record(specimen, self._release, self._failure.until)
        if self._failure.shows(record):
            return True
        # A probe that comes back as a candidate is no second slip.
        if not known and record.verdict is Verdict.FAILS and record.signature:
            self._slips[specimen.key] = record.signature
        return False

    def hides(self, specimen: Specimen) -> bool:
        """Whether anything in it could fail: false when the release compiles all of it as it
        should.
        """
        record = self._record(specimen, self._release, self._failure.until)
        return self._failure.shows(record) or record.verdict is not Verdict.COMPILES

    @property
    def asked(self) -> int:
        """How many specimens the failing release was asked about."""
        return sum(release == self._release for _, release in self._records)

    @property
    def slips(self) -> Counter[str]:
        """How many specimens failed with each other signature."""
        return Counter(self._slips.values())

    @property
    def slipped(self) -> int:
        """How many specimens were refused because they fail differently, or elsewhere too."""
        return len(self._slips) + len(self._fails_elsewhere)

    def _passes(self, specimen: Specimen, release: str) -> bool:
        here = self._record(specimen, self._release, self._failure.until)
        there = self._record(specimen, release, self._failure.elsewhere)
        quick = there.seconds * self._failure.faster <= here.seconds
        return there.verdict is Verdict.COMPILES and quick

    def _record(self, specimen: Specimen, release: str, until: str | None) -> Record:
        question = (specimen.key, release)
        if question not in self._records:
            self.budget.spend()
            self._records[question] = self._compilers.compile(specimen, release, until)
        return self._records[question]
