"""Timing of an operator's forms on the present card, with the installed Triton and torch.

A form is a function: a host function of our own kernels, on the family's random inputs, or a
package's operator. Its tensors then have the shapes that its documentation names
(`q (torch.Tensor): queries of shape [B, T, H, K]`). A worker with `device` "cpu" uses Triton's
interpreter instead, with each autotuner's first configuration.

A form is a whole host function: it allocates tensors, calls several kernels and other operators of
torch, and its gradients go through autograd. So it needs torch, where binaries of recorded launches
do not (`guest/card`).
"""

from __future__ import annotations

import fnmatch
import importlib
import inspect
import os
import pkgutil
import re
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, cast

from ..engine.loader import Loader, corpus_module
from ..engine.messages import Json, Mark, Reply, Request, WorkerConfig
from ..engine.outcomes import outcome_of
from . import values

# The exit code of a process that has lost its card.
_FAULT_EXIT = 3
# The forms by the beginning of an operator's name, longer ones first.
_FORMS = ("fused_recurrent", "fused_chunk", "chunk", "parallel")
_BRACKETS = re.compile(r"\[\s*([A-Z]\w*(?:\s*,\s*[A-Z]\w*)*)\s*\]")
# The names of sizes in documentation, beside our own.
_SIZES = {"D": "K", "N": "B", "HQ": "H", "HV": "H", "HK": "H", "DK": "K", "DV": "V", "L": "T"}
# The field's layouts, for arguments whose documentation names none.
_USUAL = {"q": "BTHK", "k": "BTHK", "v": "BTHV"}
# Optional arguments that every form needs to compute the same; `gk` in place of a `g`.
_GATES = ("g", "gk", "beta")
_LOG_DECAYS = ("g", "gk", "w")
_STRENGTHS = ("beta",)
# Two runs after the first one let clocks and caches settle.
_UNTIMED_RUNS = 2
_TINY = 1e-30
_MB = 1e6


class FormsRequest(Request, total=False):
    """A request about forms.

    `folders` are those of the package's modules, `modules` its top-level ones, `glob` selects
    operators. A `form` is that of a `family`, or of a `function`, `module:name`. `sizes` has B, T,
    H, K and V; forms with the same `comparison` are compared.
    """

    folders: list[str]
    modules: list[str]
    glob: str
    family: str
    form: str
    function: str
    sizes: dict[str, int]
    repeats: int
    comparison: str


class FormsWorker:
    """One card, and the outputs of the first form at the current sizes."""

    def __init__(self, config: WorkerConfig) -> None:
        # The first run of a form compiles for real, unless the user names a cache.
        if not os.environ.get("TRITON_CACHE_DIR"):
            os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="flacheck-bench-")
        self._corpus, self._device = config["corpus"], config["device"]
        sys.path.append(config["torch"])
        if self._device == "cpu":
            os.environ["TRITON_INTERPRET"] = "1"
        # It makes the installed Triton importable; torch already uses the only card.
        Loader(config, lambda card: None, whole_dependencies=True)
        self._phases = Phases()
        # The present comparison, and the form that ran first: its outputs are the reference.
        self._comparison: str | None = None
        self._first_form = ""
        self._first_outputs: list[Any] = []
        self._is_ready = False

    def run(self, request: Request, mark: Mark) -> Reply:
        """Run a request and return its reply; Triton's phases are timed from the first one on.

        If the card has faulted, the process ends and its successor starts anew.
        """
        mark(request["op"])
        if not self._is_ready and request["op"] != "device":
            for folder in cast(FormsRequest, request).get("folders", ()):
                sys.path.insert(0, folder)
            self._phases.install()
            if self._device == "cpu":
                _choose_first_configurations()
            self._is_ready = True
        try:
            operation = getattr(self, "op_" + request["op"])
            answer: Reply = operation(request)
        except RuntimeError as error:
            if self._device != "cpu" and _is_faulted():
                first = str(error).splitlines()[0]
                print(f"the kernel faulted on the card: {first}", file=sys.stderr, flush=True)
                os._exit(_FAULT_EXIT)
            raise
        return answer

    def tolerates(self, error: BaseException) -> bool:
        """Return False: no autotuner's failure is forgiven here."""
        return False

    def op_device(self, request: Request) -> Reply:
        """Return the facts of the card; a missing card is also a fact."""
        import torch
        import triton

        facts: Json = {"name": None, "capability": None}
        facts |= {"triton": triton.__version__, "torch": torch.__version__}
        if self._device == "cpu":
            facts["name"] = "Triton's interpreter"
        elif torch.cuda.is_available():
            facts["name"] = torch.cuda.get_device_name()
            facts["capability"] = list(torch.cuda.get_device_capability())
        return {"facts": facts}

    def op_forms(self, request: FormsRequest) -> Reply:
        """Return the package's operators whose names match: `name`, `operator` and `form`."""
        forms: list[dict[str, str]] = []
        failures: list[str] = []
        for module_name in request["modules"]:
            for name, function in _exports(module_name, failures):
                form = next((f for f in _FORMS if name.startswith(f"{f}_")), None)
                if form is None or not fnmatch.fnmatchcase(name, request["glob"]):
                    continue
                place = f"{function.__module__}:{function.__name__}"
                operator = name.removeprefix(f"{form}_")
                forms.append({"function": place, "operator": operator, "form": form})
        unique = {form["function"]: form for form in forms}
        return {"facts": {"forms": list(unique.values()), "failures": failures}}

    def op_measure(self, request: FormsRequest) -> Reply:
        """Time one form at one size, forward and backward.

        The facts are seconds of the first run: `compile_s` in compilers, `tuning_s` in autotuners
        beside that, and `warm_up_s`, the rest; then `forward_ms` and `backward_ms` of the steady
        state, each the median and the bounds below and above which a fifth of the runs lies;
        `memory_mb`, the peak beside the arguments; `difference`, the largest relative difference of
        an output from that of the first form that ran at this size in this process, which is
        `compared_with`. `backward_failed` is the error that ends the backward.
        """
        import torch

        operator, arguments = self._operator(request)
        phases = self._phases
        phases.reset()
        start = time.perf_counter()
        outputs, error = _run(operator, arguments)
        self._wait()
        first_run = time.perf_counter() - start
        facts: Json = {"compile_s": phases.compiling, "tuning_s": phases.tuning}
        facts["warm_up_s"] = max(0.0, first_run - phases.compiling - phases.tuning)
        facts["backward_failed"] = error
        facts["difference"] = self._difference(request, outputs)
        facts["compared_with"] = self._first_form
        del outputs
        before = 0
        if self._device != "cpu":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        runs = []
        for _ in range(_UNTIMED_RUNS + request["repeats"]):
            runs.append(self._timed_run(operator, arguments, backward=error is None))
        forward, backward = zip(*runs[_UNTIMED_RUNS:])
        facts["forward_ms"] = _spread(forward)
        facts["backward_ms"] = _spread(backward) if error is None else None
        facts["memory_mb"] = None
        if self._device != "cpu":
            facts["memory_mb"] = (torch.cuda.max_memory_allocated() - before) / _MB
        return {"facts": facts, "seconds": first_run}

    def _operator(self, request: FormsRequest) -> tuple[Callable[..., Any], Json]:
        """Return a form's function and its arguments; floating-point tensors gather gradients."""
        import torch

        sizes, dtype = request["sizes"], getattr(torch, values.TORCH_NAMES[request["dtype"]])
        if "family" in request:
            module = corpus_module(self._corpus, request["family"])
            operator = getattr(module, request["form"])
            arguments = module.inputs(**sizes, dtype=dtype, device=self._device)
        else:
            module_name, _, name = request["function"].partition(":")
            operator = getattr(importlib.import_module(module_name), name)
            arguments = _arguments(operator, sizes, dtype, self._device)
        for name, value in arguments.items():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                arguments[name] = value.detach().requires_grad_()
        return operator, arguments

    def _difference(self, request: FormsRequest, outputs: list[Any]) -> float | None:
        """Return the largest ||x - y|| / ||y|| of outputs x and those of the first form, y."""
        if self._comparison != request["comparison"]:
            self._comparison, self._first_form = request["comparison"], request["form"]
            self._first_outputs = [output.double() for output in outputs]
            return None
        differences = []
        for ours, right in zip(outputs, self._first_outputs):
            if ours.shape == right.shape:
                size = max(right.norm().item(), _TINY)
                differences.append((ours.double() - right).norm().item() / size)
        return max(differences, default=None)

    def _timed_run(
        self, operator: Callable[..., Any], arguments: Json, backward: bool
    ) -> tuple[float, float]:
        """Return the ms of forward and of backward of one run."""
        import torch

        for value in arguments.values():
            if isinstance(value, torch.Tensor):
                value.grad = None
        start = self._moment()
        outputs = _tensors(operator(**arguments))
        middle = self._moment()
        if backward:
            _backward(outputs)
        end = self._moment()
        self._wait()
        return self._between(start, middle), self._between(middle, end)

    def _moment(self) -> Any:
        if self._device == "cpu":
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _between(self, start: Any, end: Any) -> float:
        """Return the ms between two moments."""
        if self._device == "cpu":
            return float(end - start) * 1_000
        return float(start.elapsed_time(end))

    def _wait(self) -> None:
        if self._device != "cpu":
            import torch

            torch.cuda.synchronize()


# The name under which the server looks for a module's worker.
Worker = FormsWorker


def _is_faulted() -> bool:
    """Return True if the process has lost its card: then every use of the card fails."""
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


class Phases:
    """Seconds that Triton compiled, and that its autotuners spent beside that."""

    def __init__(self) -> None:
        self.compiling = self.tuning = 0.0

    def reset(self) -> None:
        """Begin at zero."""
        self.compiling = self.tuning = 0.0

    def install(self) -> None:
        """Time Triton's functions; kernels look them up at their first launch."""
        import triton.compiler
        from triton.runtime.autotuner import Autotuner

        compile, tune = triton.compiler.compile, Autotuner._bench

        def timed_compile(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return compile(*args, **kwargs)
            finally:
                self.compiling += time.perf_counter() - start

        def timed_tune(*args: Any, **kwargs: Any) -> Any:
            start, before = time.perf_counter(), self.compiling
            try:
                return tune(*args, **kwargs)
            finally:
                self.tuning += time.perf_counter() - start - (self.compiling - before)

        triton.compiler.compile = timed_compile
        Autotuner._bench = timed_tune


def _choose_first_configurations() -> None:
    """Make each autotuner run its first configuration: timing a choice needs a GPU."""
    from triton.runtime import driver
    from triton.runtime.autotuner import Autotuner

    # Triton 3.3 reads the GPU driver's benchmark function on import.
    driver.set_active(type("NoDriver", (), {"get_benchmarker": lambda self: None})())
    run = Autotuner.run

    def run_first(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        tuner.configs = tuner.configs[:1]
        return run(tuner, *args, **kwargs)

    Autotuner.run = run_first


def _exports(module_name: str, failures: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the public functions that a package and its subpackages export."""
    module, error = outcome_of(lambda: importlib.import_module(module_name))
    if error is not None:
        failures.append(f"{module_name}: {type(error).__name__}: {error}")
        return
    for name, value in vars(module).items():
        if not name.startswith("_") and inspect.isroutine(value):
            yield name, value
    for each in pkgutil.iter_modules(getattr(module, "__path__", ())):
        if each.ispkg:
            yield from _exports(f"{module_name}.{each.name}", failures)


def _arguments(operator: Callable[..., Any], sizes: Json, dtype: Any, device: str) -> Json:
    """Return random arguments: the required ones, and gates.

    Raises ValueError for a required argument whose documentation names no shape.
    """
    arguments: Json = {}
    documentation = inspect.getdoc(operator) or ""
    parameters = inspect.signature(operator).parameters
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        is_required = parameter.default is parameter.empty
        if name == "output_final_state":
            arguments[name] = True
        elif name == "gk" and "g" in parameters and not is_required:
            continue
        elif is_required or name in _GATES:
            shape = _shape(name, documentation, sizes)
            if shape is not None:
                arguments[name] = _tensor(name, shape, dtype, device)
            elif is_required:
                raise ValueError(f"the documentation names no shape for the argument {name}")
    if not any(hasattr(value, "shape") for value in arguments.values()):
        raise ValueError("it names no argument that is a tensor")
    return arguments


def _shape(name: str, documentation: str, sizes: Json) -> list[int] | None:
    """Return an argument's shape from its documentation: `g (...): gates of shape [B, T, H]`."""
    begin = re.search(rf"^[ \t]*{re.escape(name)}[ \t]*[(:]", documentation, re.MULTILINE)
    if begin is None:
        usual = _USUAL.get(name)
        return [sizes[letter] for letter in usual] if usual else None
    rest = documentation[begin.end() :]
    end = re.search(r"^[ \t]*\w+[ \t]*\([^)\n]*\)[ \t]*:", rest, re.MULTILINE)
    brackets = _BRACKETS.search(rest[: end.start()] if end else rest)
    if brackets is None:
        return None
    letters = [letter.strip() for letter in brackets[1].split(",")]
    names = [letter if letter in sizes else _SIZES.get(letter, letter) for letter in letters]
    if not all(letter in sizes for letter in names):
        return None
    return [sizes[letter] for letter in names]


def _tensor(name: str, shape: list[int], dtype: Any, device: str) -> Any:
    """Return random numbers of an argument's usual kind, the same for each form."""
    import torch

    # The same gate is `g` in one form and `gk` in another.
    role = "g" if name in _LOG_DECAYS else name
    generator = torch.Generator(device).manual_seed(zlib.crc32(role.encode()))
    numbers = torch.randn(shape, device=device, generator=generator)
    if name in _LOG_DECAYS:
        return torch.nn.functional.logsigmoid(4 * numbers + 4)
    if name in _STRENGTHS:
        return numbers.sigmoid().to(dtype)
    if name == "k":
        # Unit keys: a delta rule grows without bounds on longer ones.
        numbers = torch.nn.functional.normalize(numbers, dim=-1)
    return numbers.to(dtype)


def _tensors(result: Any) -> list[Any]:
    """Return the tensors among the results of an operator."""
    import torch

    results = result if isinstance(result, (tuple, list)) else [result]
    return [each for each in results if isinstance(each, torch.Tensor)]


def _run(operator: Callable[..., Any], arguments: Json) -> tuple[list[Any], str | None]:
    """Run an operator forward and backward; return its outputs and the backward's error."""
    outputs = _tensors(operator(**arguments))
    _, error = outcome_of(lambda: _backward(outputs))
    if error is not None:
        lines = str(error).strip().splitlines() or [""]
        return outputs, f"{type(error).__name__}: {lines[0]}"
    return [output.detach() for output in outputs], None


def _backward(outputs: list[Any]) -> None:
    import torch

    reached = [output for output in outputs if output.requires_grad]
    if not reached:
        raise RuntimeError("no output has a gradient")
    torch.autograd.backward(reached, [torch.ones_like(output) for output in reached])


def _spread(times: Any) -> list[float]:
    """Return the median, and the bounds below and above which a fifth of the times lies."""
    if len(times) == 1:
        return [times[0]] * 3
    fifths = statistics.quantiles(times, n=5, method="inclusive")
    return [statistics.median(times), fifths[0], fifths[-1]]
