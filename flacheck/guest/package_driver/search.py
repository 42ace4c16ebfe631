"""The order in which operators are called, outer ones first, and when to stop."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .calls import Caller, CallResult
from .operators import LAYER, METHOD, Operator
from .plans import CallPlan
from .turnings import Turnings
from .variations import Variations

# Calls until a plan works: of an operator's first, of its usual variants, of those that look for a
# missing kernel.
_TRIES, _USUAL_TRIES, _UNUSUAL_TRIES = 14, 5, 3
# Calls of what the package passes: it may be refused for a gradient that nobody asked for.
_PASSED_TRIES = 2
# Calls of what stands for an operator of torch's that are made whatever they record.
_OF_TORCHS = 4
# Calls on the way to one kernel, and of those what an error suggests.
_MOST_TURNED, _MOST_TURNS, _MOST_REPAIRS = 16, 3, 2
# Of these, how many may take all the time that a call has.
_MOST_SLOW = 2
# That one operator branches to.
_MOST_KERNELS = 40
# Times the budget that a slow machine may take, in CPU seconds.
_PATIENCE = 3.0
# Seconds of work without a new kernel after which an operator's further variants are left.
_FRUITLESS, _FRUITLESS_BEHIND_DOORS = 0.4, 0.2
# What variants are called that add or leave out arguments, and how many of one operator are varied
# in turn.
_DOORS = ("with ", "without ")
_MOST_DOORS = 2
_KEPT_FAILURES = 6
# Of an error's text.
_SAID = 300
# Calls of one plan and its repairs, however much each of them helps.
_MOST_CALLS = 60
# Methods of objects that are searched in vain for a kernel before further ones are left: a package
# may have dozens of classes that do the same in other formats.
_FRUITLESS_METHODS = 24
# What ending takes after the last call.
_LEAVING = 3.0


class OperatorSearch:
    """Calls operators until their kernels are recorded or the time is over; fills a `report`, and
    says by `tell` what it is about to call."""

    def __init__(
        self,
        operators: Sequence[Operator],
        caller: Caller,
        dtypes: Sequence[str],
        seconds: float,
        tell: Callable[[str], None] = lambda doing: None,
        clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._tell, self._clock = tell, clock
        # The clock counts work; a machine on which that takes far longer ends all the same.
        self._patience = seconds * _PATIENCE
        self._operators, self._caller, self._dtypes = operators, caller, dtypes
        self._recipe = caller.recipe
        self._end = self._until = seconds - _LEAVING
        # The plan that others vary, and how many tries each of those is worth.
        self._bases: dict[str, tuple[CallPlan, int]] = {}
        self._slow: set[str] = set()
        # Where none worked: the plan whose error none before it had.
        self._furthest: dict[str, CallPlan] = {}
        # What is called again in other dtypes: with each plan, whether it recorded a kernel.
        self._worked: list[tuple[Operator, CallPlan, bool]] = []
        # The plans of which a kernel did not take a launch.
        self._refused: set[str] = set()
        # What is called now is a variant of a variant: another dtype of it is worth nothing unless
        # it recorded a kernel.
        self._behind_doors = False
        # For each kernel, the methods of objects that were searched for it in vain.
        self._in_vain: Counter[str] = Counter()
        self.late = False
        self.report: dict[str, dict[str, Any]] = {}

    def run(self) -> None:
        """Everything, in the order of its worth; a round ends with its share of the time."""
        outer = [each for each in self._operators if each.outer and each.kind != LAYER]
        layers = [each for each in self._operators if each.outer and each.kind == LAYER]
        inner = [each for each in self._operators if not each.outer]
        # The last share is left for the other dtypes.
        rounds = (
            (self._plain, outer, 0.45),
            (self._usual, outer, 0.51),
            (self._turned, outer, 0.55),
            (self._unusual, outer, 0.6),
            (self._plain, layers, 0.64),
            (self._missing, inner, 0.78),
            (self._usual, layers, 0.8),
            (self._unusual, layers, 0.82),
        )
        for step, operators, share in rounds:
            self._until = self._end * share
            if step == self._missing:
                operators = sorted(operators, key=self._worth)
            self._all(step, operators)
        # A kernel that was never recorded is worth more than another dtype of those that were.
        self._until = self._end * 0.95
        uncalled = [each for each in inner if each.name not in self.report]
        self._all(self._missing, [each for each in uncalled if self._unrecorded(each)])
        self._until = self._end
        self._other_dtypes()

    @property
    def cut(self) -> list[str]:
        """The operators that the time did not suffice to call, though a kernel of theirs was not
        recorded."""
        return [
            operator.name
            for operator in self._operators
            if self._unrecorded(operator)
            and operator.name not in self.report
            and self._recipe.skips(operator) is None
        ]

    def _all(self, step: Callable[[Operator], None], operators: Iterable[Operator]) -> None:
        for operator in operators:
            if self._over():
                return
            reason = self._recipe.skips(operator)
            if reason is None and step == self._missing and self._is_hopeless(operator):
                reason = "many methods that lead to the same kernels launched none"
            if reason:
                self._entry(operator)["skipped"] = reason
                continue
            missing = self._unrecorded(operator)
            self._tell(f"calling {operator.name}")
            self._step(step, operator)
            if operator.is_of_object and missing == self._unrecorded(operator):
                self._in_vain.update(missing)

    def _is_hopeless(self, operator: Operator) -> bool:
        """Whether each kernel that a method may still record was sought in many others."""
        sought = [self._in_vain[kernel] for kernel in self._unrecorded(operator)]
        return operator.is_of_object and bool(sought) and min(sought) >= _FRUITLESS_METHODS

    def _step(self, step: Callable[[Operator], None], operator: Operator) -> None:
        """What objects of somebody else's classes do to us ends the step, not the drive."""
        try:
            step(operator)
        except Exception as error:
            said = f"flacheck failed: {type(error).__name__}: {error}"
            self._entry(operator)["failures"].setdefault("driver", said[:_SAID])

    def _over(self) -> bool:
        return self._clock() > self._until or time.process_time() > self._patience

    def _worth(self, operator: Operator) -> tuple[bool, float, int]:
        """Operators that miss most kernels come first: what they launch records others, too."""
        missing = len(self._unrecorded(operator))
        return operator.is_built, -missing / len(operator.kernels), -missing

    def _unrecorded(self, operator: Operator) -> frozenset[str]:
        return operator.kernels - self._caller.recorded

    def _entry(self, operator: Operator) -> dict[str, Any]:
        if operator.name not in self.report:
            counts = {"calls": 0, "launches": 0, "worked": [], "failures": {}}
            self.report[operator.name] = {"kernels": sorted(operator.kernels), **counts}
        return self.report[operator.name]

    def _variations(self, operator: Operator) -> Variations:
        return Variations(operator, self._caller.shapes)

    def _base(self, operator: Operator) -> tuple[CallPlan, int]:
        return self._bases.get(operator.name) or (self._recipe.plain(operator), 1)

    def _plain(self, operator: Operator) -> None:
        base, tries = self._recipe.plain(operator), 1
        of_torch = list(self._caller.as_torch(operator))
        as_torch = self._as_torch(operator, of_torch[:_OF_TORCHS])
        worked = self._repaired(operator, base, _TRIES)
        if worked:
            base, tries = worked, _USUAL_TRIES
        elif as_torch:
            base, tries = as_torch, _USUAL_TRIES
        else:
            base = self._furthest.get(operator.name, base)
        if self._unrecorded(operator):
            self._as_torch(operator, of_torch[_OF_TORCHS:])
        self._bases[operator.name] = (base, tries)
        for variant in self._recipe.variants(operator, base):
            self._repaired(operator, variant, 1)

    def _as_torch(self, operator: Operator, plans: Iterable[CallPlan]) -> CallPlan | None:
        """Calls what stands for an operator of torch's as torch's tests call that. The first of
        these calls that worked."""
        first = None
        for plan in plans:
            worked = self._repaired(operator, plan, 1)
            first = first or (worked and worked.but(torchs=False))
        return first

    def _usual(self, operator: Operator) -> None:
        base, tries = self._base(operator)
        for plan in self._variations(operator).usual(base):
            self._repaired(operator, plan, tries)

    def _unusual(self, operator: Operator) -> None:
        """One thing changed at a time; then two, the first of which adds an argument or takes one
        away: some branches are behind two doors."""
        base, tries = self._base(operator)
        opened = self._varied(operator, base, min(_UNUSUAL_TRIES, tries), _FRUITLESS)
        self._behind_doors = True
        for plan in opened:
            self._varied(operator, plan, 1, _FRUITLESS_BEHIND_DOORS)
        self._behind_doors = False

    def _varied(
        self, operator: Operator, base: CallPlan, tries: int, fruitless: float
    ) -> list[CallPlan]:
        """Those of the variants with other arguments that work, while a kernel is missing."""
        opened: list[CallPlan] = []
        missing, since = self._unrecorded(operator), self._clock()
        for plan in self._variations(operator).unusual(base):
            if missing != self._unrecorded(operator):
                missing, since = self._unrecorded(operator), self._clock()
            if not missing or self._over() or self._clock() - since > fruitless:
                return opened
            worked = self._repaired(operator, plan, tries)
            if worked and plan.label.startswith(_DOORS) and len(opened) < _MOST_DOORS:
                opened.append(worked)
        return opened

    def _turned(self, operator: Operator) -> None:
        """Calls that turn where the one before did not, on the way to kernels that are missing."""
        base, _ = self._base(operator)
        if len(operator.kernels) > _MOST_KERNELS:
            # It offers others rather than branches to them.
            return
        for kernel in sorted(self._unrecorded(operator)):
            home = kernel.partition(":")[0]
            turnings = Turnings(kernel, frozenset((home, operator.source.__module__)))
            if turnings:
                self._on_the_way(operator, base, turnings, kernel)

    def _on_the_way(
        self, operator: Operator, base: CallPlan, turnings: Turnings, kernel: str
    ) -> None:
        """By as few turns as there can be: one more turn is another condition met."""
        variations = self._variations(operator)
        waiting = deque([(base, _MOST_TURNS)])
        seen: set[str] = set()
        slow = 0
        while waiting and len(seen) < _MOST_TURNED and slow < _MOST_SLOW and not self._over():
            current, turns = waiting.popleft()
            if current.identity in seen:
                continue
            seen.add(current.identity)
            result = self._call(operator, current, self._dtypes[0], turnings)
            if kernel in self._caller.recorded:
                return
            # Another way may be shorter.
            slow += result.error is not None and result.error.kind == "TooLong"
            plans = list(variations.turned(current, turnings.wanted))
            if result.error is not None and not result.worked:
                repairs = variations.repairs(current, result.stage, result.error)
                plans = [*repairs[:_MOST_REPAIRS], *plans]
            if turns:
                waiting += [(plan.but("turned"), turns - 1) for plan in plans]

    def _missing(self, operator: Operator) -> None:
        # What its callers in the package pass comes before what its signature may mean.
        for plan in self._caller.passed(operator):
            worked = self._repaired(operator, plan, _PASSED_TRIES)
            if worked and self._unrecorded(operator):
                self._bases[operator.name] = (worked, 1)
                self._unusual(operator)
        for step in (self._plain, self._usual, self._turned, self._unusual):
            if self._unrecorded(operator) and not self._over():
                step(operator)

    def _repaired(self, operator: Operator, plan: CallPlan, tries: int) -> CallPlan | None:
        """The first that works of this plan and those its errors suggest; None if none does. Where
        a repair leads to another error than any before, it helped: that error's repairs come first,
        and the call was no try."""
        waiting, seen = deque([plan]), set()
        errors: set[str] = set()
        calls = 0
        worked: CallPlan | None = None
        while waiting and tries and operator.name not in self._slow and not self._over():
            current = waiting.popleft()
            if current.identity in seen:
                continue
            seen.add(current.identity)
            calls += 1
            result = self._call(operator, current, self._dtypes[0])
            error = result.error
            if result.worked:
                fine = current
                if error is not None:
                    fine = current.but(training=False)
                if result.refused is None:
                    return fine
                # A kernel does not take what it was launched with; the call is one that works.
                worked, error = worked or fine, result.refused
            assert error is not None
            if error.kind == "TooLong":
                self._slow.add(operator.name)
            repairs = self._variations(operator).repairs(current, result.stage, error)
            said = error.identity
            if said in errors or calls > _MOST_CALLS:
                tries -= 1
                waiting += repairs
            else:
                errors.add(said)
                tries -= len(errors) == 1
                waiting.extendleft(reversed(repairs))
                self._furthest[operator.name] = current
        return worked

    def _call(
        self, operator: Operator, plan: CallPlan, dtype: str, watch: Turnings | None = None
    ) -> CallResult:
        result = self._caller.call(operator, plan, dtype, watch)
        entry, label = self._entry(operator), plan.label
        entry["calls"] += 1
        entry["launches"] += result.launches
        if dtype != self._dtypes[0]:
            label = f"{label}, {dtype}"
        elif result.launches and (result.recorded or self._is_worth_more(operator, plan, result)):
            self._worked.append((operator, plan, bool(result.recorded)))
            if result.refused is not None:
                self._refused.add(operator.name + plan.identity)
        if result.error is None or result.worked:
            entry["failures"].pop(label, None)
            if label not in entry["worked"]:
                entry["worked"].append(label)
        elif len(entry["failures"]) < _KEPT_FAILURES:
            entry["failures"].setdefault(label, f"{result.stage}: {result.error.brief()}")
        return result

    def _is_worth_more(self, operator: Operator, plan: CallPlan, result: CallResult) -> bool:
        """Whether a plan that recorded no new kernel is called in other dtypes, too. Variants of
        variants are not, nor are torch's calls, which are many and small, nor the methods of
        objects: many an optimizer is another one's with other words."""
        is_object = operator.kind == METHOD
        return result.worked and not self._behind_doors and not plan.torchs and not is_object

    def _other_dtypes(self) -> None:
        """What launched once more, those that recorded a kernel first."""
        for telling in (True, False):
            for dtype in self._dtypes[1:]:
                for operator, plan, recorded in list(self._worked):
                    self.late = self._over()
                    if self.late:
                        return
                    if recorded is telling and self._is_worth(operator, plan):
                        self._call(operator, plan, dtype)

    def _is_worth(self, operator: Operator, plan: CallPlan) -> bool:
        """Whether a plan is worth another dtype: one that a kernel refused is while none is known
        that it takes."""
        if operator.name in self._slow:
            return False
        refused = operator.name + plan.identity in self._refused
        return not refused or bool(self._unrecorded(operator))
