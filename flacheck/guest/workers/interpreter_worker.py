"""The worker that runs programs of a launch in Triton's interpreter, to tell which result is right.

The interpreter computes with numpy on the CPU, so it needs no GPU and shares no code generation
with the compiled binaries. It runs on the memory that the runner on the card began with.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
import types
from collections.abc import Callable, Sequence
from typing import Any

from ..card.memory import Layout
from ..card.numbers import decode
from ..engine import releases
from ..engine.loader import Loader
from ..engine.messages import CardRow, Json, Kernel, Mark, Reply, Request, WorkerConfig
from . import values

# The only card, which the interpreter does not read.
_CARD: CardRow = {"name": "the interpreter"}
# Programs that tell how long one takes.
_PROBES = 2


class InterpreterWorker:
    """A loader of kernels for the interpreter."""

    def __init__(self, config: WorkerConfig) -> None:
        sys.path.append(config["torch"])
        os.environ["TRITON_INTERPRET"] = "1"
        self._loader = Loader(config, lambda card: None, whole_dependencies=True)

    def tolerates(self, error: BaseException) -> bool:
        """Return False: no autotuner runs here."""
        return False

    def run(self, request: Request, mark: Mark) -> Reply:
        """Run programs of the grid within the time limit of `config`.

        The facts are the number of `programs` that ran, and the `values` of each sampled storage:
        an element as a number in hexadecimal form, None if no program wrote it.
        """
        mark(request["op"])
        config, launch = request["config"], request["memory"]
        function = releases.strip_decorators(self._loader.load(request["kernel"], _CARD))
        layout = Layout(launch)
        memory = HostMemory(layout.size)
        layout.fill(memory, 0, config["distribution"], config["seed"])
        before = bytes(memory.content)
        programs = Programs(function, tuple(request["grid"]), config["seconds"])
        programs.run(recorded_arguments(request, function, Tensors(layout, memory).make))
        facts: Json = {"programs": programs.count, "values": {}}
        for name, places in config["places"].items():
            elements = _elements(layout, int(name), places, bytes(memory.content))
            unwritten = _elements(layout, int(name), places, before)
            facts["values"][name] = [
                None if one == other else one for one, other in zip(elements, unwritten)
            ]
        return {"facts": facts}


# The name under which the server looks for a module's worker.
Worker = InterpreterWorker


class HostMemory:
    """Memory of the host in the place of a GPU's, from address 0 on."""

    def __init__(self, size: int) -> None:
        self.content = bytearray(size)

    def clear(self, address: int, value: int, count: int) -> None:
        self.content[address : address + count] = bytes([value]) * count

    def upload(self, address: int, content: bytes) -> None:
        self.content[address : address + len(content)] = content

    def copy(self, target: int, source: int, count: int) -> None:
        self.content[target : target + count] = self.content[source : source + count]

    def wait(self) -> None:
        """Return at once: nothing is asynchronous here."""


class Tensors:
    """The tensors of a launch, in the host's memory or on a device of torch's."""

    def __init__(self, layout: Layout, memory: HostMemory, device: str = "cpu") -> None:
        import torch

        self._layout = layout
        self._bytes = torch.frombuffer(memory.content, dtype=torch.uint8).to(device)

    def make(self, path: str, dtype: str, align: int) -> Any:
        """Return the tensor of an argument at its place in its storage."""
        import torch

        tensor = self._layout.launch["tensors"][path]
        kind = getattr(torch, values.TORCH_NAMES[dtype])
        start = self._layout.offsets[tensor["storage"]]
        size = self._layout.launch["storages"][tensor["storage"]]
        size -= size % kind.itemsize
        flat = self._bytes[start : start + size].view(kind)
        offset = flat.storage_offset() + tensor["offset"]
        return flat.as_strided(tensor["shape"], tensor["strides"], offset)


def recorded_arguments(
    request: Request, function: Kernel, tensor: values.TensorMaker
) -> dict[str, Any]:
    """Return the arguments of a recorded launch with those of its configuration."""
    names = function.fn.__globals__
    arguments = values.constants(request["options"], names)
    return arguments | values.arguments(request["launch"]["args"], names, tensor)


class Programs:
    """Programs of a grid that the interpreter runs, evenly spread, for so many seconds."""

    def __init__(self, function: Kernel, grid: tuple[int, ...], seconds: float) -> None:
        self._function, self._grid, self._seconds = function, (*grid, 1, 1)[:3], seconds
        self._chosen: set[int] = set()
        self._done: set[int] = set()
        self._deadline = time.monotonic() + seconds

    @property
    def count(self) -> int:
        """The number of programs that ran."""
        return len(self._done)

    def run(self, arguments: dict[str, Any]) -> None:
        """Run a few programs, then as many as fit into the time."""
        original = self._function.rewrite()
        self._function.rewritten_fn[self._function.fn] = self._guarded(original)
        total = self._grid[0] * self._grid[1] * self._grid[2]
        start = time.monotonic()
        self._pass(total, _PROBES, arguments)
        each = (time.monotonic() - start) / max(1, self.count)
        self._pass(total, int(self._seconds / each), arguments)

    def _pass(self, total: int, count: int, arguments: dict[str, Any]) -> None:
        step = max(1, total // max(1, count))
        self._chosen = set(range(step // 2, total, step)) - self._done
        self._function.run(grid=self._grid, warmup=False, **arguments)

    def _guarded(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the kernel's function, which returns at once for a program that is not chosen."""
        from triton.runtime.interpreter import interpreter_builder

        def program(*args: Any, **kwargs: Any) -> None:
            x, y, z = interpreter_builder.grid_idx
            number = x + self._grid[0] * (y + self._grid[1] * z)
            if number in self._chosen and self._is_early():
                self._done.add(number)
                original(*args, **kwargs)

        # The interpreter replaces Triton's functions in the globals of what it runs.
        closure = program.__closure__
        guarded = types.FunctionType(
            program.__code__, original.__globals__, original.__name__, None, closure
        )
        guarded.__annotations__ = original.__annotations__
        guarded.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
        return guarded

    def _is_early(self) -> bool:
        return time.monotonic() < self._deadline


def _elements(layout: Layout, number: int, places: Sequence[int], content: bytes) -> list[str]:
    """Return elements of a storage as text."""
    form = layout.form_of(number)
    elements = layout.elements(content, number)
    size, _ = form
    return decode(form, b"".join(elements[place * size : (place + 1) * size] for place in places))
