"""The requests that time a launch on a GPU, and the reasons why a launch cannot be timed.

flacheck's own kernels have inputs and a host function; for others the launches file describes the
tensors.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from flacheck.capabilities.autotune.results import TunedLaunch
from flacheck.model import Corpus, Json, canonical, digest
from flacheck.model.kernel import origin_to_json
from flacheck.subjects.inputs.launches import Memory, RecordedLaunch

# Floats may have any value, but integers may be indexes that a kernel reads and writes at.
_FLOATS = ("fp", "bf")
# Well below the size of a packet with the usual socket buffers.
_LONGEST_REQUEST = 150 << 10


def untimeable(tuned_launch: TunedLaunch) -> str | None:
    """Return why the launch cannot be repeated on a GPU; None if it can."""
    if isinstance(tuned_launch.cell.kernel.origin, Corpus):
        return None
    recorded_launch = tuned_launch.recorded_launch
    if recorded_launch is None:
        return "its launch was declared, not recorded, and so its tensors have no sizes"
    if recorded_launch.memory is None:
        return "the launches file lacks the sizes of its tensors: record it with `flacheck capture`"
    for reason in _missing_facts(recorded_launch, recorded_launch.memory):
        return reason
    size = len(canonical(request(tuned_launch)))
    if size > _LONGEST_REQUEST:
        kib = size >> 10
        return f"its source and integers are {kib} KiB, more than one request to a worker can hold"
    return None


def request(tuned_launch: TunedLaunch) -> Json:
    """Return the request to repeat a timeable launch in any configuration."""
    cell, recorded_launch = tuned_launch.cell, tuned_launch.recorded_launch
    message: Json = {"kernel": origin_to_json(cell.kernel.origin)}
    if isinstance(cell.kernel.origin, Corpus):
        message |= {"shape": dict(cell.shape), "dtype": cell.dtype}
    else:
        assert recorded_launch is not None and recorded_launch.memory is not None
        arguments = {**recorded_launch.launch.args, **recorded_launch.heuristics}
        message |= {"launch": {"args": arguments}, "options": dict(recorded_launch.options)}
        message |= {"memory": recorded_launch.memory.to_json()}
    return {**message, "launch_id": digest(message, 16)}


def own_grid(tuned_launch: TunedLaunch, config: Mapping[str, Any]) -> Json | None:
    """Return the grid of a configuration, as a part of its request.

    It is the grid of a recorded configuration with equal constants, which decide the grid. The part
    is empty for flacheck's own kernels, whose host functions compute it; None if it is unknown.
    """
    recorded_launch = tuned_launch.recorded_launch
    if recorded_launch is None:
        return {}
    same = []
    same_constants = []
    for other, grid in zip(recorded_launch.launch.configs, recorded_launch.grids or ()):
        if all(config.get(name) == value for name, value in other.items()):
            same.append(grid)
        if other.get("kwargs") == config.get("kwargs"):
            same_constants.append(grid)
    grids = [*same, *same_constants]
    if not grids or grids[0] is None:
        return None
    return {"grid": list(grids[0])}


def _missing_facts(recorded_launch: RecordedLaunch, memory: Memory) -> Iterator[str]:
    """Yield the reasons why the launch's arguments cannot be made again."""
    for name, spec in {**recorded_launch.launch.args, **recorded_launch.heuristics}.items():
        for path, dtype in _tensors(name, spec):
            tensor = memory.tensors.get(path)
            if tensor is None:
                yield f"the size of {path} is unknown: it is not a torch tensor"
            elif not dtype.startswith(_FLOATS) and tensor.values is None:
                integers = f"{path} holds integers ({dtype})"
                yield f"{integers}, which were not recorded or too many"


def _tensors(path: str, spec: Any) -> Iterator[tuple[str, str]]:
    """Yield the path and dtype of each tensor in an argument."""
    if not isinstance(spec, dict):
        return
    for index, item in enumerate(spec.get("tuple", ())):
        yield from _tensors(f"{path}[{index}]", item)
    form = spec.get("descriptor", spec)
    if "dtype" in form:
        yield path, form["dtype"]
