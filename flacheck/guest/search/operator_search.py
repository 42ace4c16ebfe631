"""A list of generators of calls, tried in order of trust until all kernels are recorded."""

import functools
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..engine.outcomes import outcome_of
from ..inference.operators import KERNEL, LAYER, Operator
from ..inference.plans import CallPlan
from ..inference.shapes import SIZES
from .calls import Caller, CallResult
from .real_sizes import RealSizes
from .variations import Variations

# Calls without success: of an operator's first plan, and of its variants.
_PLAIN_TRIES = 14
_VARIANT_TRIES = 2
# A slow machine may take this multiple of the budget in CPU seconds.
_MAX_SLOWDOWN = 3.0
_MAX_FAILURES = 6
_MAX_MESSAGE = 300
# Calls of one plan and its repairs, also if each repair leads to a new error.
_MAX_CALLS = 60
# The sizes of a kernel that is launched alone: blocks of this size suit products of matrices.
_SIZE_ALONE = 64
# Seconds of work that are left for the end of the capture.
_END_SECONDS = 3.0
_SHOW_SECONDS = 1.0

_Generator = Callable[[Operator], None]


class OperatorSearch:
    """Calls operators until their kernels are recorded or the time is over.

    Attributes:
        report: the calls of each operator and their failures.
        report_alone: the same of kernels that were launched alone.
        late: True if the time was over before every plan was called in every dtype.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        caller: Caller,
        dtypes: Sequence[str],
        seconds: float,
        show_progress: Callable[[str], None] = lambda activity: None,
        clock: Callable[[], float] = time.process_time,
        kernels_alone: Callable[[], Iterable[Operator]] = lambda: (),
        real_sizes: RealSizes | None = None,
    ) -> None:
        self._show_progress = show_progress
        self._clock = clock
        # Returns the kernels without a launch as operators.
        self._kernels_alone = kernels_alone
        self._operators = operators
        self._caller = caller
        self._dtypes = dtypes
        self._recipe = caller.recipe
        self._real_sizes = real_sizes or RealSizes()
        self._end = seconds - _END_SECONDS
        # The clock counts work. This limit ends the search on a machine that is far slower.
        self._cpu_limit = seconds * _MAX_SLOWDOWN
        self._slow_operators: set[str] = set()
        # Without a successful plan: the plan whose error no earlier plan had.
        self._furthest_plans: dict[str, CallPlan] = {}
        # The kernels that an operator has launched, and those launched by variants of one label.
        self._launched_kernels: defaultdict[str, set[str]] = defaultdict(set)
        self._kernels_by_variant: defaultdict[str, set[str]] = defaultdict(set)
        # The kernels that a call without an error has launched.
        self._computed_kernels: set[str] = set()
        # Calls to repeat in other dtypes, and True for one that a kernel refused.
        self._repeatable_calls: list[tuple[Operator, CallPlan, bool]] = []
        # The name of the phase, the calls so far, and when one was shown last.
        self._phase = ""
        self._call_count = 0
        self._last_shown = -_SHOW_SECONDS
        self.late = False
        self.report: dict[str, dict[str, Any]] = {}
        self.report_alone: dict[str, dict[str, Any]] = {}

    def run(self) -> None:
        """Run the generators of calls, then repeat the first call of each kernel in all dtypes."""
        outer, layers, inner = [], [], []
        for operator in self._operators:
            if not operator.outer:
                inner.append(operator)
            elif operator.kind == LAYER:
                layers.append(operator)
            else:
                outer.append(operator)
        self._run_phase("plain calls", self._call_plain, outer)
        self._run_phase("layers", self._call_plain, layers)
        # Most kernels of inner operators are launched by one call of the operator with the most.
        inner.sort(key=lambda operator: -len(self._missing_kernels(operator)))
        self._run_phase("inner functions", self._call_inner, inner)
        self._run_phase("kernels alone", self._launch_alone, self._kernels_alone())
        self._phase = "other dtypes"
        self._call_other_dtypes()

    @property
    def cut(self) -> list[str]:
        """The operators with a missing kernel that were not called for lack of time."""
        names = []
        for operator in self._operators:
            if operator.name not in self.report and self._missing_kernels(operator):
                names.append(operator.name)
        return names

    def _run_phase(self, phase: str, generator: _Generator, operators: Iterable[Operator]) -> None:
        """Make a generator's calls of each operator until the time is over."""
        self._phase = phase
        for operator in operators:
            if self._is_time_over():
                return
            _, error = outcome_of(functools.partial(generator, operator))
            if error is not None:
                # A package's objects have caused it in the driver.
                message = f"flacheck failed: {type(error).__name__}: {error}"
                failures = self._report_entry(operator)["failures"]
                failures.setdefault("driver", message[:_MAX_MESSAGE])

    def _is_time_over(self) -> bool:
        return self._clock() > self._end or time.process_time() > self._cpu_limit

    def _missing_kernels(self, operator: Operator) -> frozenset[str]:
        """Return the kernels of an operator without an accepted launch."""
        return operator.kernels - self._caller.recorded_kernels

    def _report_entry(self, operator: Operator) -> dict[str, Any]:
        """Return an operator's entry in the report."""
        report = self.report
        if operator.kind == KERNEL:
            report = self.report_alone
        if operator.name not in report:
            report[operator.name] = {
                "kernels": sorted(operator.kernels),
                "calls": 0,
                "launches": 0,
                "worked": [],
                "failures": {},
            }
        return report[operator.name]

    def _variations(self, operator: Operator) -> Variations:
        return Variations(operator, self._caller.shapes, self._real_sizes)

    def _call_plain(self, operator: Operator) -> None:
        """Call an operator as the recipe and its signature suggest, at all sizes."""
        plan = self._recipe.plain(operator).with_changes(sizes_from=self._real_sizes.first)
        success = self._call_with_repairs(operator, plan, _PLAIN_TRIES)
        base = success or self._furthest_plans.get(operator.name, plan)
        variations = self._variations(operator)
        self._call_variants(operator, base, variations)
        if success is None and operator.kind != LAYER:
            return
        for variant in variations.usual(base):
            # Layers pass lengths and states to operators that were called with them before.
            if operator.kind != LAYER or not self._is_covered(operator, variant):
                self._call_with_repairs(operator, variant, _VARIANT_TRIES)
        # An operator without a launch hardly leads to the selected kernels.
        is_useless = self._real_sizes.is_complete and not self._launched_kernels[operator.name]
        for variant in () if is_useless else variations.sizes(base):
            if not self._is_covered(operator, variant):
                self._call_with_repairs(operator, variant, 1)
        for variant in variations.options(base) if self._real_sizes.is_complete else ():
            self._call_with_repairs(operator, variant, 1)
        if self._missing_kernels(operator):
            inference = base.with_changes("inference", training=False)
            self._call_with_repairs(operator, inference, 1)

    def _call_variants(self, operator: Operator, base: CallPlan, variations: Variations) -> None:
        """Call an operator in each way that its recipe adds, with packed sequences, too."""
        for variant in self._recipe.variants(operator, base):
            self._call_with_repairs(operator, variant, 1)
            labelled = variant.with_changes(f"{variant.label}, packed")
            for packed in variations.packed(labelled):
                self._call_with_repairs(operator, packed, 1)

    def _is_covered(self, operator: Operator, variant: CallPlan) -> bool:
        """Return True if other calls made the variant's launches of all kernels of an operator."""
        if self._missing_kernels(operator):
            return False
        launched_kernels = self._launched_kernels[operator.name]
        return launched_kernels <= self._kernels_by_variant[variant.label]

    def _call_inner(self, operator: Operator) -> None:
        """Call an inner operator for kernels that are missing or launched by failed calls only."""
        if self._missing_kernels(operator) or operator.kernels - self._computed_kernels:
            self._call_plain(operator)

    def _launch_alone(self, operator: Operator) -> None:
        """Launch a kernel as the package's own code does, else with what the kernel implies."""
        sizes = dict.fromkeys(SIZES, _SIZE_ALONE)
        plan = self._recipe.plain(operator).with_changes(sizes=sizes, training=False)
        if self._launch_sites(operator, plan):
            return
        success = self._call_with_repairs(operator, plan, _PLAIN_TRIES)
        base = success or self._furthest_plans.get(operator.name, plan)
        if self._missing_kernels(operator):
            base = self._repair_kinds(operator, base)
        if base.dtypes and self._launch_sites(operator, plan.with_changes(dtypes=base.dtypes)):
            return
        if success is not None:
            for each in self._real_sizes.alone:
                sizes = {**success.sizes, **each.sizes}
                larger = success.with_changes(sizes=sizes, sizes_from=each.source)
                self._call_with_repairs(operator, larger, 1)

    def _launch_sites(self, operator: Operator, plan: CallPlan) -> bool:
        """Launch a kernel with the values of the package's launches; return True if it takes some.

        A None may be a default that no caller uses.
        """
        without_none = []
        for head_size, values in operator.sites:
            values = {name: value for name, value in values.items() if value is not None}
            without_none.append((head_size, values))
        for sites in (operator.sites, without_none):
            is_taken = False
            for number, (head_size, values) in enumerate(sites, 1):
                sizes = {"K": head_size, "V": head_size}
                site = plan.with_changes(f"its launch {number}", sizes=sizes, values=values)
                result = self._call(operator, site, self._dtypes[0])
                is_taken |= result.error is None and result.refusal is None
            if is_taken:
                return True
        return False

    def _repair_kinds(self, operator: Operator, plan: CallPlan) -> CallPlan:
        """Return a plan with kinds of arguments that lead furthest into a kernel's code.

        A kernel does not tell what its pointers point to, but Triton's front end refuses sums of
        floats as addresses or bounds of loops.
        """
        reached = _refused_line(self._call(operator, plan, self._dtypes[0]))
        tries = _MAX_CALLS
        while reached is not None and tries:
            furthest = reached
            for changed_plan in self._variations(operator).other_kinds(plan):
                if self._is_time_over() or not tries:
                    break
                tries -= 1
                line = _refused_line(self._call(operator, changed_plan, self._dtypes[0]))
                if line is None:
                    return changed_plan
                if line > furthest:
                    furthest, plan = line, changed_plan
                    break
            else:
                break
            reached = furthest
        return plan

    def _call_with_repairs(self, operator: Operator, plan: CallPlan, tries: int) -> CallPlan | None:
        """Return the first successful call of a plan and of the repairs that errors suggest.

        A repair that leads to a new error has helped: the repairs for that error come first, and
        the call does not count as a try.
        """
        variations = self._variations(operator)
        queue = deque([plan])
        visited: set[str] = set()
        errors: set[str] = set()
        while queue and tries and operator.name not in self._slow_operators:
            if self._is_time_over():
                break
            plan = queue.popleft()
            if plan.identity in visited:
                continue
            visited.add(plan.identity)
            result = self._call(operator, plan, self._dtypes[0])
            error = result.error
            if error is None:
                return plan
            if result.succeeded:
                # The backward is not implemented.
                return plan.with_changes(training=False)
            if error.kind == "TooLong":
                self._slow_operators.add(operator.name)
            repaired_plans = variations.after_error(plan, result.stage, error)
            if error.identity in errors or len(visited) > _MAX_CALLS:
                tries -= 1
                queue.extend(repaired_plans)
            else:
                if not errors:
                    tries -= 1
                errors.add(error.identity)
                queue.extendleft(reversed(repaired_plans))
                self._furthest_plans[operator.name] = plan
        return None

    def _call(self, operator: Operator, plan: CallPlan, dtype: str) -> CallResult:
        """Call an operator and add the result to the report."""
        self._call_count += 1
        self._show_call(operator, plan, dtype)
        result = self._caller.call(operator, plan, dtype)
        self._launched_kernels[operator.name] |= result.kernels
        sized_kernels = operator.kernels & result.kernels - self._kernels_by_variant[plan.label]
        is_first_at_size = self._real_sizes.is_complete and bool(sized_kernels)
        if result.succeeded:
            self._kernels_by_variant[plan.label] |= result.kernels
            self._computed_kernels |= result.kernels
        entry = self._report_entry(operator)
        entry["calls"] += 1
        entry["launches"] += result.launches
        label = plan.label
        if dtype != self._dtypes[0]:
            label = f"{label}, {dtype}"
        elif result.launches and _is_worth_repeating(operator, plan, result, is_first_at_size):
            self._repeatable_calls.append((operator, plan, result.refusal is not None))
        if result.error is None or result.succeeded:
            entry["failures"].pop(label, None)
            if label not in entry["worked"]:
                entry["worked"].append(label)
        elif len(entry["failures"]) < _MAX_FAILURES:
            entry["failures"].setdefault(label, f"{result.stage}: {result.error.brief()}")
        return result

    def _show_call(self, operator: Operator, plan: CallPlan, dtype: str) -> None:
        """Show the present call, at most once a second."""
        now = time.monotonic()
        if now - self._last_shown < _SHOW_SECONDS:
            return
        self._last_shown = now
        kernels = len(self._caller.recorded_kernels)
        call = f"call {self._call_count} of {operator.name} ({plan.label}, {dtype})"
        self._show_progress(f"{self._phase}, {kernels} kernels recorded: {call}")

    def _call_other_dtypes(self) -> None:
        """Repeat the first call of each kernel in the other dtypes."""
        for dtype in self._dtypes[1:]:
            for operator, plan, is_refused in self._repeatable_calls:
                self.late = self._is_time_over()
                if self.late:
                    return
                is_useless = is_refused and not self._missing_kernels(operator)
                if operator.name not in self._slow_operators and not is_useless:
                    self._call(operator, plan, dtype)


def _is_worth_repeating(
    operator: Operator, plan: CallPlan, result: CallResult, is_first_at_size: bool
) -> bool:
    """Return True if a call is repeated in other dtypes: it recorded a kernel, or may do so there.

    A kernel may accept only one dtype, which need not be the first.
    """
    if result.new_kernels or is_first_at_size:
        return True
    return result.refusal is not None and plan.label == "plain" and not plan.dtypes


def _refused_line(result: CallResult) -> int | None:
    """Return the line of a kernel that the front end refused, None for an accepted launch."""
    if result.refusal is not None:
        return int(result.refusal.lines[-1])
    return 0 if result.error is not None else None
