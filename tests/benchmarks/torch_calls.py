"""Writes down how torch's own tests call its operators: what the package driver reads.

    python -m tests.benchmarks.torch_calls FILE

Packages register kernels for torch's operators, or name functions after them, and mostly take what
torch takes. What that is, torch's samples of its operators say (`torch.testing`, "OpInfo"): each is
run on the CPU, forward and backward, and every operator of aten that is met on the way is written
down with its arguments, as is the call of the function itself. One line a name:

    {"name": "mean", "calls": [{"overload": "dim", "args": […], "kwargs": {…}, "returned": […]}]}

A tensor is {"t": "bf16[5,5]"}, with strides behind a semicolon where they are no usual ones, and
with "*" behind all where it is the view `conj`; "bf16" stands for the dtype of the call, which the
samples have as float32. Made with torch 2.13; other releases differ little.
"""

from __future__ import annotations

import difflib
import inspect
import itertools
import json
import math
import re
import sys
import types
import unittest
import warnings
from collections import defaultdict
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Of one operator: calls that differ in kind, and samples that are run for them.
_MOST_CALLS, _MOST_SAMPLES = 6, 60
# A sample of each of these, beside those in float32.
_OTHER_DTYPES = (torch.complex64, torch.int64, torch.bool)
# Elements of a tensor and entries of a list; larger samples say nothing else.
_MOST_ELEMENTS, _MOST_ENTRIES = 1 << 20, 16
# What is returned tells the shapes of the first arguments for results.
_MOST_RETURNED = 2
# How alike the names of two operators with one signature are that may be called alike.
_ALIKE = 0.75
_NAMES = {
    torch.float32: "bf16",
    torch.float64: "fp64",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.bool: "i1",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.complex64: "complex64",
    torch.complex128: "complex128",
}

Call = dict[str, Any]


class NotWritten(Exception):
    """An argument that cannot be written down."""


def described(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, torch.dtype) and value in _NAMES:
        return {"dtype": _NAMES[value]}
    if isinstance(value, torch.device):
        return {"device": True}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, (list, tuple)) and len(value) <= _MOST_ENTRIES:
        return [described(part) for part in value]
    raise NotWritten


def _tensor(tensor: torch.Tensor) -> dict[str, Any]:
    plain = tensor.layout == torch.strided and tensor.dtype in _NAMES
    if not plain or tensor.numel() > _MOST_ELEMENTS:
        raise NotWritten
    told = ",".join(map(str, tensor.shape))
    if not tensor.is_contiguous():
        told += ";" + ",".join(map(str, tensor.stride()))
    view = "*" if tensor.is_conj() else ""
    return {"t": f"{_NAMES[tensor.dtype]}[{told}]{view}"}


class Calls:
    """By name, the calls that differ in kind."""

    def __init__(self) -> None:
        self.by_name: dict[str, list[Call]] = defaultdict(list)
        self._kinds: dict[str, set[str]] = defaultdict(set)

    def note(
        self, name: str, overload: str, args: Any, kwargs: Any, returned: Any, extra: bool
    ) -> None:
        try:
            call = {"overload": overload, "args": described(args)}
            call["kwargs"] = {key: described(value) for key, value in kwargs.items()}
        except NotWritten:
            return
        kept = {key: value for key, value in call["kwargs"].items() if value is not None}
        call["kwargs"] = {key: value for key, value in kept.items() if value != {"device": True}}
        outputs = returned if isinstance(returned, (list, tuple)) else [returned]
        try:
            call["returned"] = [described(each) for each in outputs[:_MOST_RETURNED]]
        except NotWritten:
            call["returned"] = []
        if not overload and any(call["args"] == each["args"] for each in self.by_name[name]):
            # The function's call is that of an operator of its name.
            return
        kind = _kind([overload, call["args"], call["kwargs"]])
        most = _MOST_CALLS + len(_OTHER_DTYPES) * extra
        if kind not in self._kinds[name] and len(self.by_name[name]) < most:
            self._kinds[name].add(kind)
            self.by_name[name].append(call)


def _kind(value: Any) -> str:
    """The same for two calls that differ in sizes or in numbers only."""
    if isinstance(value, dict) and "t" in value:
        return re.sub(r"\d+(?=[,;\]])", "n", re.sub(r"(?<![\d])0(?=[,;\]])", "empty", value["t"]))
    if isinstance(value, dict):
        return str({key: _kind(part) for key, part in value.items()})
    if isinstance(value, list) and not all(type(part) is int for part in value):
        return str([_kind(part) for part in value])
    if isinstance(value, list):
        return f"ints[{len(value)}]"
    if type(value) in (int, float):
        return type(value).__name__
    return repr(value)


class Listening(TorchDispatchMode):
    """Notes every operator of aten that runs."""

    def __init__(self, calls: Calls, extra: bool) -> None:
        super().__init__()
        self._calls, self._extra = calls, extra

    def __torch_dispatch__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        # Before it runs: what works in place changes its argument.
        returned = func(*args, **(kwargs or {}))
        namespace, _, name = func._schema.name.partition("::")
        if namespace == "aten":
            overload = func._overloadname
            self._calls.note(name, overload, args, kwargs or {}, returned, self._extra)
        return returned


def _run(operator: Any, sample: Any, trains: bool) -> Any:
    result = operator(sample.input, *sample.args, **sample.kwargs)
    outputs = result if isinstance(result, (tuple, list)) else [result]
    differentiable = [o for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad]
    inputs = sample.input if isinstance(sample.input, (tuple, list)) else [sample.input]
    inputs = [each for each in (*inputs, *sample.args) if isinstance(each, torch.Tensor)]
    inputs = [each for each in inputs if each.requires_grad]
    if trains and differentiable and inputs:
        gradients = [torch.ones_like(each) for each in differentiable]
        torch.autograd.grad(differentiable, inputs, gradients, allow_unused=True)
    return result


def _sampled(calls: Calls, operator: Any, dtype: torch.dtype, most: int, extra: bool) -> None:
    trains = operator.supports_autograd and dtype.is_floating_point
    samples = operator.sample_inputs("cpu", dtype, requires_grad=trains)
    for sample in itertools.islice(samples, most):
        with Listening(calls, extra):
            result = _run(operator, sample, trains)
        name = operator.name.rpartition(".")[2]
        args = (sample.input, *sample.args)
        calls.note(name, "", args, sample.kwargs, result, extra)


def _alike(calls: Calls) -> None:
    """An operator that no sample meets is called as one of the same signature and nearly its
    name."""
    signatures: dict[str, str] = {}
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace == "aten" and not schema.overload_name:
            arguments = [f"{each.type} {each.name}" for each in schema.arguments]
            signatures[name] = ", ".join(arguments)
    for name, signature in sorted(signatures.items()):
        if name in calls.by_name or name.endswith("_"):
            continue
        same = [n for n, s in signatures.items() if s == signature and n in calls.by_name]
        for near in difflib.get_close_matches(name, same, 1, _ALIKE):
            calls.by_name[name] = [c for c in calls.by_name[near] if not c["overload"]]


def gather() -> dict[str, list[Call]]:
    operators = _operators()
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    calls = Calls()
    for operator in operators:
        plain = torch.float32
        if plain not in operator.dtypes:
            plain = min(operator.dtypes, key=str, default=plain)
        for dtype in (plain, *_OTHER_DTYPES):
            if dtype not in operator.dtypes:
                continue
            extra = dtype != plain
            most = 2 if extra else _MOST_SAMPLES
            try:
                _sampled(calls, operator, dtype, most, extra)
            except Exception as error:
                print(f"{operator.name}: {type(error).__name__}: {error}"[:150], file=sys.stderr)
    for operator in operators:
        for alias in operator.aliases:
            name = alias.name.rpartition(".")[2]
            met = calls.by_name.get(operator.name.rpartition(".")[2])
            if met and name not in calls.by_name:
                calls.by_name[name] = met
    _alike(calls)
    return {name: sorted(made, key=_odd) for name, made in sorted(calls.by_name.items()) if made}


def _odd(call: Call) -> tuple[bool, bool]:
    """Calls of single numbers and of nothing come last."""
    said = json.dumps(call["args"])
    first = re.search(r"\[[\d,;]*\]", said)
    return first is not None and first[0] == "[]", bool(re.search(r"[\[,]0[,;\]]", said))


def _operators() -> list[Any]:
    # torch's samples import a library for tests that they do not use.
    stand_in = types.ModuleType("expecttest")
    stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    stand_in.assert_expected_inline = None  # type: ignore[attr-defined]
    sys.modules.setdefault("expecttest", stand_in)
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def main() -> None:
    said = inspect.cleandoc(__doc__ or "")
    if len(sys.argv) != 2:
        raise SystemExit(said)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        for name, calls in gather().items():
            line = {"name": name, "calls": calls}
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
