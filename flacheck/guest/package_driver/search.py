"""The order in which operators are called, and when to stop: outer ones first, then what still
misses a kernel.
"""

from __future__ import annotations

import time
from collections import deque

from .operators import LAYER
from .repairs import repairs
from .variants import unusual, usual

# Calls until a plan works: of an operator's first, of its usual variants, of those that look for a
# missing kernel.
_TRIES, _USUAL_TRIES, _UNUSUAL_TRIES = 14, 5, 3
# CPU seconds without a new kernel after which an operator's further variants are left.
_FRUITLESS = 0.4
_KEPT_FAILURES = 6
# CPU seconds that ending takes after the last call.
_LEAVING = 3.0


class Search:
    """Calls operators until their kernels are recorded or the time is over; `report` says how each
    went.
    """

    def __init__(self, operators, caller, recipe, dtypes, seconds: float) -> None:
        self._operators, self._caller, self._recipe, self._dtypes = (
            operators,
            caller,
            recipe,
            dtypes,
        )
        self._end = seconds - _LEAVING
        self._until = self._end
        self._bases: dict[str, tuple] = {}
        self._slow: set[str] = set()
        self._worked: list = []
        self.late = False
        self.report: dict[str, dict] = {}

    def run(self) -> None:
        """Everything, in the order of its worth; each round may last until its share of the time is
        over.
        """
        outer = [
            operator for operator in self._operators if operator.outer and operator.kind != LAYER
        ]
        layers = [
            operator for operator in self._operators if operator.outer and operator.kind == LAYER
        ]
        inner = [operator for operator in self._operators if not operator.outer]
        rounds = (
            (self._plain, outer, 0.45),
            (self._usual, outer, 0.52),
            (self._unusual, outer, 0.58),
            (self._plain, layers, 0.64),
            (self._missing, inner, 0.78),
            (self._usual, layers, 0.8),
            (self._unusual, layers, 0.82),
        )
        for step, operators, share in rounds:
            self._until = self._end * share
            self._all(
                step, sorted(operators, key=self._worth) if step == self._missing else operators
            )
        self._until = self._end
        self._other_dtypes()

    def _all(self, step, operators) -> None:
        for operator in operators:
            if self._over():
                return
            reason = self._recipe.skips(operator)
            if reason:
                self._entry(operator)["skipped"] = reason
            else:
                step(operator)

    def _over(self) -> bool:
        return time.process_time() > self._until

    def _worth(self, operator) -> tuple:
        """Those first of whose kernels most are missing: little else is launched on the way to
        them.
        """
        missing = self._unrecorded(operator)
        return operator.kind == LAYER, -len(missing) / len(operator.kernels), -len(missing)

    def _unrecorded(self, operator) -> frozenset:
        return operator.kernels - self._caller.recorded

    def _entry(self, operator) -> dict:
        fresh = {
            "kernels": sorted(operator.kernels),
            "calls": 0,
            "launches": 0,
            "worked": [],
            "failures": {},
        }
        return self.report.setdefault(operator.name, fresh)

    def _base(self, operator) -> tuple:
        """The plan that others vary, and how many tries each of those is worth."""
        return self._bases.get(operator.name) or (self._recipe.plain(operator), 1)

    def _plain(self, operator) -> None:
        plan = self._recipe.plain(operator)
        worked = self._repaired(operator, plan, _TRIES)
        self._bases[operator.name] = (worked or plan, _USUAL_TRIES if worked else 1)
        for variant in self._recipe.variants(operator, worked or plan):
            self._repaired(operator, variant, 1)

    def _usual(self, operator) -> None:
        base, tries = self._base(operator)
        for plan in usual(operator, base, self._caller):
            self._repaired(operator, plan, tries)

    def _unusual(self, operator) -> None:
        base, tries = self._base(operator)
        missing, since = self._unrecorded(operator), time.process_time()
        for plan in unusual(operator, base, self._caller):
            if missing != self._unrecorded(operator):
                missing, since = self._unrecorded(operator), time.process_time()
            if not missing or self._over() or time.process_time() - since > _FRUITLESS:
                return
            self._repaired(operator, plan, min(_UNUSUAL_TRIES, tries))

    def _missing(self, operator) -> None:
        for step in (self._plain, self._usual, self._unusual):
            if self._unrecorded(operator) and not self._over():
                step(operator)

    def _repaired(self, operator, plan, tries: int):
        """The first plan that works of this one and those that its errors suggest; None when none
        does.
        """
        waiting, seen = deque([plan]), set()
        while waiting and tries and operator.name not in self._slow and not self._over():
            current = waiting.popleft()
            if current.identity in seen:
                continue
            seen.add(current.identity)
            tries -= 1
            outcome = self._call(operator, current, self._dtypes[0])
            if outcome.worked:
                return current if outcome.failure is None else current.but(training=False)
            if outcome.failure.kind == "TooLong":
                self._slow.add(operator.name)
            waiting.extend(repairs(operator, current, outcome, self._caller))
        return None

    def _call(self, operator, plan, dtype: str):
        outcome = self._caller.call(operator, plan, dtype)
        entry = self._entry(operator)
        entry["calls"] += 1
        entry["launches"] += outcome.launches
        label = plan.label if dtype == self._dtypes[0] else f"{plan.label}, {dtype}"
        if outcome.worked:
            entry["failures"].pop(label, None)
            entry["worked"] += [] if label in entry["worked"] else [label]
        elif len(entry["failures"]) < _KEPT_FAILURES:
            entry["failures"].setdefault(label, f"{outcome.stage}: {outcome.failure.brief()}")
        if dtype == self._dtypes[0] and outcome.launches and (outcome.worked or outcome.recorded):
            self._worked.append((operator, plan, bool(outcome.recorded)))
        return outcome

    def _other_dtypes(self) -> None:
        """What launched once more, those that recorded a kernel first."""
        for telling in (True, False):
            for dtype in self._dtypes[1:]:
                for operator, plan, recorded in list(self._worked):
                    self.late = self._over()
                    if self.late:
                        return
                    if recorded is telling and operator.name not in self._slow:
                        self._call(operator, plan, dtype)
