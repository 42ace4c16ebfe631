"""Search for calls that launch all kernels: which operators are called, how, and when it ends."""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..inference.operators import KERNEL, LAYER, METHOD, Operator
from ..inference.plans import CallPlan
from ..inference.shapes import SIZES
from ..solver.path_conditions import PathConditions
from .attempts import CaughtError
from .calls import Caller, CallResult
from .entry_points import is_measurement
from .repairs import Repairs
from .variations import Variations

# Calls without success: of an operator's first plan, of its usual variants, and of the unusual
# variants that are called for a missing kernel.
_PLAIN_TRIES = 14
_USUAL_TRIES = 5
_UNUSUAL_TRIES = 3
# Calls of a plan that the package passed: the first may be refused for its gradient.
_OBSERVED_TRIES = 2
# Calls of torch's tests that are made whatever they record.
ALWAYS_TORCH_CALLS = 4
# Calls for the path conditions of one kernel, inverted branches in a row, and repairs of one call.
_MAX_PATH_CALLS = 16
_MAX_INVERSIONS = 3
_MAX_PATH_REPAIRS = 2
# Repairs of a refused launch that come before those of a later error of the call.
_MAX_REFUSAL_REPAIRS = 2
# Calls among these that may use up the time of a call.
_MAX_SLOW_CALLS = 2
# An operator with more kernels dispatches to other operators instead of branching to kernels.
_MAX_BRANCH_KERNELS = 40
# A slow machine may take this multiple of the budget in CPU seconds.
_MAX_SLOWDOWN = 3.0
# Seconds of work without a new kernel after which an operator's further variants are skipped.
_FRUITLESS_SECONDS = 0.4
_FRUITLESS_NESTED_SECONDS = 0.2
# Seconds of work in variants and inverted branches for one kernel. Many operators may lead to a
# kernel that none of them launches on this card.
_MAX_EFFORT = 0.6
# Variants that add or omit an argument are varied again, this many of one operator.
_ARGUMENT_LABELS = ("with ", "without ")
_MAX_NESTED = 2
_MAX_FAILURES = 6
_MAX_MESSAGE = 300
# Calls of one plan and its repairs, also if each repair leads to a new error.
_MAX_CALLS = 60
# Methods that are searched for a kernel without success before further methods are skipped: a
# package may have dozens of classes that do the same for other formats.
_MAX_FRUITLESS_METHODS = 24
# The sizes of a kernel that is launched alone: blocks of this size suit products of matrices.
_SIZE_ALONE = 64
# Seconds of work that are left for the end of the capture.
_END_SECONDS = 3.0
_SHOW_SECONDS = 1.0

_Step = Callable[[Operator], None]
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
        self._end = seconds - _END_SECONDS
        self._round_end = self._end
        # The clock counts work. This limit ends the search on a machine that is far slower.
        self._cpu_limit = seconds * _MAX_SLOWDOWN
        # The plan that is varied, with the tries of each variant.
        self._base_plans: dict[str, tuple[CallPlan, int]] = {}
        self._slow_operators: set[str] = set()
        # Without a successful plan: the plan whose error no earlier plan had.
        self._furthest_plans: dict[str, CallPlan] = {}
        # Calls to repeat in other dtypes, each with True if it recorded a new kernel.
        self._successes: list[tuple[Operator, CallPlan, bool]] = []
        # Identities of calls with a launch that the front end refused.
        self._refused_calls: set[str] = set()
        # True while variants of a variant are called.
        self._is_nested = False
        # Methods that were searched without success, by kernel.
        self._fruitless_methods: Counter[str] = Counter()
        # Seconds of work in variants and inverted branches for kernels that are still missing.
        self._efforts: dict[str, float] = defaultdict(float)
        # True in the rounds that search for missing kernels.
        self._is_searching = False
        # True in the round that repairs backward passes, and the operators with a failed one.
        self._solves_backward = False
        self._failed_backwards: set[str] = set()
        # Successful plans of inner operators with arguments that the package passed.
        self._observed_bases: dict[str, list[CallPlan]] = {}
        # The name of the round, the calls so far, and when one was shown last.
        self._phase = ""
        self._call_count = 0
        self._last_shown = -_SHOW_SECONDS
        self.late = False
        self.report: dict[str, dict[str, Any]] = {}
        self.report_alone: dict[str, dict[str, Any]] = {}

    def run(self) -> None:
        """Call the most promising operators first; each round ends at its share of the time."""
        outer, layers, inner = [], [], []
        for operator in self._operators:
            if not operator.outer:
                inner.append(operator)
            elif operator.kind == LAYER:
                layers.append(operator)
            else:
                outer.append(operator)
        # The last share is left for the other dtypes.
        self._run_round("plain calls", self._call_plain, outer, 0.45)
        self._run_round("usual variants", self._call_usual, outer, 0.51)
        self._run_round("other branches", self._invert_branches, outer, 0.55)
        self._run_round("unusual variants", self._call_unusual, outer, 0.6)
        self._run_round("layers", self._call_plain, layers, 0.64)
        # Most kernels of inner operators are launched by one plain call, so that those come first.
        by_priority = sorted(inner, key=self._priority)
        self._run_round("inner functions", self._call_inner, by_priority, 0.72)
        self._fruitless_methods.clear()
        # A function beside a kernel may launch it where outer operators did not.
        self._efforts.clear()
        by_priority = sorted(inner, key=self._priority)
        self._run_round("variants of inner functions", self._search_inner, by_priority, 0.78)
        self._run_round("usual variants of layers", self._call_usual, layers, 0.8)
        self._run_round("unusual variants of layers", self._call_unusual, layers, 0.82)
        # Later calls add no functions to the ones that are called here.
        returned = list(self._returned_operators.values())
        self._run_round("returned functions", self._call_inner, returned, 0.84)
        self._run_round("variants of returned functions", self._search_inner, returned, 0.86)
        # A kernel without any launch matters more than another dtype of a recorded kernel.
        remaining = []
        for operator in inner:
            if operator.name not in self.report and self._missing_kernels(operator):
                remaining.append(operator)
        self._run_round("remaining functions", self._call_inner, remaining, 0.9)
        self._run_round("variants of remaining functions", self._search_inner, remaining, 0.95)
        self._run_round("backward passes", self._repair_backward, [*outer, *inner], 0.96)
        self._run_round("rare variants", self._call_rare, [*outer, *inner], 0.97)
        self._run_round("kernels alone", self._launch_alone, self._kernels_alone(), 0.98)
        self._round_end = self._end
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

    def _run_round(
        self, phase: str, step: _Step, operators: Iterable[Operator], share: float
    ) -> None:
        """Run a step for operators until the end of the round's time."""
        self._phase = phase
        self._round_end = self._end * share
        self._is_searching = step in (
            self._invert_branches,
            self._call_unusual,
            self._search_inner,
            self._repair_backward,
            self._call_rare,
        )
        self._solves_backward = step == self._repair_backward
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
            self._run_step(step, operator)
            if operator.is_method and missing == self._missing_kernels(operator):
                self._fruitless_methods.update(missing)

    def _is_hopeless(self, operator: Operator) -> bool:
        """Return True if many methods were searched for each missing kernel of a method."""
        if not operator.is_method or operator.outer:
            return False
        counts = [self._fruitless_methods[kernel] for kernel in self._missing_kernels(operator)]
        return bool(counts) and min(counts) >= _MAX_FRUITLESS_METHODS

    def _run_step(self, step: _Step, operator: Operator) -> None:
        """Run a step; an exception that a package's objects cause in the driver ends this step."""
        try:
            step(operator)
        except Exception as error:
            message = f"flacheck failed: {type(error).__name__}: {error}"
            failures = self._report_entry(operator)["failures"]
            failures.setdefault("driver", message[:_MAX_MESSAGE])

    def _is_time_over(self) -> bool:
        return self._clock() > self._round_end or time.process_time() > self._cpu_limit

    def _priority(self, operator: Operator) -> tuple[bool, bool, float, int]:
        """Sort operators with most missing kernels first: they launch kernels of others as well."""
        missing = len(self._missing_kernels(operator))
        is_last = is_measurement(operator.module)
        return is_last, operator.is_built, -missing / len(operator.kernels), -missing

    def _missing_kernels(self, operator: Operator) -> frozenset[str]:
        """Return the kernels of an operator without an accepted launch."""
        return operator.kernels - self._caller.recorded_kernels

    def _sought_kernels(self, operator: Operator) -> frozenset[str]:
        """Return the missing kernels of an operator that are worth a further search.

        An operator beside a kernel, in the same module, is the likeliest to launch it.
        """
        missing = self._missing_kernels(operator)
        affordable = [kernel for kernel in missing if self._efforts[kernel] < _MAX_EFFORT]
        return self._kernels_beside(operator).union(affordable)

    def _kernels_beside(self, operator: Operator) -> frozenset[str]:
        """Return the missing kernels of an operator in its module."""
        module = operator.name.partition(":")[0]
        kernels = []
        for kernel in self._missing_kernels(operator):
            if kernel.partition(":")[0] == module:
                kernels.append(kernel)
        return frozenset(kernels)

    def _uncertain_kernels(self, operator: Operator) -> frozenset[str]:
        """Return an operator's kernels with made-up launches only that are worth more calls."""
        kernels = []
        for kernel in operator.kernels & self._caller.uncertain_kernels:
            if self._efforts[kernel] < _MAX_EFFORT:
                kernels.append(kernel)
        return frozenset(kernels)

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
        return Variations(operator, self._caller.shapes)

    def _repairs(self, operator: Operator) -> Repairs:
        return Repairs(operator, self._caller.shapes)

    def _base_plan(self, operator: Operator) -> tuple[CallPlan, int]:
        """Return the plan that an operator's variants start from, with the tries of each."""
        if operator.name in self._base_plans:
            return self._base_plans[operator.name]
        return self._recipe.plain(operator), 1

    def _call_plain(self, operator: Operator) -> None:
        """Call an operator as the recipe, its signature and torch's tests suggest."""
        base = self._recipe.plain(operator)
        tries = 1
        torch_plans = list(self._caller.torch_plans(operator))
        torch_success = self._call_like_torch(operator, torch_plans[:ALWAYS_TORCH_CALLS])
        success = self._call_with_repairs(operator, base, _PLAIN_TRIES) or torch_success
        if success:
            base = success
            tries = _USUAL_TRIES
        else:
            base = self._furthest_plans.get(operator.name, base)
        if self._missing_kernels(operator):
            self._call_like_torch(operator, torch_plans[ALWAYS_TORCH_CALLS:])
        self._base_plans[operator.name] = (base, tries)
        for variant in self._recipe.variants(operator, base):
            self._call_with_repairs(operator, variant, 1)

    def _call_like_torch(self, operator: Operator, plans: Iterable[CallPlan]) -> CallPlan | None:
        """Make calls of torch's tests; return the first successful plan as the package's own."""
        first = None
        for plan in plans:
            success = self._call_with_repairs(operator, plan, 1)
            if success and first is None:
                first = success.with_changes(from_torch=False)
        return first

    def _call_usual(self, operator: Operator) -> None:
        base, tries = self._base_plan(operator)
        for plan in self._variations(operator).usual(base):
            self._call_with_repairs(operator, plan, tries)

    def _call_unusual(self, operator: Operator) -> None:
        """Vary one argument at a time, then another one after an argument was added or omitted."""
        base, tries = self._base_plan(operator)
        variants = self._vary(operator, base, min(_UNUSUAL_TRIES, tries), _FRUITLESS_SECONDS)
        self._is_nested = True
        for plan in variants:
            self._vary(operator, plan, 1, _FRUITLESS_NESTED_SECONDS)
        self._is_nested = False

    def _call_rare(self, operator: Operator) -> None:
        """Call variants for kernels of the operator's module that no other call launches."""
        base, _ = self._base_plan(operator)
        for plan in self._variations(operator).rare(base):
            kernels = self._kernels_beside(operator)
            if self._is_time_over() or not kernels:
                break
            self._call_with_repairs(operator, replace(plan, sought=kernels), 1)

    def _launch_alone(self, operator: Operator) -> None:
        """Launch a kernel with arguments that its own code implies."""
        sizes = dict.fromkeys(SIZES, _SIZE_ALONE)
        plan = self._recipe.plain(operator).with_changes(sizes=sizes, training=False)
        success = self._call_with_repairs(operator, plan, _PLAIN_TRIES)
        base = success or self._furthest_plans.get(operator.name, plan)
        for variant in self._variations(operator).other_arguments(base):
            if self._is_time_over() or not self._missing_kernels(operator):
                break
            self._call_with_repairs(operator, variant, _USUAL_TRIES)

    def _repair_backward(self, operator: Operator) -> None:
        """Repair a plan whose backward fails, for kernels that no other call launches.

        Other rounds repair no backward: a base plan with its shapes would launch many kernels
        differently.
        """
        kernels = self._sought_kernels(operator)
        if kernels and operator.name in self._failed_backwards:
            base, _ = self._base_plan(operator)
            self._call_with_repairs(operator, replace(base, sought=kernels), _PLAIN_TRIES)

    def _vary(
        self, operator: Operator, base: CallPlan, tries: int, fruitless_seconds: float
    ) -> list[CallPlan]:
        """Call variants while kernels are missing; return successful ones with other arguments.

        If all are recorded, variants follow that can replace made-up launches, once a call worked.
        """
        variants: list[CallPlan] = []
        has_worked = operator.name in self.report and bool(self.report[operator.name]["worked"])
        missing = self._missing_kernels(operator)
        uncertain = self._caller.uncertain_kernels
        last_success = self._clock()
        for plan in self._variations(operator).unusual(base):
            has_progress = missing != self._missing_kernels(operator)
            if has_progress or uncertain - self._caller.uncertain_kernels:
                last_success = self._clock()
            missing = self._missing_kernels(operator)
            uncertain = self._caller.uncertain_kernels
            if self._is_time_over() or self._clock() - last_success > fruitless_seconds:
                break
            if not self._sought_kernels(operator):
                if self._is_nested or not has_worked or not self._uncertain_kernels(operator):
                    break
                if self._caller.can_be_certain(operator, plan):
                    self._call_for_certainty(operator, plan, tries)
                continue
            success = self._call_with_repairs(operator, plan, tries)
            has_other_arguments = plan.label.startswith(_ARGUMENT_LABELS)
            if success and has_other_arguments and len(variants) < _MAX_NESTED:
                variants.append(success)
        return variants

    def _call_for_certainty(self, operator: Operator, plan: CallPlan, tries: int) -> None:
        """Call a variant for kernels with made-up launches only, at the cost of their efforts."""
        kernels = self._uncertain_kernels(operator)
        start = self._clock()
        self._call_with_repairs(operator, plan, tries)
        for kernel in kernels:
            self._efforts[kernel] += self._clock() - start

    def _invert_branches(self, operator: Operator) -> None:
        """Invert branch conditions that lie before the launches of missing kernels."""
        base, _ = self._base_plan(operator)
        if len(operator.kernels) > _MAX_BRANCH_KERNELS:
            return
        for kernel in sorted(self._sought_kernels(operator)):
            kernel_module = kernel.partition(":")[0]
            modules = frozenset((kernel_module, operator.source.__module__))
            path = PathConditions(kernel, modules)
            if path:
                self._reach_kernel(operator, base, path, kernel)

    def _reach_kernel(
        self, operator: Operator, base: CallPlan, path: PathConditions, kernel: str
    ) -> None:
        """Search breadth first for the fewest inversions that lead to a kernel's launch."""
        repairs = self._repairs(operator)
        queue = deque([(base, _MAX_INVERSIONS)])
        visited: set[str] = set()
        slow_calls = 0
        while queue and len(visited) < _MAX_PATH_CALLS and slow_calls < _MAX_SLOW_CALLS:
            if self._is_time_over():
                return
            plan, inversions = queue.popleft()
            if plan.identity in visited:
                continue
            visited.add(plan.identity)
            result = self._call(operator, plan, self._dtypes[0], path)
            if kernel in self._caller.recorded_kernels:
                return
            if _is_too_long(result.error):
                slow_calls += 1
            next_plans = list(repairs.meet(plan, path.constraints))
            if result.error is not None and not result.succeeded:
                error_repairs = repairs.after_error(plan, result.stage, result.error)
                next_plans = [*error_repairs[:_MAX_PATH_REPAIRS], *next_plans]
            if inversions:
                for next_plan in next_plans:
                    queue.append((next_plan.with_changes("turned"), inversions - 1))

    def _call_inner(self, operator: Operator) -> None:
        """Call an inner operator as the package calls it, and plainly for missing kernels."""
        # Arguments that callers in the package pass are more likely than inferred ones.
        if operator.kernels - self._caller.trusted_kernels:
            for plan in self._caller.observed_plans(operator):
                success = self._call_with_repairs(operator, plan, _OBSERVED_TRIES)
                if success and self._missing_kernels(operator):
                    self._observed_bases.setdefault(operator.name, []).append(success)
        if self._missing_kernels(operator):
            self._call_plain(operator)

    def _search_inner(self, operator: Operator) -> None:
        """Search for the missing kernels of an inner operator by all means."""
        if not self._sought_kernels(operator):
            return
        plain_base = self._base_plan(operator)
        for base in self._observed_bases.pop(operator.name, ()):
            self._base_plans[operator.name] = (base, 1)
            self._call_unusual(operator)
        self._base_plans[operator.name] = plain_base
        for step in (self._call_usual, self._invert_branches, self._call_unusual):
            if self._sought_kernels(operator) and not self._is_time_over():
                step(operator)

    def _call_with_repairs(self, operator: Operator, plan: CallPlan, tries: int) -> CallPlan | None:
        """Return the first successful one of a plan and the repairs that its errors suggest.

        A repair that leads to a new error has helped: the repairs of that error come first, and
        the call does not count as a try.
        """
        queue = deque([plan])
        visited: set[str] = set()
        errors: set[str] = set()
        success: CallPlan | None = None
        while queue and tries and operator.name not in self._slow_operators:
            if self._is_time_over():
                break
            plan = queue.popleft()
            if plan.identity in visited:
                continue
            visited.add(plan.identity)
            result = self._call(operator, plan, self._dtypes[0])
            error = result.error
            if result.succeeded:
                successful_plan = plan
                if error is not None:
                    # The backward is not implemented.
                    successful_plan = plan.with_changes(training=False)
                if result.refusal is None:
                    return successful_plan
                # The call succeeds, but a kernel does not accept the launch's arguments.
                success = success or successful_plan
                error = result.refusal
            assert error is not None
            if _is_too_long(error):
                self._slow_operators.add(operator.name)
            repairs = self._repairs(operator).after_error(plan, result.stage, error)
            if result.refusal is not None and error is not result.refusal:
                # The call fails after a launch, which needs other arguments whatever fails later.
                of_refusal = self._repairs(operator).after_error(plan, result.stage, result.refusal)
                repairs = [*of_refusal[:_MAX_REFUSAL_REPAIRS], *repairs]
            if error.identity in errors or len(visited) > _MAX_CALLS:
                tries -= 1
                queue.extend(repairs)
            else:
                if not errors:
                    tries -= 1
                errors.add(error.identity)
                queue.extendleft(reversed(repairs))
                self._furthest_plans[operator.name] = plan
        return success

    def _call(
        self,
        operator: Operator,
        plan: CallPlan,
        dtype: str,
        path: PathConditions | None = None,
    ) -> CallResult:
        """Call an operator and add the result to the report."""
        start = self._clock()
        self._call_count += 1
        self._show_call(operator, plan, dtype)
        result = self._caller.call(operator, plan, dtype, path, self._solves_backward)
        if self._is_searching:
            for kernel in self._missing_kernels(operator):
                self._efforts[kernel] += self._clock() - start
        if result.functions and self._missing_kernels(operator):
            for returned in self._find_returned(operator, result.functions):
                self._returned_operators[returned.name] = returned
        entry = self._report_entry(operator)
        entry["calls"] += 1
        entry["launches"] += result.launches
        if result.stage == "backward" and not result.succeeded:
            self._failed_backwards.add(operator.name)
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
        there either. Without a new kernel, these calls are not repeated: variants of variants,
        calls of torch's tests, which are many and small, and methods, because many optimizers
        differ in their names only.
        """
        if result.new_kernels:
            return True
        if result.refusal is not None and plan.label == "plain" and not plan.dtypes:
            # A kernel may take one dtype only, which is not the first.
            return True
        if not result.succeeded or self._is_nested or not result.new_launches:
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


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("fp", "bf"))


def _is_too_long(error: CaughtError | None) -> bool:
    return error is not None and error.kind == "TooLong"
