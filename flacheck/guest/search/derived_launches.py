"""Launches in a further dtype that are derived from those of the same call in the first dtype.

A call in fp16 makes the launches of the same call in bf16, with another dtype in the description,
unless a kernel or its host function names a dtype. Whether a kernel's launches can be derived is
therefore compared first: in at least one call that was made in both dtypes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..recorder.journal import Journal, identity_of
from .trust import LaunchTrust, Rank

# Dtypes of one size, so that a launch's tensors lie in memory alike.
_SAME_SIZE = {"bf16": "fp16", "fp16": "bf16"}
# The description of a dtype in a launch's form, and in its line.
_IN_FORM = '"dtype":"%s"'
_IN_LINE = '"dtype": "%s"'


@dataclass(frozen=True)
class _Call:
    """A call in the first dtype: its launches in their order, and the trust in them."""

    launches: tuple[str, ...]
    rank: Rank
    has_guesses: bool


class DerivedLaunches:
    """Derives the launches of calls whose kernels have equal launches in both dtypes."""

    def __init__(self, journal: Journal, trust: LaunchTrust, first_dtype: str) -> None:
        self._journal = journal
        self._trust = trust
        self._first_dtype = first_dtype
        self._other_dtype = _SAME_SIZE.get(first_dtype)
        self._calls: dict[str, _Call] = {}
        # Kernels with a derived launch that a call made as well, and those with one that differed.
        self._equal: set[str] = set()
        self._different: set[str] = set()
        if self._other_dtype is not None:
            journal.keep_forms()

    def end_call(self, call: str, dtype: str, rank: Rank, has_guesses: bool) -> None:
        """Note the launches of a call before their trust is set.

        Args:
            call: The operator and the plan.
            dtype: The dtype of the call.
            rank: The trust in its arguments.
            has_guesses: True if an argument was inferred without any evidence.
        """
        launches = self._trust.launches_of_call
        if dtype == self._first_dtype:
            self._calls[call] = _Call(launches, rank, has_guesses)
        elif dtype == self._other_dtype and call in self._calls:
            derived = {self._derive(launch): launch for launch in self._calls[call].launches}
            for identity in derived.keys() ^ set(launches):
                launch = derived.get(identity, identity)
                self._different.add(self._trust.kernel_of(launch))
            for identity in derived.keys() & set(launches):
                self._equal.add(self._trust.kernel_of(identity))

    def derive(self, call: str, dtype: str, label: str) -> int:
        """Record the derived launches of a call; return their number, 0 if none can be derived.

        Args:
            call: The operator and the plan, which was called in the first dtype.
            dtype: The dtype of the derived launches.
            label: The remark for their lines, as that of a call.
        """
        if dtype != self._other_dtype or call not in self._calls:
            return 0
        original = self._calls[call]
        kernels = {self._trust.kernel_of(launch) for launch in original.launches}
        if kernels & self._different or not kernels <= self._equal:
            return 0
        before, after = _IN_LINE % self._first_dtype, _IN_LINE % dtype
        for launch in original.launches:
            identity = self._derive(launch)
            line = {"derived": identity, "from": launch, "replace": [before, after], "by": label}
            self._journal.derive(identity, line)
            self._trust.add_kernel(self._trust.kernel_of(launch))
        self._trust.end_call(original.rank, original.has_guesses)
        return len(original.launches)

    def _derive(self, launch: str) -> str:
        """Return the identity of a launch in the other dtype."""
        before, after = _IN_FORM % self._first_dtype, _IN_FORM % self._other_dtype
        return identity_of(self._journal.form(launch).replace(before, after))
