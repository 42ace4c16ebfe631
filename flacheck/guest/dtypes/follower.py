"""Follows dtypes from parameters to launches. An operation is judged by the dtypes that go in and
come out alone: a half tensor and a float32 one in, float32 out, is a promotion, whatever the
operation's name.

Calls are seen twice. Above autocast, as the program makes them, where `k.addcmul(x, self.k_a)` has
operands of two dtypes; and below it, where autocast has cast already. What autocast or the program
casts by itself has one operand, or hands the float32 one to no operation (`x.to(other)`), and is no
promotion. Backward passes call torch's own nodes, which are seen below only."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from . import places
from .exponentials import Exponentials
from .overflow import overflow
from .places import SourcePlace

_ORIGIN = "_flacheck_origin"
# In the metadata of a node of torch's graph: the numbers of its outputs whose gradients are marked.
_MARKED = "flacheck.marked_gradients"
HALF = (torch.float16, torch.bfloat16)
_WIDE = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Origin:
    """Where a tensor is from. `kind` and `name` say what it is, through views and casts of it
    alone: a `parameter`, a `buffer`, an `argument`; `events` are the numbers of the promotions that
    it owes its dtype to."""

    kind: str | None = None
    name: str | None = None
    events: frozenset[int] = frozenset()

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "events": sorted(self.events)}


@dataclass(frozen=True)
class CallOperand:
    """One tensor of a call: `at` is its position or keyword there."""

    at: str
    dtype: str
    origin: Origin
    dims: int

    def to_json(self) -> dict[str, Any]:
        return {"at": self.at, "dtype": self.dtype, "dims": self.dims, **self.origin.to_json()}


@dataclass
class Followed:
    """What was seen of one run."""

    promotions: list[dict[str, Any]] = field(default_factory=list)
    overflows: list[dict[str, Any]] = field(default_factory=list)
    launches: list[dict[str, Any]] = field(default_factory=list)
    # The operation that raised last: the error and the operands that it was given.
    refused: tuple[BaseException, list[CallOperand]] | None = None


_UNKNOWN = Origin()


def origin_of(tensor: Any) -> Origin:
    """What is known of a tensor."""
    origin: Origin = getattr(tensor, _ORIGIN, _UNKNOWN)
    return origin


def name_tensors(kind: str, tensors: Iterable[tuple[str, Any]]) -> None:
    """Say of each tensor what it is."""
    for name, tensor in tensors:
        if isinstance(tensor, torch.Tensor):
            setattr(tensor, _ORIGIN, Origin(kind, name))


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class _Running(threading.local):
    """The call of the program's that a thread is in: the ids of the tensors that its operations
    were given; None between calls."""

    given: set[int] | None = None


class Follower:
    """Follows one run after another; `seen` is what was seen since `begin`."""

    def __init__(self) -> None:
        self.seen = Followed()
        self.phase = ""
        self.ids: list[str] = []
        self._running = _Running()
        self._calls = _ProgramCalls(self)
        self._operations = _Operations(self)
        self._places: dict[tuple[Any, ...], int] = {}
        self._exponentials = Exponentials()

    def begin(self) -> None:
        self.seen = Followed()
        self._places = {}
        self.ids.clear()

    def __enter__(self) -> Follower:
        self._operations.__enter__()
        self._calls.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._calls.__exit__(*raised)
        self._operations.__exit__(*raised)

    def call(self, function: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """A call of the program's."""
        if self._running.given is not None:
            return function(*args, **kwargs)
        given: set[int] = set()
        self._running.given = given
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            self.seen.refused = (error, list(_operands(args, kwargs)))
            raise
        finally:
            self._running.given = None
        self._judge(result, args, kwargs, given, function)
        if self.phase == "forward":
            # What a function written in Python returned is an operand here for the first time.
            for tensor in itertools.chain(_flat(result), _flat_operands(args, kwargs)):
                _mark_gradient(tensor)
        return result

    def operation(self, operator: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """An operation as it reaches the dispatcher: of a call, or of a backward pass."""
        if self._running.given is not None:
            self._running.given.update(id(tensor) for _, tensor in _tensors(args, kwargs))
            return operator(*args, **kwargs)
        result = operator(*args, **kwargs)
        given = {id(tensor) for _, tensor in _tensors(args, kwargs)}
        # Asking a tensor for its dtype is a call, too.
        with torch._C.DisableTorchFunction():
            self._judge(result, args, kwargs, given, operator)
        return result

    def launch(self, kernel: str, arguments: Mapping[str, Any]) -> None:
        """A kernel is launched with these."""
        with torch._C.DisableTorchFunction():
            self._launch(kernel, arguments)

    def _launch(self, kernel: str, arguments: Mapping[str, Any]) -> None:
        described = {}
        promoted: frozenset[int] = frozenset()
        tensors = []
        for name, value in arguments.items():
            tensor = getattr(value, "base", None) if hasattr(value, "block_shape") else value
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                origin = origin_of(tensor)
                described[name] = {"dtype": short(tensor.dtype), **origin.to_json()}
                described[name]["dims"] = tensor.dim()
                tensors.append(tensor)
                promoted |= origin.events
        line = {"kernel": kernel, "phase": self.phase, "ids": list(self.ids), "args": described}
        self.ids.clear()
        self.seen.launches.append(line)
        for tensor in tensors:
            # What the kernel wrote into owes its dtype to the same operands.
            if tensor.dtype in _WIDE and origin_of(tensor) == _UNKNOWN:
                setattr(tensor, _ORIGIN, Origin(events=promoted))

    def _judge(
        self, result: Any, args: Any, kwargs: Mapping[str, Any], given: set[int], function: Any
    ) -> None:
        made = [tensor for tensor in _flat(result) if tensor.is_floating_point()]
        if not made:
            return
        operands = [
            (at, tensor) for at, tensor in _tensors(args, kwargs) if tensor.is_floating_point()
        ]
        inputs = {id(tensor) for _, tensor in operands}
        event: int | None = None
        for tensor in made:
            # Written in place: its dtype was settled before.
            if id(tensor) in inputs:
                self._exponentials.forget(tensor)
                continue
            if tensor.dtype not in _WIDE:
                _inherit(tensor, operands, frozenset())
                if tensor.dtype == torch.float16:
                    self._check_range(tensor, function, args, kwargs)
                continue
            halves = [each for each in operands if each[1].dtype in HALF]
            wide = [each for each in operands if each[1].dtype in _WIDE]
            # Numbers and tensors without dimensions promote nothing; what no operation was given
            # only told a dtype or a shape.
            deciding = [each for each in wide if each[1].dim() and id(each[1]) in given]
            # One that is only asked for its shape (`residual.reshape_as(x)`) promotes nothing.
            promoted = [each for each in halves if id(each[1]) in given]
            if promoted and deciding:
                if event is None:
                    event = self._promotion(promoted, deciding, tensor)
                setattr(tensor, _ORIGIN, Origin(events=frozenset((event,))))
            elif halves and not deciding:
                # A cast, the program's or autocast's.
                _inherit(tensor, halves, frozenset())
            else:
                events = [origin_of(each).events for _, each in wide]
                _inherit(tensor, operands, frozenset(itertools.chain.from_iterable(events)))

    def _promotion(self, halves: Any, wide: Any, made: torch.Tensor) -> int:
        place = places.here()
        operands = [_operand(at, tensor) for at, tensor in wide]
        # A line in a loop promotes again and again, with the same operands.
        key = (place, tuple(operands), tuple(at for at, _ in halves))
        if key in self._places:
            return self._places[key]
        number = self._places[key] = len(self.seen.promotions)
        self.seen.promotions.append(
            {
                "place": place and place.to_json(),
                "direct": places.is_direct(),
                "phase": self.phase,
                "halves": [_operand(at, tensor).to_json() for at, tensor in halves],
                "wide": [operand.to_json() for operand in operands],
                "from": short(halves[0][1].dtype),
                "to": short(made.dtype),
            }
        )
        return number

    def _check_range(
        self, tensor: torch.Tensor, function: Any, args: Any, kwargs: Mapping[str, Any]
    ) -> None:
        said = overflow(function, args, kwargs)
        if said is None:
            said = self._exponentials.made(tensor, function, args, kwargs)
        if said is not None:
            place: SourcePlace | None = places.here()
            line = {"place": place and place.to_json(), "phase": self.phase, **said}
            if line not in self.seen.overflows:
                self.seen.overflows.append(line)


class _ProgramCalls(TorchFunctionMode):
    """Above autocast."""

    def __init__(self, follower: Follower) -> None:
        super().__init__()
        self._follower = follower

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self._follower.call(function, args, kwargs or {})


class _Operations(TorchDispatchMode):
    """Below autocast."""

    def __init__(self, follower: Follower) -> None:
        super().__init__()
        self._follower = follower

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self._follower.operation(operator, args, kwargs or {})


def _mark_gradient(tensor: torch.Tensor) -> None:
    """A gradient has the dtype of what it is the gradient of: it is wide for the same reasons,
    whatever else computed with it on its way back."""
    with torch._C.DisableTorchFunction():
        node = tensor.grad_fn
        if node is None or tensor.dtype not in _WIDE:
            return
        marked = node.metadata.setdefault(_MARKED, set())
        if tensor.output_nr in marked:
            return
        marked.add(tensor.output_nr)
        origin = Origin(events=origin_of(tensor).events)

        def mark(gradient: torch.Tensor) -> None:
            setattr(gradient, _ORIGIN, origin)

        tensor.register_hook(mark)


def _operand(at: str, tensor: torch.Tensor) -> CallOperand:
    return CallOperand(at, short(tensor.dtype), origin_of(tensor), tensor.dim())


def _operands(args: Any, kwargs: Mapping[str, Any]) -> Iterator[CallOperand]:
    for at, tensor in _tensors(args, kwargs):
        if tensor.is_floating_point():
            yield _operand(at, tensor)


def _tensors(args: Any, kwargs: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a call with their positions or keywords; those of a list share one."""
    for at, value in itertools.chain(enumerate(args), kwargs.items()):
        for tensor in _flat(value):
            yield str(at), tensor


def _flat_operands(args: Any, kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    for _, tensor in _tensors(args, kwargs):
        yield tensor


def _flat(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _flat(part)


def _inherit(
    tensor: torch.Tensor, operands: list[tuple[str, torch.Tensor]], events: frozenset[int]
) -> None:
    """A view or cast of one tensor is still that tensor."""
    origin = Origin(events=events)
    if len(operands) == 1:
        origin = replace(origin_of(operands[0][1]), events=events)
    setattr(tensor, _ORIGIN, origin)
