"""One call of an operator: building its arguments, its forward and backward, and its launches."""

import inspect
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..fake_cuda.registrations import BODIES
from ..inference.arguments import NOTHING, Arguments
from ..inference.operators import KERNEL, LAYER, Operator
from ..inference.plans import CallPlan, Recipe
from ..inference.shapes import Shapes
from ..recorder.recorder import Recorder
from .attempts import CaughtError, T, TooLong, attempt
from .frontend_checks import REFUSED, FrontendChecks
from .trust import CallTrust, LaunchTrust, Rank
from .work import Work

# CPU seconds for each stage of a call: nothing is computed, so a longer stage loops or hangs.
_STAGE_SECONDS = 4.0
# A call that waits for so long waits for a server, or for messages that nobody sends.
_WAITING_SECONDS = 10.0
# Seconds of counted work: they end a loop over launches at an equal count on every machine.
_MAX_WORK = 2.0
# CPU seconds for the front end's checks of one call.
_CHECK_SECONDS = 8.0
# Launches of one call. Steps over a sequence launch hundreds, a loop that waits for the GPU is
# endless.
_MAX_LAUNCHES = 600
_SEED = 0
# Constructors' names for the size of the last dimension of a layer's input.
_INPUT_WIDTHS = (
    *"hidden_size dim d_model input_dim in_features embed_dim n_embd hidden_dim".split(),
    *"input_size normalized_shape channels".split(),
)


@dataclass(frozen=True)
class CallResult:
    """The result of a call.

    Attributes:
        launches: the number of launches.
        new_kernels: the kernels that were recorded for the first time.
        stage: the last stage: build, arguments, forward or backward.
        error: the error that ended the call at that stage.
        refusal: the error of a kernel that does not accept the arguments of its launch.
        kernels: the kernels that were launched.
    """

    launches: int
    new_kernels: frozenset[str]
    stage: str
    error: CaughtError | None
    refusal: CaughtError | None = None
    kernels: frozenset[str] = frozenset()

    @property
    def succeeded(self) -> bool:
        """True if the call ended normally, or its forward did without a backward."""
        return _has_succeeded(self.stage, self.error)


def _has_succeeded(stage: str, error: CaughtError | None) -> bool:
    """Return True for a call that ended normally, or whose backward is not implemented."""
    if error is None:
        return True
    return stage == "backward" and error.kind == "NotImplementedError"


class Caller:
    """Calls operators under the recorder.

    Attributes:
        checks: the checks of launches by Triton's front end.
        work: the counter of the work so far.
    """

    def __init__(
        self,
        shapes: Shapes,
        recipe: Recipe,
        recorder: Recorder,
        trust: LaunchTrust,
        guessed_modules: frozenset[str] = frozenset(),
    ) -> None:
        self.shapes = shapes
        self.recipe = recipe
        self._recorder = recorder
        self._trust = trust
        # The modules of functions whose launches are all made up.
        self._guessed_modules = guessed_modules
        self._checks = FrontendChecks(recorder, trust)
        self.work = Work(recorder, self._checks)
        # The kernels that were recorded in this state of the recorder and the checks.
        self._recorded_kernels: frozenset[str] = frozenset()
        self._recorded_state: tuple[int, tuple[str, ...]] = 0, ()
        self._launch_limit = 0
        self._work_limit = 0.0
        recorder.on_launch = self._check_limits
        # The scan reports that these kernels fail under every release. If a call ended at the first
        # of them, its other kernels would not be recorded.
        recorder.records_unlaunchable = True

    @property
    def recorded_kernels(self) -> frozenset[str]:
        """The kernels with a launch that Triton's front end accepts."""
        state = len(self._recorder.kernels), tuple(self._checks.refusals)
        if state != self._recorded_state:
            self._recorded_state = state
            kernels = self._recorder.kernels.keys() - self._checks.refusals.keys()
            self._recorded_kernels = frozenset(kernels)
        return self._recorded_kernels

    @property
    def refusals(self) -> dict[str, str]:
        """The kernels without an accepted launch, each with the front end's message."""
        return self._checks.refusals

    def _check_limits(self, kernel: str, arguments: object) -> None:
        """End a call with too many launches or too much work."""
        if self._recorder.calls > self._launch_limit:
            raise TooLong(f"made more than {_MAX_LAUNCHES} launches")
        if self.work() > self._work_limit:
            raise TooLong(f"launched more than {_MAX_WORK:g} s of work")

    def call(
        self,
        operator: Operator,
        plan: CallPlan,
        dtype: str,
    ) -> CallResult:
        """Call an operator's forward, and backward if a result is differentiable."""
        kernels_before = self.recorded_kernels
        launches_before = self._recorder.calls
        self._launch_limit = launches_before + _MAX_LAUNCHES
        self._work_limit = self.work() + _MAX_WORK
        self.work.calls += 1
        reset_seeds()
        self._recorder.hold_card()
        arguments = Arguments(self.shapes, self.recipe, dtype)
        self._recorder.during = _remark(operator, plan, dtype)
        self._checks.is_thorough = operator.kind == KERNEL
        stage, error = self._run_stages(operator, plan, arguments)
        has_guesses = arguments.has_guesses or operator.module in self._guessed_modules
        trust = CallTrust(
            call_rank(operator, _has_succeeded(stage, error)),
            # What was found by trial and error is a guess, too.
            has_guesses or plan.is_repaired,
            self._has_guessed_constants(operator, plan, arguments),
            plan.sizes_from,
        )
        if trust.is_certain:
            self._checks.accept_pending()
        refusal = self._find_refusal()
        self._recorder.during = None
        launches = self._recorder.calls - launches_before
        new_kernels = self.recorded_kernels - kernels_before
        kernels = self._trust.end_call(trust)
        return CallResult(launches, new_kernels, stage, error, refusal, kernels)

    def _has_guessed_constants(
        self, operator: Operator, plan: CallPlan, arguments: Arguments
    ) -> bool:
        """Return True if constants of the launches may be wrong.

        The numbers of a lone kernel are not constants, but values that were found by trial are
        guesses, and so are those in fp32 that the package's code would not pass.
        """
        if operator.module in self._guessed_modules:
            return True
        if operator.kind != KERNEL:
            return arguments.has_guessed_constants
        has_all = plan.values and operator.constants <= plan.values.keys()
        is_same = arguments.dtype in (torch.bfloat16, torch.float16)
        own = {name: plan.values.get(name) for name in operator.constants}
        for _, values in operator.fp32_sites:
            is_same |= all(values.get(name, ...) == value for name, value in own.items())
        return bool(plan.is_repaired or not has_all or not is_same)

    def _find_refusal(self) -> CaughtError | None:
        """Return the first refusal of a launch of the call."""
        refusal = _attempt(self._checks.check_pending, _CHECK_SECONDS)
        # The front end takes minutes for some unrolled loops.
        return refusal if refusal and refusal.kind == REFUSED else None

    def _run_stages(
        self,
        operator: Operator,
        plan: CallPlan,
        arguments: Arguments,
    ) -> tuple[str, CaughtError | None]:
        """Return the last stage that the call reached, and the error that ended it."""
        function = operator.call
        if operator.is_built:
            built = _attempt(lambda: _build(operator, plan, arguments), _STAGE_SECONDS)
            if isinstance(built, CaughtError):
                return "build", built
            function, width = built
            if width:
                plan = plan.with_changes(sizes={"D": width, **plan.sizes})
        call_arguments = _attempt(
            lambda: _call_arguments(operator, plan, arguments), _STAGE_SECONDS
        )
        if isinstance(call_arguments, CaughtError):
            return "arguments", call_arguments

        result = _attempt(
            lambda: _forward(operator, plan, function, call_arguments), _STAGE_SECONDS
        )
        if isinstance(result, CaughtError):
            return "forward", result
        if not plan.training:
            return "forward", None
        error = _attempt(lambda: _backward(list(_tensors(result))), _STAGE_SECONDS)
        return "backward", error


def reset_seeds() -> None:
    """Seed the generators of Python, NumPy and torch.

    Packages pass random numbers to kernels as seeds, so these numbers are part of launches. A
    capture is equal on all machines only if each call draws equal numbers.
    """
    random.seed(_SEED)
    torch.default_generator.manual_seed(_SEED)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(_SEED)


def _remark(operator: Operator, plan: CallPlan, dtype: str) -> str:
    """Return the name of a call, as its launches' lines show it."""
    return f"{operator.name} ({plan.label}, {dtype})"


def _attempt(code: Callable[[], T], seconds: float) -> T | CaughtError:
    """Attempt a stage of a call, whose errors are many and need no traceback."""
    return attempt(code, seconds, keeps_trace=False, max_wait=_WAITING_SECONDS)


def _with_defaults(
    parameters: tuple[inspect.Parameter, ...], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of all parameters, omitted ones with their defaults."""
    values = {}
    for parameter in parameters:
        values[parameter.name] = arguments.get(parameter.name, parameter.default)
    return values


def _build(operator: Operator, plan: CallPlan, arguments: Arguments) -> tuple[Any, int | None]:
    """Build a layer from the arguments that lack a default; return it with its input's width."""
    parameters = []
    for parameter in operator.parameters:
        if parameter.default is NOTHING or parameter.name in plan.build:
            parameters.append(parameter)
    with BODIES.resting():
        values = arguments.build(operator, plan.with_changes(values=plan.build), parameters)
    layer = operator.call(**values).to(device="cuda", dtype=arguments.dtype)
    # The result is ignored, because some packages override `train` without a return value.
    layer.train(plan.training)
    return layer, _input_width(_with_defaults(operator.parameters, values))


def _input_width(build_values: Mapping[str, Any]) -> int | None:
    """Return the width of a layer's input by its constructor's arguments."""
    for name in _INPUT_WIDTHS:
        width = build_values.get(name)
        if isinstance(width, int):
            return width
    return None


def _call_arguments(operator: Operator, plan: CallPlan, arguments: Arguments) -> dict[str, Any]:
    """Build the arguments of the call with torch's operators, which a package may replace."""
    with BODIES.resting():
        return arguments.build(operator, plan, operator.takes)


def _forward(
    operator: Operator, plan: CallPlan, function: Any, arguments: Mapping[str, Any]
) -> Any:
    """Call a function with its arguments."""
    with torch.set_grad_enabled(plan.training):
        if getattr(operator.call, "__name__", "") == "apply":
            # An autograd function's `apply` accepts no keyword arguments.
            return function(*_with_defaults(operator.parameters, arguments).values())
        positional_only = []
        keywords = dict(arguments)
        for parameter in operator.takes:
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                positional_only.append(arguments.get(parameter.name, parameter.default))
                keywords.pop(parameter.name, None)
        return function(*positional_only, **keywords)


def _backward(tensors: list[torch.Tensor]) -> None:
    """Call the backward of tensors with gradients of 1."""
    outputs = [tensor for tensor in tensors if tensor.requires_grad]
    if outputs:
        gradients = [torch.ones_like(tensor) for tensor in outputs]
        torch.autograd.backward(outputs, gradients)


def _tensors(result: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in a result, also those in tuples, lists and dictionaries."""
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for element in result:
            yield from _tensors(element)
    elif isinstance(result, dict):
        for element in list(result.values()):
            yield from _tensors(element)


def call_rank(operator: Operator, succeeded: bool) -> Rank:
    """Return how far the arguments of a call's launches are trusted."""
    if operator.kind == KERNEL:
        return Rank.ALONE
    if not succeeded:
        return Rank.FAILED
    if operator.kind == LAYER:
        return Rank.LAYER
    if operator.outer:
        return Rank.SHARED if operator.shared else Rank.OUTER
    return Rank.INNER
