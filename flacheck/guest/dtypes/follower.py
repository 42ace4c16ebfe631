"""Propagation of dtypes from parameters to launches.

An operation is judged only by its input and output dtypes: a half tensor and a float32 tensor as
inputs with a float32 output is a promotion, whatever the operation's name.

Calls are observed twice. Operations are observed above autocast, as the program makes them, where
`k.addcmul(x, self.k_a)` has operands of two dtypes; and below it, where autocast has already cast
them. A cast by autocast or the program has one operand, or passes the float32 tensor to no
operation (`x.to(other)`), and is not a promotion. Backward passes call torch's own nodes, which are
observed below autocast only.
"""

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
# The metadata key of a graph node for the numbers of its outputs whose gradients are marked.
_MARKED_OUTPUTS = "flacheck.marked_gradients"
HALF = (torch.float16, torch.bfloat16)
_WIDE = (torch.float32, torch.float64)
# Kinds of origins: float32 values that the program computes from numbers and integers, such as
# rotary tables, and buffers.
_TABLE, _BUFFER = "table", "buffer"
# A program that adds to such tensors accumulates in their dtype by design.
_FILLS = ("zeros", "ones", "full", "empty")
# A tensor with its position or keyword in a call.
_CallTensor = tuple[str, torch.Tensor]


@dataclass(frozen=True)
class Origin:
    """The origin of a tensor.

    `kind` and `name` identify a `parameter`, a `buffer` or an `argument`, through views and casts
    of it alone; a `table` has a name if a module holds it. `events` are the numbers of the
    promotions that caused its dtype, `casts` those of the casts by the program or by autocast.
    """

    kind: str | None = None
    name: str | None = None
    events: frozenset[int] = frozenset()
    casts: frozenset[int] = frozenset()

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "events": sorted(self.events),
            "casts": sorted(self.casts),
        }


@dataclass(frozen=True)
class CallOperand:
    """One tensor of a call; `at` is its position or keyword, with indices of lists behind it."""

    at: str
    dtype: str
    origin: Origin
    dims: int

    def to_json(self) -> dict[str, Any]:
        return {"at": self.at, "dtype": self.dtype, "dims": self.dims, **self.origin.to_json()}


@dataclass
class RunRecord:
    """The promotions, casts to a wider dtype, overflows and launches of one run."""

    promotions: list[dict[str, Any]] = field(default_factory=list)
    casts: list[dict[str, Any]] = field(default_factory=list)
    overflows: list[dict[str, Any]] = field(default_factory=list)
    launches: list[dict[str, Any]] = field(default_factory=list)
    # The last error of an operation, with the operands of the operation.
    rejection: tuple[BaseException, list[CallOperand]] | None = None


_UNKNOWN = Origin()


def origin_of(tensor: Any) -> Origin:
    """Return the origin of a tensor."""
    origin: Origin = getattr(tensor, _ORIGIN, _UNKNOWN)
    return origin


def name_tensors(kind: str, tensors: Iterable[tuple[str, Any]]) -> None:
    """Set the origin of each tensor to this kind and its name."""
    for name, tensor in tensors:
        if isinstance(tensor, torch.Tensor):
            setattr(tensor, _ORIGIN, Origin(kind, name))


def name_module(module: torch.nn.Module) -> None:
    """Set the origins of a module's parameters, buffers and other tensors, which are tables."""
    name_tensors("parameter", module.named_parameters())
    name_tensors(_BUFFER, module.named_buffers())
    for prefix, part in module.named_modules():
        name_tensors(
            _TABLE, ((f"{prefix}.{key}".lstrip("."), each) for key, each in vars(part).items())
        )


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class _Running(threading.local):
    """The current call of the program in a thread.

    `given_ids` are the ids of the tensors that its operations received; None between calls.
    """

    given_ids: set[int] | None = None


class Follower:
    """Recorder of one run after another; `record` is that of the run since `begin`."""

    def __init__(self) -> None:
        self.record = RunRecord()
        self.phase = ""
        self.ids: list[str] = []
        self._running = _Running()
        self._calls = _ProgramCalls(self)
        self._operations = _Operations(self)
        self._places: dict[tuple[Any, ...], int] = {}
        self._cast_places: dict[tuple[Any, ...], int] = {}
        self._exponentials = Exponentials()

    def begin(self) -> None:
        self.record = RunRecord()
        self._places = {}
        self._cast_places = {}
        self.ids.clear()

    def __enter__(self) -> Follower:
        self._operations.__enter__()
        self._calls.__enter__()
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self._calls.__exit__(*exc_info)
        self._operations.__exit__(*exc_info)

    def call(self, function: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Run a call of the program, and record its promotions."""
        if self._running.given_ids is not None:
            return function(*args, **kwargs)
        given_ids: set[int] = set()
        self._running.given_ids = given_ids
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            # An operation of torch raises errors of many classes.
            self.record.rejection = (error, list(_operands(args, kwargs)))
            raise
        finally:
            self._running.given_ids = None
        self._judge(result, args, kwargs, given_ids, function)
        if self.phase == "forward":
            # The result of a function written in Python is an operand here for the first time.
            for tensor in itertools.chain(_flat(result), _flat_operands(args, kwargs)):
                _mark_gradient(tensor)
        return result

    def operation(self, operator: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Run an operation of a call or of a backward pass, as it reaches the dispatcher."""
        if self._running.given_ids is not None:
            self._running.given_ids.update(_ids(args, kwargs))
            return operator(*args, **kwargs)
        result = operator(*args, **kwargs)
        given_ids = _ids(args, kwargs)
        # Reading a tensor's dtype is a call, too.
        with torch._C.DisableTorchFunction():
            self._judge(result, args, kwargs, given_ids, operator)
        return result

    def launch(self, kernel: str, arguments: Mapping[str, Any]) -> None:
        """Record a launch of a kernel with these arguments."""
        with torch._C.DisableTorchFunction():
            self._launch(kernel, arguments)

    def _launch(self, kernel: str, arguments: Mapping[str, Any]) -> None:
        arguments_json = {}
        promoted_events: frozenset[int] = frozenset()
        casts: frozenset[int] = frozenset()
        place = places.here()
        tensors = []
        for name, value in arguments.items():
            tensor = getattr(value, "base", None) if hasattr(value, "block_shape") else value
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                origin = origin_of(tensor)
                arguments_json[name] = {"dtype": short(tensor.dtype), **origin.to_json()}
                arguments_json[name]["dims"] = tensor.dim()
                tensors.append(tensor)
                promoted_events |= origin.events
                casts |= origin.casts
        line = {
            "kernel": kernel,
            "phase": self.phase,
            "place": place and place.to_json(),
            "ids": list(self.ids),
            "args": arguments_json,
        }
        self.ids.clear()
        self.record.launches.append(line)
        for tensor in tensors:
            # A tensor that the kernel wrote has its dtype from the same operands.
            if tensor.dtype in _WIDE and origin_of(tensor) == _UNKNOWN:
                setattr(tensor, _ORIGIN, Origin(events=promoted_events, casts=casts))

    def _judge(
        self, result: Any, args: Any, kwargs: Mapping[str, Any], given_ids: set[int], function: Any
    ) -> None:
        new_tensors = [tensor for tensor in _flat(result) if tensor.is_floating_point()]
        if not new_tensors:
            return
        operands = [
            (at, tensor) for at, tensor in _tensors(args, kwargs) if tensor.is_floating_point()
        ]
        inputs = {id(tensor) for _, tensor in operands}
        for tensor in new_tensors:
            # A tensor that is written in place keeps its dtype.
            if id(tensor) in inputs:
                self._exponentials.forget(tensor)
                continue
            if tensor.dtype not in _WIDE:
                _inherit(tensor, operands, frozenset())
                if tensor.dtype == torch.float16:
                    self._check_range(tensor, function, args, kwargs)
                continue
            if _is_table(operands, function):
                _inherit(tensor, operands, frozenset(), kind=_TABLE)
                continue
            self._settle_wide(tensor, operands, given_ids)

    def _settle_wide(self, tensor: torch.Tensor, operands: Any, given_ids: set[int]) -> None:
        """Record a promotion or cast to a float32 result, else inherit from its operands."""
        halves, wide, promoted_halves, promoters = _sort_operands(operands, given_ids)
        if promoted_halves and promoters:
            event = self._promotion(promoted_halves, promoters, tensor)
            setattr(tensor, _ORIGIN, Origin(events=frozenset((event,))))
        elif halves and not promoters:
            # This is a cast by the program or by autocast.
            _inherit(tensor, halves, frozenset(), self._cast(halves, tensor))
        else:
            events, casts = set[int](), set[int]()
            for _, each in wide:
                events |= origin_of(each).events
                casts |= origin_of(each).casts
            _inherit(tensor, operands, frozenset(events), frozenset(casts))

    def _promotion(self, halves: Any, wide: Any, result: torch.Tensor) -> int:
        place = places.here()
        operands = list(itertools.starmap(_operand, wide))
        # A line in a loop repeats its promotion with the same operands.
        key = (place, tuple(operands), tuple(at for at, _ in halves))
        if key in self._places:
            return self._places[key]
        number = self._places[key] = len(self.record.promotions)
        self.record.promotions.append(
            {
                "place": place and place.to_json(),
                "direct": places.is_direct(),
                "phase": self.phase,
                "halves": list(map(CallOperand.to_json, itertools.starmap(_operand, halves))),
                "wide": list(map(CallOperand.to_json, operands)),
                "from": short(halves[0][1].dtype),
                "to": short(result.dtype),
            }
        )
        return number

    def _cast(self, halves: Any, result: torch.Tensor) -> frozenset[int]:
        """Record a cast of half operands; return its number, or nothing within torch's own code."""
        place = places.here()
        if place is None:
            return frozenset()
        key = (place, tuple(at for at, _ in halves))
        if key not in self._cast_places:
            self._cast_places[key] = len(self.record.casts)
            self.record.casts.append(
                {
                    "place": place.to_json(),
                    "direct": places.is_direct(),
                    "halves": list(map(CallOperand.to_json, itertools.starmap(_operand, halves))),
                    "from": short(halves[0][1].dtype),
                    "to": short(result.dtype),
                }
            )
        return frozenset((self._cast_places[key],))

    def _check_range(
        self, tensor: torch.Tensor, function: Any, args: Any, kwargs: Mapping[str, Any]
    ) -> None:
        evidence = overflow(function, args, kwargs)
        if evidence is None:
            evidence = self._exponentials.check(tensor, function, args, kwargs)
        if evidence is not None:
            place: SourcePlace | None = places.here()
            line = {"place": place and place.to_json(), "phase": self.phase, **evidence}
            if line not in self.record.overflows:
                self.record.overflows.append(line)


class _ProgramCalls(TorchFunctionMode):
    """The mode above autocast."""

    def __init__(self, follower: Follower) -> None:
        super().__init__()
        self._follower = follower

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self._follower.call(function, args, kwargs or {})


class _Operations(TorchDispatchMode):
    """The mode below autocast."""

    def __init__(self, follower: Follower) -> None:
        super().__init__()
        self._follower = follower

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self._follower.operation(operator, args, kwargs or {})


def _mark_gradient(tensor: torch.Tensor) -> None:
    """Give a tensor's gradient the events of the tensor.

    A gradient has the dtype of its tensor, so it is wide for the same reasons, whatever other
    operands the backward pass has.
    """
    with torch._C.DisableTorchFunction():
        node = tensor.grad_fn
        if node is None or tensor.dtype not in _WIDE:
            return
        marked_outputs = node.metadata.setdefault(_MARKED_OUTPUTS, set())
        if tensor.output_nr in marked_outputs:
            return
        marked_outputs.add(tensor.output_nr)
        origin = Origin(events=origin_of(tensor).events, casts=origin_of(tensor).casts)

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
    """Yield the tensors of a call with their positions or keywords, `0.1` for a list's second."""
    for at, value in itertools.chain(enumerate(args), kwargs.items()):
        yield from _positioned(str(at), value)


def _positioned(at: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield at, value
    elif isinstance(value, (tuple, list)):
        for number, part in enumerate(value):
            yield from _positioned(f"{at}.{number}", part)


def _sort_operands(
    operands: Iterable[_CallTensor], given_ids: set[int]
) -> tuple[list[_CallTensor], ...]:
    """Return the half operands, the wide ones, the halves that are promoted, and their promoters.

    An operand that no operation received only supplied a dtype or a shape, such as `x` in
    `residual.reshape_as(x)`: it promotes nothing and is not promoted.
    """
    halves, wide, promoted_halves, promoters = [], [], [], []
    for operand in operands:
        _, tensor = operand
        is_given = id(tensor) in given_ids
        if tensor.dtype in HALF:
            halves.append(operand)
            if is_given:
                promoted_halves.append(operand)
        elif tensor.dtype in _WIDE:
            wide.append(operand)
            # Numbers and tensors without dimensions promote nothing.
            if is_given and tensor.dim():
                promoters.append(operand)
    return halves, wide, promoted_halves, promoters


def _ids(args: Any, kwargs: Mapping[str, Any]) -> set[int]:
    ids = set()
    for _, tensor in _tensors(args, kwargs):
        ids.add(id(tensor))
    return ids


def _flat_operands(args: Any, kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    for _, tensor in _tensors(args, kwargs):
        yield tensor


def _flat(value: Any) -> Iterator[torch.Tensor]:
    for _, tensor in _positioned("", value):
        yield tensor


def _is_table(operands: Iterable[_CallTensor], function: Any) -> bool:
    """Return True if the only floats that a result depends on are tables and buffers."""
    kinds = {origin_of(tensor).kind for _, tensor in operands}
    if not kinds:
        return function.__name__.partition("_")[0].partition(".")[0] not in _FILLS
    return _TABLE in kinds and kinds <= {_TABLE, _BUFFER}


def _inherit(
    tensor: torch.Tensor,
    operands: list[tuple[str, torch.Tensor]],
    events: frozenset[int],
    casts: frozenset[int] = frozenset(),
    kind: str | None = None,
) -> None:
    """Set the origin of a result: a view or cast of one tensor keeps that tensor's name."""
    origin = Origin(kind, events=events, casts=casts)
    if len(operands) == 1:
        origin = replace(origin_of(operands[0][1]), events=events, casts=casts)
    setattr(tensor, _ORIGIN, origin)
