"""One call of an operator: arguments made, forward, backward, and what was launched on the way. A
piece of somebody else's package may raise, hang or exit, and the drive goes on."""

import contextlib
import inspect
import linecache
import re
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

import torch

from ..fake_cuda.registered import BODIES
from ..recorder.recorder import Recorder
from . import optimizers, torch_calls
from .arguments import NOTHING, Arguments, as_number, is_length, is_tensor
from .demands import demands
from .drawn import start_over
from .following import Demand
from .front_end import FrontEnd, told
from .interview import Interview
from .kernel_demands import kernel_demands
from .operators import LAYER, METHOD, Operator
from .overheard import Overheard
from .plans import CallPlan, Recipe
from .shapes import Shapes
from .trust import Rank, Witness
from .turnings import Turnings
from .work import Work

T = TypeVar("T")
# Of CPU, for each step of a call: nothing is computed, so what takes longer loops or hangs.
_SECONDS = 4.0
# A loop over launches ends before that, after as many on any machine.
_MOST_WORK = 2.0
_OTHER_GRADIENT = 2.0
# For what Triton's front end is asked about the launches of one call.
_QUESTION_SECONDS = 8.0
# When what cannot be stopped now is asked to stop again.
_SOON = 0.005
# What runs below an operator of torch's on the fake device.
_OURS = ("torch", __name__.partition(".")[0])
# By one call. Steps over a sequence launch hundreds, a loop that waits for the card has no end.
_MOST_LAUNCHES = 600
# What constructors call the size of the last axis of a layer's input.
_WIDTHS = "hidden_size dim d_model input_dim in_features embed_dim n_embd hidden_dim".split()
_WIDTHS += "input_size normalized_shape channels".split()

# What a repair of a plan changes.
_TRIED_OUT = ("shapes", "dtypes", "build")
# The sizes that packing sequences changes.
_PACKED = {"B", "N"}
_STATES = re.compile(r"state|^d?h0$|^dht$")


class TooLong(BaseException):
    """The piece used up its time; no package's own `except Exception` stops it."""


@dataclass(frozen=True)
class CaughtError:
    """The error that a piece raised: its type, its text, the lines of source it went through
    (innermost last), its whole traceback, and what it wants of the arguments."""

    kind: str
    text: str
    lines: tuple[str, ...]
    trace: str
    wants: tuple[Demand, ...] = ()

    @property
    def identity(self) -> str:
        """The same for two errors of one place that want the same."""
        wanted = "; ".join(demand.identity for demand in self.wants)
        return " ".join((self.kind, *self.lines[-1:], wanted))

    def brief(self) -> str:
        said = " ".join(self.text.split())[:300]
        if not said and self.lines:
            said = self.lines[-1]
        return f"{self.kind}: {said}"


def attempt(
    piece: Callable[[], T], seconds: float, given: Mapping[str, Any] | None = None
) -> T | CaughtError:
    """What the piece returns, or the error that it raised, within so many seconds of CPU. With the
    arguments that it was `given`, the error says what it wants of them."""

    def stop(number: int, frame: FrameType | None) -> None:
        if _is_within_torch(frame):
            # torch's own code has called us, and some of it cannot be left by an exception.
            signal.setitimer(signal.ITIMER_PROF, _SOON)
            return
        raise TooLong(f"took more than {seconds:g} s")

    # CPU time, not the clock: what a call is worth does not depend on how busy the machine is.
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return piece()
    except BaseException as error:
        # A module may exit, and what skips a test is no Exception either.
        # The first frame is ours.
        frames = traceback.extract_tb(error.__traceback__)[1:]
        lines = [linecache.getline(each.filename, each.lineno or 0).strip() for each in frames]
        trace = "".join(traceback.format_exception(error))
        wants: tuple[Demand, ...] = ()
        if given is not None and not isinstance(error, TooLong):
            wants = tuple(demands(error, given))
        return CaughtError(type(error).__name__, str(error), tuple(lines), trace, wants)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _is_within_torch(frame: FrameType | None) -> bool:
    """Whether what runs was called for an operator of torch's, and by no package's code."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if module not in _OURS:
            return False
        if frame.f_code.co_name == "__torch_dispatch__":
            return True
        frame = frame.f_back
    return False


@dataclass(frozen=True)
class CallResult:
    """`launches` made and the kernels `recorded` for the first time; the stage of the call and the
    error that ended it there, if one did; what a kernel `refused` of a launch that was made."""

    launches: int
    recorded: frozenset[str]
    stage: str
    error: CaughtError | None
    refused: CaughtError | None = None

    @property
    def worked(self) -> bool:
        """Whether the call came to its end, or to that of its forward when there is no backward."""
        if self.error is None:
            return True
        return self.stage == "backward" and self.error.kind == "NotImplementedError"


class Caller:
    """Calls operators under the recorder."""

    def __init__(
        self,
        shapes: Shapes,
        recipe: Recipe,
        recorder: Recorder,
        witness: Witness,
        overheard: Overheard,
    ) -> None:
        self.shapes, self.recipe, self._recorder, self._witness = shapes, recipe, recorder, witness
        self._overheard = overheard
        self._front_end = FrontEnd(recorder, witness)
        self.work = Work(recorder, self._front_end)
        self._bound = 0
        self._work_bound = 0.0
        self._watch: Turnings | None = None
        # The arguments of the call that is made.
        self._given: Mapping[str, Any] = {}
        recorder.heard = self._count

    @property
    def recorded(self) -> frozenset[str]:
        """The kernels that were launched so far with what they take."""
        return frozenset(self._recorder.kernels.keys() - self._front_end.refused.keys())

    @property
    def untaken(self) -> dict[str, str]:
        """The kernels that took nothing that they were launched with, and what Triton said."""
        return self._front_end.refused

    @property
    def interview(self) -> Interview:
        """What Triton's front end was asked and answered."""
        return self._front_end.interview

    def _count(self, kernel: str, arguments: object) -> None:
        if self._recorder.calls > self._bound:
            raise TooLong(f"made more than {_MOST_LAUNCHES} launches")
        if self.work() > self._work_bound:
            raise TooLong(f"launched more than {_MOST_WORK:g} s of work")

    def passed(self, operator: Operator) -> list[CallPlan]:
        """The calls that the package itself made of an inner function."""
        return list(self._overheard.plans(operator, self.recipe.plain(operator)))

    def as_torch(self, operator: Operator) -> Iterator[CallPlan]:
        """The calls that torch's own tests make of what a function stands for."""
        return torch_calls.plans(operator, self.recipe.plain(operator))

    def call(
        self, operator: Operator, plan: CallPlan, dtype: str, watch: Turnings | None = None
    ) -> CallResult:
        """Forward, and backward where something was differentiable. Who watches learns what the
        forward would have to be given to turn another way."""
        self._watch = watch
        before, launches = self.recorded, self._recorder.calls
        self._bound = launches + _MOST_LAUNCHES
        self._work_bound = self.work() + _MOST_WORK
        self.work.calls += 1
        start_over()
        self._recorder.hold_card()
        arguments = Arguments(self.shapes, self.recipe, dtype)
        self._recorder.during = f"{operator.name} ({plan.label}, {dtype})"
        self._given = {}
        stage, error = self._staged(operator, plan, arguments)
        refused = self._refusal()
        self._recorder.during = None
        made = self._recorder.calls - launches
        result = CallResult(made, self.recorded - before, stage, error, refused)
        self._overheard.ended(result.worked)
        documented = not arguments.guessed and self._is_documented(operator, plan)
        self._witness.ended(_rank(operator, plan, result, documented), arguments.guessed)
        return result

    def _refusal(self) -> CaughtError | None:
        """What the kernels of the call want, of those that did not take their launches."""
        refusals = attempt(self._front_end.ended, _QUESTION_SECONDS)
        if isinstance(refusals, CaughtError) or not refusals:
            # Some loops that are unrolled take the front end minutes.
            return None
        demanded = (kernel_demands(each, self._given) for each in refusals)
        wants = {demand.identity: demand for each in demanded for demand in each}
        first = refusals[0]
        text = f"{first.kernel} does not take its arguments: {told(first.error)}"
        return CaughtError("KernelRefused", text, (), "", tuple(wants.values()))

    def _is_documented(self, operator: Operator, plan: CallPlan) -> bool:
        """Whether nothing of the plan was tried out, and no tensor left out that changes what is
        computed: packed lengths and states are the usual ones that do not."""
        plain = self.recipe.plain(operator)
        tried = optimizers.without_weights(operator, plan)
        if any(getattr(tried, table) != getattr(plain, table) for table in _TRIED_OUT):
            return False
        if plan.torchs:
            return torch_calls.is_torchs(operator)
        values = {name for name in plan.values if "final_state" not in name}
        if values - plain.values.keys() or plan.sizes.keys() - plain.sizes.keys() - _PACKED:
            return False
        if optimizers.is_optimizers(operator):
            # A closure computes the loss anew; a step takes nothing else.
            return True
        for parameter in operator.takes:
            known = self.shapes.known(operator, parameter.name)
            left_out = parameter.default is None and parameter.name not in plan.given
            usual = is_length(parameter) or _STATES.search(parameter.name)
            if left_out and not usual and is_tensor(parameter, known):
                return False
        return True

    def _staged(
        self, operator: Operator, plan: CallPlan, arguments: Arguments
    ) -> tuple[str, CaughtError | None]:
        """The last stage that the call came to, and the error that ended it there."""
        function, sized = operator.call, plan
        if operator.is_built:
            asked = attempt(lambda: _constructors(operator, plan, arguments, self.shapes), _SECONDS)
            if isinstance(asked, CaughtError):
                return "build", asked
            made_with = {p.name: asked.get(p.name, p.default) for p in operator.parameters}
            built = attempt(lambda: _built(operator, plan, arguments, asked), _SECONDS, made_with)
            if isinstance(built, CaughtError):
                return "build", built
            function = built
        if operator.kind == LAYER:
            width = _width(made_with)
            if width:
                # Only the built layer can say how wide its input is.
                sized = plan.but(sizes={"D": width, **plan.sizes})
        given = attempt(lambda: _given(operator, sized, arguments), _SECONDS)
        if isinstance(given, CaughtError):
            return "arguments", given
        known = {p.name: given.get(p.name, p.default) for p in operator.takes}
        self._given = known
        watching: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if self._watch is not None:
            watching = self._watch.watching(known)

        def forward() -> Any:
            with watching:
                return _forward(operator, plan, function, given)

        returned = attempt(forward, _SECONDS, known)
        if isinstance(returned, CaughtError):
            return "forward", returned
        if not plan.training:
            return "forward", None
        error = attempt(lambda: _backward(returned, 1.0), _SECONDS)
        if error is None:
            # Losses look at their gradient, and launch nothing for one that is 1. What a second
            # pass raises says nothing: a graph serves one pass.
            attempt(lambda: _backward(_scalars(returned), _OTHER_GRADIENT), _SECONDS)
        return "backward", error


def _constructors(
    operator: Operator, plan: CallPlan, arguments: Arguments, shapes: Shapes
) -> dict[str, Any]:
    """What a class is given to make an object: what its constructor has no default for."""
    with BODIES.resting():
        wanted = plan.given.union(plan.build)
        asked = [
            as_number(operator, p, shapes.known(operator, p.name))
            for p in operator.parameters
            if p.default is NOTHING or p.name in wanted
        ]
        return arguments.build(operator, plan.but(values=plan.build), asked)


def _built(
    operator: Operator, plan: CallPlan, arguments: Arguments, given: Mapping[str, Any]
) -> Callable[..., Any]:
    """The layer as its constructor's defaults have it, or the method of an object."""
    made = operator.call(**given)
    if operator.kind == METHOD:
        if isinstance(made, torch.optim.Optimizer):
            return optimizers.stepping(made)
        method: Callable[..., Any] = getattr(made, operator.method)
        return method
    layer = made.to(device="cuda", dtype=arguments.dtype)
    # A package's own may return nothing.
    layer.train(plan.training)
    called: Callable[..., Any] = layer
    return called


def _width(made_with: Mapping[str, Any]) -> int | None:
    """The width of a layer's input, by what its constructor was given."""
    widths = [made_with[name] for name in _WIDTHS if isinstance(made_with.get(name), int)]
    return next(iter(widths), None)


def _given(operator: Operator, plan: CallPlan, arguments: Arguments) -> dict[str, Any]:
    """The arguments of the call, made by torch: a package may have put its own operators there."""
    with BODIES.resting():
        return arguments.build(operator, plan, operator.takes)


def _forward(operator: Operator, plan: CallPlan, function: Any, given: Mapping[str, Any]) -> Any:
    with torch.set_grad_enabled(plan.training):
        # An autograd function's `apply` takes no names.
        if getattr(operator.call, "__name__", "") == "apply":
            return function(*[given.get(p.name, p.default) for p in operator.parameters])
        nameless = [p for p in operator.takes if p.kind is inspect.Parameter.POSITIONAL_ONLY]
        first = [given.get(p.name, p.default) for p in nameless]
        names = {p.name for p in nameless}
        return function(*first, **{name: v for name, v in given.items() if name not in names})


def _backward(returned: Any, gradient: float) -> None:
    outputs = [tensor for tensor in _tensors(returned) if tensor.requires_grad]
    if outputs:
        gradients = [torch.full_like(tensor, gradient) for tensor in outputs]
        torch.autograd.backward(outputs, gradients)


def _scalars(returned: Any) -> list[torch.Tensor]:
    """Losses, of all that was returned."""
    return [tensor for tensor in _tensors(returned) if tensor.numel() == 1]


def _tensors(returned: Any) -> Iterator[torch.Tensor]:
    if isinstance(returned, torch.Tensor):
        yield returned
    elif isinstance(returned, (tuple, list)):
        for part in returned:
            yield from _tensors(part)
    elif isinstance(returned, dict):
        for part in list(returned.values()):
            yield from _tensors(part)


def _rank(operator: Operator, plan: CallPlan, result: CallResult, documented: bool) -> Rank:
    """How far the arguments of the launches of a call are to be trusted."""
    if not result.worked:
        return Rank.FAILED
    if operator.kind == LAYER:
        return Rank.LAYER
    if documented and plan.torchs:
        # Whoever calls torch's operator calls this, whatever else the package does with it.
        return Rank.DOCUMENTED
    if not operator.outer and plan.passed:
        return Rank.PASSED
    if not operator.outer:
        return Rank.INNER
    if operator.shared:
        return Rank.SHARED
    if documented:
        return Rank.DOCUMENTED
    return Rank.OUTER
