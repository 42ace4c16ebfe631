"""A list of generators of calls, tried in order of trust until all kernels are recorded."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..inference.operators import KERNEL, LAYER, METHOD, Operator
from ..inference.plans import CallPlan
from ..inference.shapes import SIZES
from .attempts import CaughtError
from .calls import Caller, CallResult
from .entry_points import is_measurement
from .real_sizes import RealSizes
from .repairs import Repairs
from .variations import Variations

# Calls without success: of an operator's first plan, and of its variants.
_PLAIN_TRIES = 14
_VARIANT_TRIES = 2
# Calls of a plan that the package passed: the first may be refused for its gradient.
_OBSERVED_TRIES = 2
# Calls of torch's tests that are made whatever they record.
ALWAYS_TORCH_CALLS = 4
# A slow machine may take this multiple of the budget in CPU seconds.
_MAX_SLOWDOWN = 3.0
_MAX_FAILURES = 6
_MAX_MESSAGE = 300
# Calls of one plan and its repairs, also if each repair leads to a new error.
_MAX_CALLS = 60
# Methods that are searched for a kernel without success before further methods are skipped: a
# package may have dozens of classes that do the same for other formats.
_MAX_FRUITLESS_METHODS = 24
# The sizes of a kernel that is launched alone: blocks of this size suit products of matrices.
_SIZE_ALONE = 64
# Seconds of work that are left for kernels alone and other dtypes, and for the end of the capture.
_LAST_SECONDS = 12.0
_END_SECONDS = 3.0
_SHOW_SECONDS = 1.0

_Generator = Callable[[Operator], None]
# Returns the operators among the functions that an operator returned.
_Returned = Callable[[Operator, Sequence[Any]], Iterable[Operator]]


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
        find_returned: _Returned = lambda operator, functions: (),
        kernels_alone: Callable[[], Iterable[Operator]] = lambda: (),
        real_sizes: RealSizes | None = None,
    ) -> None:
        self._show_progress = show_progress
        self._clock = clock
        self._find_returned = find_returned
        # Returns the kernels without a launch as operators.
        self._kernels_alone = kernels_alone
        # The operators among returned functions, by name; the last one of a name counts.
        self._returned_operators: dict[str, Operator] = {}
        self._operators = operators
        self._caller = caller
        self._dtypes = dtypes
        self._recipe = caller.recipe
        self._real_sizes = real_sizes or RealSizes()
        self._end = seconds - _END_SECONDS
        # The clock counts work. This limit ends the search on a machine that is far slower.
        self._cpu_limit = seconds * _MAX_SLOWDOWN
        self._phase_end = max(self._end - _LAST_SECONDS, 0.0)
        self._slow_operators: set[str] = set()
        # Without a successful plan: the plan whose error no earlier plan had.
        self._furthest_plans: dict[str, CallPlan] = {}
        # Calls to repeat in other dtypes, each with True if it recorded a new kernel.
        self._successes: list[tuple[Operator, CallPlan, bool]] = []
        # Identities of calls with a launch that the front end refused.
        self._refused_calls: set[str] = set()
        # Methods that were called without success, by kernel.
        self._fruitless_methods: Counter[str] = Counter()
        # The name of the phase, the calls so far, and when one was shown last.
        self._phase = ""
        self._call_count = 0
        self._last_shown = -_SHOW_SECONDS
        self.late = False
        self.report: dict[str, dict[str, Any]] = {}
        self.report_alone: dict[str, dict[str, Any]] = {}

    def run(self) -> None:
        """Call the most trusted operators first; the last phases have time of their own."""
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
        inner.sort(key=self._priority)
        self._run_phase("inner functions", self._call_inner, inner)
        # Later calls add no functions to the ones that are called here.
        returned = list(self._returned_operators.values())
        self._run_phase("returned functions", self._call_inner, returned)
        self._phase_end = self._end
        self._run_phase("kernels alone", self._launch_alone, self._kernels_alone())
        self._phase = "other dtypes"
        self._call_other_dtypes()

    @property
    def cut(self) -> list[str]:
        """The operators with a missing kernel that were not called for lack of time."""
        names = []
        for operator in self._operators:
            if operator.name in self.report or not self._missing_kernels(operator):
                continue
            if self._recipe.skip_reason(operator) is None:
                names.append(operator.name)
        return names

    def _run_phase(self, phase: str, generator: _Generator, operators: Iterable[Operator]) -> None:
        """Make a generator's calls of each operator until the end of the phase's time."""
        self._phase = phase
        for operator in operators:
            if self._is_time_over():
                return
            reason = self._recipe.skip_reason(operator)
            if reason is None and self._is_hopeless(operator):
                reason = "many methods that lead to the same kernels launched none"
            if reason:
                if operator.name not in self.report:
                    self._report_entry(operator)["skipped"] = reason
                continue
            missing = self._missing_kernels(operator)
            self._generate(generator, operator)
            if operator.is_method and missing == self._missing_kernels(operator):
                self._fruitless_methods.update(missing)

    def _is_hopeless(self, operator: Operator) -> bool:
        """Return True if many methods were called for each missing kernel of a method."""
        if not operator.is_method or operator.outer:
            return False
        counts = [self._fruitless_methods[kernel] for kernel in self._missing_kernels(operator)]
        return bool(counts) and min(counts) >= _MAX_FRUITLESS_METHODS

    def _generate(self, generator: _Generator, operator: Operator) -> None:
        """Make calls; an exception that a package's objects cause in the driver ends them."""
        try:
            generator(operator)
        except Exception as error:
            message = f"flacheck failed: {type(error).__name__}: {error}"
            failures = self._report_entry(operator)["failures"]
            failures.setdefault("driver", message[:_MAX_MESSAGE])

    def _is_time_over(self) -> bool:
        return self._clock() > self._phase_end or time.process_time() > self._cpu_limit

    def _priority(self, operator: Operator) -> tuple[bool, bool, float, int]:
        """Sort operators with most missing kernels first: they launch kernels of others as well."""
        missing = len(self._missing_kernels(operator))
        is_last = is_measurement(operator.module)
        return is_last, operator.is_built, -missing / len(operator.kernels), -missing

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

    def _repairs(self, operator: Operator) -> Repairs:
        return Repairs(operator, self._caller.shapes)

    def _call_plain(self, operator: Operator) -> None:
        """Call an operator as the recipe, its signature and torch's tests suggest, at all sizes."""
        plan = self._recipe.plain(operator).with_changes(sizes_from=self._real_sizes.first)
        torch_plans = list(self._caller.torch_plans(operator))
        torch_success = self._call_like_torch(operator, torch_plans[:ALWAYS_TORCH_CALLS])
        success = self._call_with_repairs(operator, plan, _PLAIN_TRIES) or torch_success
        base = success or self._furthest_plans.get(operator.name, plan)
        if self._missing_kernels(operator):
            self._call_like_torch(operator, torch_plans[ALWAYS_TORCH_CALLS:])
        for variant in self._recipe.variants(operator, base):
            self._call_with_repairs(operator, variant, 1)
        if success or operator.kind == LAYER:
            self._call_variants(operator, base)

    def _call_variants(self, operator: Operator, base: CallPlan) -> None:
        """Call an operator with packed sequences and states, and at other real sizes."""
        variations = self._variations(operator)
        for plan in variations.usual(base):
            self._call_with_repairs(operator, plan, _VARIANT_TRIES)
        for plan in variations.sizes(base):
            if self._is_time_over():
                return
            self._call_with_repairs(operator, plan, 1)

    def _call_like_torch(self, operator: Operator, plans: Iterable[CallPlan]) -> CallPlan | None:
        """Make calls of torch's tests; return the first successful plan as the package's own."""
        first = None
        for plan in plans:
            success = self._call_with_repairs(operator, plan, 1)
            if success and first is None:
                first = success.with_changes(from_torch=False)
        return first

    def _call_inner(self, operator: Operator) -> None:
        """Call an inner operator as the package calls it, and plainly for missing kernels."""
        # Arguments that callers in the package pass are more likely than inferred ones.
        if operator.kernels - self._caller.trusted_kernels:
            for plan in self._caller.observed_plans(operator):
                success = self._call_with_repairs(operator, plan, _OBSERVED_TRIES)
                if success is not None:
                    for variant in self._variations(operator).usual(success):
                        self._call_with_repairs(operator, variant, 1)
        if self._missing_kernels(operator):
            self._call_plain(operator)

    def _launch_alone(self, operator: Operator) -> None:
        """Launch a kernel with arguments that its own code implies."""
        sizes = dict.fromkeys(SIZES, _SIZE_ALONE)
        plan = self._recipe.plain(operator).with_changes(sizes=sizes, training=False)
        success = self._call_with_repairs(operator, plan, _PLAIN_TRIES)
        base = success or self._furthest_plans.get(operator.name, plan)
        if self._missing_kernels(operator):
            base = self._repair_kinds(operator, base)
        for variant in self._variations(operator).other_arguments(base):
            if self._is_time_over() or not self._missing_kernels(operator):
                break
            success = self._call_with_repairs(operator, variant, _VARIANT_TRIES) or success
        if success is not None:
            for each in self._real_sizes.alone:
                sizes = {**success.sizes, **each.sizes}
                larger = success.with_changes(
                    sizes=sizes, sizes_from=each.source, real_sizes=frozenset(each.sizes)
                )
                self._call_with_repairs(operator, larger, 1)

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
        """Return the first successful one of a plan and the repairs that its errors suggest.

        A repair that leads to a new error has helped: the repairs of that error come first, and
        the call does not count as a try.
        """
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
            if _is_too_long(error):
                self._slow_operators.add(operator.name)
            repairs = self._repairs(operator).after_error(plan, result.stage, error)
            if error.identity in errors or len(visited) > _MAX_CALLS:
                tries -= 1
                queue.extend(repairs)
            else:
                if not errors:
                    tries -= 1
                errors.add(error.identity)
                queue.extendleft(reversed(repairs))
                self._furthest_plans[operator.name] = plan
        return None

    def _call(
        self,
        operator: Operator,
        plan: CallPlan,
        dtype: str,
    ) -> CallResult:
        """Call an operator and add the result to the report."""
        self._call_count += 1
        self._show_call(operator, plan, dtype)
        result = self._caller.call(operator, plan, dtype)
        if result.functions and self._missing_kernels(operator):
            for returned in self._find_returned(operator, result.functions):
                self._returned_operators[returned.name] = returned
        entry = self._report_entry(operator)
        entry["calls"] += 1
        entry["launches"] += result.launches
        label = plan.label
        if dtype != self._dtypes[0]:
            label = f"{label}, {dtype}"
        elif result.launches and self._is_worth_repeating(operator, plan, result):
            self._successes.append((operator, plan, bool(result.new_kernels)))
            if result.refusal is not None:
                self._refused_calls.add(operator.name + plan.identity)
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

    def _is_worth_repeating(self, operator: Operator, plan: CallPlan, result: CallResult) -> bool:
        """Return True if a call is repeated in other dtypes.

        Another dtype of a call repeats its launches, so that a call without a new launch adds none
        there either. Without a new kernel, these calls are not repeated: other sizes than the
        commonest one, calls of torch's tests, which are many and small, and methods, because many
        optimizers differ in their names only.
        """
        if result.new_kernels:
            return True
        if result.refusal is not None and plan.label == "plain" and not plan.dtypes:
            # A kernel may take one dtype only, which is not the first.
            return True
        if not result.succeeded or plan.real_sizes or not result.new_launches:
            return False
        return not plan.from_torch and operator.kind != METHOD

    def _call_other_dtypes(self) -> None:
        """Repeat calls in the other dtypes, those that recorded a kernel first."""
        for with_new_kernel in (True, False):
            for dtype in self._dtypes[1:]:
                for operator, plan, has_new_kernel in list(self._successes):
                    self.late = self._is_time_over()
                    if self.late:
                        return
                    if has_new_kernel is not with_new_kernel:
                        continue
                    if not self._can_repeat(operator, plan):
                        continue
                    if not self._derive(operator, plan, dtype):
                        self._call_other_dtype(operator, plan, dtype)

    def _call_other_dtype(self, operator: Operator, plan: CallPlan, dtype: str) -> None:
        """Repeat a call in another dtype, without the floats' dtypes of the first if refused."""
        result = self._call(operator, plan, dtype)
        if result.refusal is None:
            return
        dtypes = {name: each for name, each in plan.dtypes.items() if not _is_float(each)}
        dtypes |= self._recipe.plain(operator).dtypes
        if dtypes != plan.dtypes:
            self._call(operator, replace(plan, dtypes=dtypes), dtype)

    def _derive(self, operator: Operator, plan: CallPlan, dtype: str) -> bool:
        """Add derived launches of a call in another dtype; return False if it must be made."""
        launches = self._caller.derive(operator, plan, dtype)
        if not launches:
            return False
        entry = self._report_entry(operator)
        entry["launches"] += launches
        label = f"{plan.label}, {dtype}"
        if plan.label in entry["worked"] and label not in entry["worked"]:
            entry["worked"].append(label)
        return True

    def _can_repeat(self, operator: Operator, plan: CallPlan) -> bool:
        """Return True unless a call is slow, or refused while an accepted one exists."""
        if operator.name in self._slow_operators:
            return False
        if operator.name + plan.identity in self._refused_calls:
            return bool(self._missing_kernels(operator))
        return True


def _refused_line(result: CallResult) -> int | None:
    """Return the line of a kernel that the front end refused, None for an accepted launch."""
    if result.refusal is not None:
        return int(result.refusal.lines[-1])
    return 0 if result.error is not None else None


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("fp", "bf"))


def _is_too_long(error: CaughtError | None) -> bool:
    return error is not None and error.kind == "TooLong"
