"""Launches in a further dtype that are derived from those of the same call in the first dtype.

A call in fp16 makes the launches of the same call in bf16, with another dtype in the description,
unless a kernel or its host function names a dtype. One in fp32 also does, unless the host reads
the size of an element. Whether a kernel's launches can be derived is therefore compared first: in
at least one call that was made in both dtypes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from ..recorder.journal import Journal, Line, identity_of
from .trust import CallTrust, LaunchTrust

# The dtypes whose launches may be derived, by the first dtype.
_OTHER_DTYPES = {"bf16": ("fp16", "fp32"), "fp16": ("bf16", "fp32")}
_LARGER_DTYPE = "fp32"
_LARGER_BY = 2
# A tensor whose address may be divisible by more if its elements are larger.
_UNALIGNED = re.compile(r'"align":(?!16\b)')
# The description of a dtype in a launch's form, and in its line.
_IN_FORM = '"dtype":"%s"'
_IN_LINE = '"dtype": "%s"'


@dataclass(frozen=True)
class CallKey:
    """A call without its dtype.

    Attributes:
        operator: the operator's name.
        plan: the identity of the plan.
        sets_dtype: True if the plan sets a dtype, so that its effect depends on the call's.
    """

    operator: str
    plan: str
    sets_dtype: bool = False


@dataclass(frozen=True)
class _Call:
    """A call in the first dtype: its launches in their order, and the trust in them."""

    launches: tuple[str, ...]
    trust: CallTrust


class _ComparedKernels:
    """The kernels whose launches in one other dtype were compared with derived ones.

    Attributes:
        equal: those with a derived launch that a call made as well, by the call's operator.
        different: those with a launch that differed from the derived one, by operator.
    """

    def __init__(self) -> None:
        self.equal: defaultdict[str, set[str]] = defaultdict(set)
        self.different: defaultdict[str, set[str]] = defaultdict(set)

    def allows(self, operator: str, kernels: set[str]) -> bool:
        """Return True if all launches of these kernels that were compared are equal.

        Those of a kernel that differ in calls of another operator must be equal in one of this.
        """
        own_equal = self.equal.get(operator, set())
        own_different = self.different.get(operator, set())
        all_equal = set().union(*self.equal.values())
        all_different = set().union(*self.different.values())
        return kernels <= (all_equal - all_different) | (own_equal - own_different)


class DerivedLaunches:
    """Derives the launches of calls whose kernels have equal launches in both dtypes."""

    def __init__(self, journal: Journal, trust: LaunchTrust, first_dtype: str) -> None:
        self._journal = journal
        self._trust = trust
        self._first_dtype = first_dtype
        self._calls: dict[CallKey, _Call] = {}
        other_dtypes = _OTHER_DTYPES.get(first_dtype, ())
        self._comparisons = {dtype: _ComparedKernels() for dtype in other_dtypes}
        if other_dtypes:
            journal.keep_forms()

    def end_call(self, call: CallKey, dtype: str, trust: CallTrust) -> None:
        """Note the launches of a call before their trust is set.

        Args:
            call: The operator and the plan.
            dtype: The dtype of the call.
            trust: The trust in its launches.
        """
        launches = self._trust.launches_of_call
        if dtype == self._first_dtype:
            self._calls[call] = _Call(launches, trust)
            return
        comparison = self._comparisons.get(dtype)
        if comparison is None or call not in self._calls:
            return
        equal = comparison.equal[call.operator]
        different = comparison.different[call.operator]
        derived = {self._derive(launch, dtype): launch for launch in self._calls[call].launches}
        for identity in derived.keys() ^ set(launches):
            launch = derived.get(identity, identity)
            different.add(self._trust.kernel_of(launch))
        for identity in derived.keys() & set(launches):
            equal.add(self._trust.kernel_of(identity))

    def derive(self, call: CallKey, dtype: str, label: str) -> int:
        """Record the derived launches of a call; return their number, 0 if none can be derived.

        Args:
            call: The operator and the plan, which was called in the first dtype.
            dtype: The dtype of the derived launches.
            label: The remark for their lines, as that of a call.
        """
        comparison = self._comparisons.get(dtype)
        original = self._calls.get(call)
        if comparison is None or original is None:
            return 0
        kernels = {self._trust.kernel_of(launch) for launch in original.launches}
        if not comparison.allows(call.operator, kernels):
            return 0
        larger = dtype == _LARGER_DTYPE
        if larger and call.operator not in comparison.equal:
            # It may refuse a dtype that its kernels take.
            return 0
        if larger and (call.sets_dtype or any(map(self._has_unaligned, original.launches))):
            return 0
        before, after = _IN_LINE % self._first_dtype, _IN_LINE % dtype
        for launch in original.launches:
            identity = self._derive(launch, dtype)
            line: Line = {
                "derived": identity,
                "from": launch,
                "replace": [before, after],
                "by": label,
            }
            if larger:
                line["element_scale"] = _LARGER_BY
            self._journal.derive(identity, line)
            self._trust.add_kernel(self._trust.kernel_of(launch))
        self._trust.end_call(original.trust)
        return len(original.launches)

    def _has_unaligned(self, launch: str) -> bool:
        return _UNALIGNED.search(self._journal.form(launch)) is not None

    def _derive(self, launch: str, dtype: str) -> str:
        """Return the identity of a launch in another dtype."""
        before, after = _IN_FORM % self._first_dtype, _IN_FORM % dtype
        return identity_of(self._journal.form(launch).replace(before, after))
