"""The worker that runs the binaries of a launch side by side: results, writes, times."""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..engine.messages import Json, Mark, Reply, Request, WorkerConfig
from .driver import DriverError, Gpu, LoadedBinary, TimedGraph
from .memory import Layout, ResultComparison, places_outside
from .numbers import DISTRIBUTIONS, decode

# The exit code of a process that has lost its GPU.
_FAULT_EXIT = 3
# A graph holds as many launches as take this long, but at most so many.
_GRAPH_MICROSECONDS, _MOST_LAUNCHES = 500.0, 5
# Rounds of all graphs; fewer if all take longer than 0.2 s: times of long launches vary least.
_ROUNDS, _FEWEST_ROUNDS, _LONG_MICROSECONDS = 8, 3, 2e5
# Written before each launch, as Triton's own benchmark does: more than any GPU's cache, of which a
# B200's has 126 MiB.
_FLUSHED_BYTES = 128 << 20
# The tolerance is so many times what rounding the inputs changes: that is one random draw.
_MARGIN = 2.0
# Results that are kept to compare the next ones with.
_MOST_CLASSES = 4
# The name under which the first binary is timed a second time.
TWIN = "twin"
_PTX = os.path.join(os.path.dirname(__file__), "compare.ptx")


class BinaryRunner:
    """One GPU and the comparison on it.

    An operation `op` of a request is the method `op_…`. The process ends when a launch takes its
    GPU; its stage names the binary.
    """

    def __init__(self, config: WorkerConfig) -> None:
        # The driver is opened after the fork, because a GPU's context belongs to one process.
        self._binding = config.get("binding", "cuda.bindings.driver")
        self._card: Gpu | None = None
        self._comparison: ResultComparison | None = None

    def tolerates(self, error: BaseException) -> bool:
        """Return False: no autotuner runs here."""
        return False

    def run(self, request: Request, mark: Mark) -> Reply:
        """Run a request and return its reply; end the process if the GPU is lost."""
        mark(request["op"])
        try:
            if self._card is None:
                self._card = Gpu(importlib.import_module(self._binding))
            operation = getattr(self, "op_" + request["op"])
            answer: Reply = operation(self._card, request, mark)
        except DriverError as error:
            if error.is_fatal:
                print(f"the launch ended the GPU's context: {error}", file=sys.stderr, flush=True)
                os._exit(_FAULT_EXIT)
            raise
        return answer

    def op_device(self, card: Gpu, request: Request, mark: Mark) -> Reply:
        """Return the facts of the GPU."""
        return {"facts": card.describe()}

    def op_measure(self, card: Gpu, request: Request, mark: Mark) -> Reply:
        """Run every binary of a launch that is not to be skipped, compare and time them."""
        with _buffers(card) as buffers:
            with open(request["launch_file"]) as launch_file:
                launch = json.load(launch_file)
            if self._comparison is None:
                # Once for all launches: the driver compiles it.
                with open(_PTX, "rb") as file:
                    self._comparison = ResultComparison(card, file.read())
            trial = _Trial(card, self._comparison, launch, buffers)
            return {"facts": trial.run(mark, request["config"])}


class _Buffers:
    """Memory of the GPU that is freed together, and the loaded functions."""

    def __init__(self, card: Gpu) -> None:
        self._card = card
        self._addresses: list[int] = []
        self._functions: list[LoadedBinary] = []

    def allocate(self, size: int) -> int:
        address = self._card.allocate(max(size, 1))
        self._addresses.append(address)
        return address

    def load(self, variant: Json) -> LoadedBinary:
        with open(variant["file"], "rb") as file:
            code = zlib.decompress(file.read())
        function = self._card.load(code, variant)
        self._functions.append(function)
        return function

    def free(self) -> None:
        for function in self._functions:
            self._card.unload(function)
        for address in self._addresses:
            self._card.free(address)


@contextmanager
def _buffers(card: Gpu) -> Iterator[_Buffers]:
    buffers = _Buffers(card)
    try:
        yield buffers
    except DriverError as error:
        # A lost GPU frees nothing.
        if not error.is_fatal:
            buffers.free()
        raise
    else:
        buffers.free()


class _Trial:
    """The binaries of one launch on the same inputs.

    `before` holds the memory before a launch, `work` is that of the launch, `first` keeps a
    binary's first result. Equal results are of one class; `classes` holds one result of each.
    """

    def __init__(
        self, card: Gpu, comparison: ResultComparison, launch: Json, buffers: _Buffers
    ) -> None:
        self._card, self._comparison = card, comparison
        self._launch, self._buffers = launch, buffers
        self._layout = Layout(launch)
        size = self._layout.size
        self._before, self._work, self._first = (buffers.allocate(size) for _ in range(3))
        self._classes: list[int] = []
        # The tolerance grows once a result lies outside it, if rounding the inputs explains that.
        self._tolerance: float = launch["tolerance"]
        self._amplification: float | None = None
        self._loaded: dict[int, tuple[LoadedBinary, list[Any]]] = {}

    def run(self, mark: Mark, config: Mapping[str, Any]) -> Json:
        """Return the findings of each binary by its index, and facts of the inputs.

        `config` has the `seed`, the indices to `skip`, and `times` if they are to be timed.
        """
        variants = self._launch["variants"]
        indices = [index for index in range(len(variants)) if index not in config["skip"]]
        findings: Json = {}
        for index in indices:
            mark(f"load {index}")
            findings[str(index)] = self._load(index)
        inputs = None
        for index in indices:
            if index not in self._loaded:
                continue
            mark(f"run {index}")
            if inputs is None:
                inputs = self._choose_inputs(index, config["seed"])
                self._refill = (index, inputs["distribution"], config["seed"])
            findings[str(index)] |= self._judge(index)
        is_judged = self._launch["has_judge"] and len(self._classes) > 1
        disagreements = self._samples() if is_judged else {}
        if config["times"] and self._loaded:
            times = self._time(mark)
            for name, samples in times.items():
                findings.setdefault(name, {})["microseconds"] = samples
        return {
            "variants": findings,
            "inputs": inputs,
            "amplification": self._amplification,
            "tolerance": self._tolerance,
            "samples": disagreements,
        }

    def _load(self, index: int) -> Json:
        variant = self._launch["variants"][index]
        try:
            self._loaded[index] = self._loaded_function(variant)
        except DriverError as error:
            if error.is_fatal:
                raise
            return {"problem": str(error)}
        function, _ = self._loaded[index]
        return {"registers": function.registers, "stack": function.stack}

    def _loaded_function(self, variant: Json) -> tuple[LoadedBinary, list[Any]]:
        function = self._buffers.load(variant)
        programs = 1
        for size in (*variant["grid"], *variant["cluster"]):
            programs *= size
        scratch = []
        for size, align in variant["scratch"]:
            scratch.append(0)
            if size:
                address = self._buffers.allocate(size * programs + align)
                scratch[-1] = -(-address // align) * align
                self._card.clear(address, 0, size * programs + align)
        return function, self._layout.addresses(self._work, function, scratch)

    def _run_once(self, index: int) -> None:
        """Run a binary on fresh inputs."""
        self._card.copy(self._work, self._before, self._layout.size)
        self._start(index)
        self._card.wait()

    def _start(self, index: int) -> None:
        function, values = self._loaded[index]
        self._card.launch(function, self._launch["variants"][index]["grid"], values)

    def _compare(self, one: int, two: int, tolerance: float = 0.0) -> dict[int, Json]:
        return self._comparison.compare(self._layout, (one, two, self._before), tolerance)

    def _choose_inputs(self, index: int, seed: int) -> Json:
        """Fill the memory from the first distribution that gives comparable results.

        Such results are finite, not constant, and the same in two runs; if no distribution gives
        them, the first one is taken.
        """
        facts: dict[str, Json] = {}
        for name in DISTRIBUTIONS:
            facts[name] = {"distribution": name, **self._try_inputs(index, name, seed)}
            if all(facts[name][each] for each in ("is_finite", "is_varied", "is_stable")):
                return facts[name]
        finite = [name for name in facts if facts[name]["is_finite"]]
        chosen = (finite or list(facts))[0]
        self._layout.fill(self._card, self._before, chosen, seed)
        return facts[chosen]

    def _try_inputs(self, index: int, distribution: str, seed: int) -> Json:
        self._layout.fill(self._card, self._before, distribution, seed)
        self._run_once(index)
        self._card.copy(self._first, self._work, self._layout.size)
        self._run_once(index)
        results = self._compare(self._first, self._work).values()
        return {
            "is_finite": not any(each["not_finite"] for each in results),
            "is_varied": bool(results) and not all(each["is_constant"] for each in results),
            "is_stable": not any(each["differing"] for each in results),
        }

    def _judge(self, index: int) -> Json:
        """Run a binary twice; return its stability, its writes, and its class of results."""
        self._run_once(index)
        guard = self._layout.broken_guard(self._card, self._work)
        self._card.copy(self._first, self._work, self._layout.size)
        self._run_once(index)
        repetition = self._compare(self._first, self._work)
        is_stable = not any(each["differing"] for each in repetition.values())
        finding: Json = {
            "is_stable": is_stable,
            "broken_guard": guard,
            "written": sum(each["written"] for each in repetition.values()),
            "not_finite": sum(each["not_finite"] for each in repetition.values()),
        }
        return finding | self._classify()

    def _classify(self) -> Json:
        """Return the class of the first result, and its difference from a result of that class.

        The first of a class is compared with class 0.
        """
        difference: Json = {}
        for number, result in enumerate(self._classes):
            compared = self._difference(result)
            if _is_outside(compared) and self._amplification is None:
                self._widen()
                compared = self._difference(result)
            if not _is_outside(compared):
                return {"class": number, "compared_with": number, "difference": compared}
            difference = difference or compared
        number = len(self._classes)
        if number < _MOST_CLASSES:
            result = self._buffers.allocate(self._layout.size)
            self._card.copy(result, self._first, self._layout.size)
            self._card.wait()
            self._classes.append(result)
        return {"class": number, "compared_with": 0, "difference": difference or None}

    def _difference(self, result: int) -> Json:
        return _sum(self._compare(result, self._first, self._tolerance).values())

    def _widen(self) -> None:
        """Widen the tolerance by the change that rounding each input to a neighbour causes.

        A recurrence or a division may amplify the rounding of its first steps, which is no wrong
        result. The first binary runs once more, on inputs that are each off by up to a spacing.
        """
        index, distribution, seed = self._refill
        wobble = self._launch["wobble"]
        self._layout.fill(self._card, self._before, distribution, seed, wobble)
        self._run_once(index)
        self._layout.fill(self._card, self._before, distribution, seed)
        parts = self._compare(self._classes[0], self._work, self._tolerance).values()
        self._amplification = max((part["worst"] for part in parts), default=0.0)
        if not any(part["not_finite"] for part in parts):
            self._tolerance *= max(1.0, _MARGIN * self._amplification)

    def _samples(self) -> Json:
        """Return elements of each class of results where they disagree, by storage.

        Another computation of these elements tells which class is right.
        """
        contents = []
        for address in self._classes:
            contents.append(self._card.download(address, self._layout.size))
        samples: Json = {}
        for number in range(len(self._layout.offsets)):
            form = self._layout.form_of(number)
            results = [self._layout.elements(content, number) for content in contents]
            places: set[int] = set()
            for result in results[1:]:
                if result != results[0]:
                    outside = places_outside(
                        self._layout, number, results[0], result, self._tolerance
                    )
                    places.update(outside)
            if places:
                chosen = sorted(places)
                values = [_texts(form, result, chosen) for result in results]
                samples[str(number)] = {"places": chosen, "values": values}
        return samples

    def _time(self, mark: Mark) -> dict[str, list[float]]:
        """Return the microseconds of each launch in turn, by index, and those of the twin."""
        first = min(self._loaded)
        names = {str(index): index for index in self._loaded}
        twin = len(self._launch["variants"])
        self._launch["variants"].append(self._launch["variants"][first])
        self._loaded[twin] = self._loaded_function(self._launch["variants"][first])
        names[TWIN] = twin
        cache_area = (self._buffers.allocate(_FLUSHED_BYTES), _FLUSHED_BYTES)
        self._card.copy(self._work, self._before, self._layout.size)
        graphs: dict[str, TimedGraph] = {}
        total = 0.0
        for name, index in names.items():
            mark(f"time {index}")
            start = functools.partial(self._start, index)
            graph = self._card.record(start, 1, cache_area)
            (microseconds,) = self._card.replay(graph)
            count = int(min(max(_GRAPH_MICROSECONDS / max(microseconds, 1), 1), _MOST_LAUNCHES))
            if count > 1:
                self._card.drop(graph)
                graph = self._card.record(start, count, cache_area)
            graphs[name] = graph
            total += microseconds * count
        rounds = int(min(max(_LONG_MICROSECONDS / total, _FEWEST_ROUNDS), _ROUNDS))
        times: dict[str, list[float]] = {name: [] for name in graphs}
        for number in range(rounds + 1):
            for name, graph in graphs.items():
                mark(f"time {names[name]}")
                samples = self._card.replay(graph)
                # The first round warms up.
                if number:
                    times[name] += samples
        for graph in graphs.values():
            self._card.drop(graph)
        return times


def _texts(form: tuple[int, int], content: bytes, places: Sequence[int]) -> list[str]:
    """Return the elements at the places as text."""
    size, _ = form
    picked = b"".join(content[place * size : (place + 1) * size] for place in places)
    return decode(form, picked)


def _is_outside(difference: Json) -> bool:
    return bool(difference["outside"] or difference["not_finite_in_one"])


def _sum(parts: Any) -> Json:
    """Return the differences of all storages as one."""
    total: Json = {"written": 0, "differing": 0, "outside": 0, "not_finite_in_one": 0}
    total |= {"error": 0.0, "largest": 0.0}
    for part in parts:
        for name in ("written", "differing", "not_finite_in_one"):
            total[name] += part[name]
        total["outside"] += part.get("outside", 0)
        total["error"] = max(total["error"], part["error"])
        total["largest"] = max(total["largest"], part["largest"])
    return total
