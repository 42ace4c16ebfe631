"""What it takes to time a launch on a card, and why one cannot be timed.

Our own kernels bring inputs and a host function; of others the launches file says what their
tensors were like.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from flacheck.capabilities.autotune.results import TunedLaunch
from flacheck.inputs.launches import Memory, RecordedLaunch
from flacheck.model import Corpus, Json, canonical, digest
from flacheck.model.kernel import origin_to_json

# Tensors of floats may hold any number; integers lead a kernel to where it reads and writes.
_FLOATS = ("fp", "bf")
# Well below what a packet holds where the system keeps sockets' buffers at their usual size.
_LONGEST_REQUEST = 150 << 10


def untimeable(tuned: TunedLaunch) -> str | None:
    """Why the launch cannot be made again on a card; None where it can."""
    if isinstance(tuned.cell.kernel.origin, Corpus):
        return None
    recorded_launch = tuned.recorded_launch
    if recorded_launch is None:
        return "its launch was declared, not recorded, and so its tensors have no sizes"
    if recorded_launch.memory is None:
        return (
            "the launches file says nothing of its tensors' sizes: "
            "an earlier flacheck recorded it; capture it anew"
        )
    for lacking in _lacking(recorded_launch, recorded_launch.memory):
        return lacking
    size = len(canonical(request(tuned)))
    if size > _LONGEST_REQUEST:
        kib = size >> 10
        return f"its source and integers are {kib} KiB, more than a worker can be told at once"
    return None


def request(tuned: TunedLaunch) -> Json:
    """What a worker makes the launch from, for any configuration; the launch must be timeable."""
    cell, recorded_launch = tuned.cell, tuned.recorded_launch
    made: Json = {"kernel": origin_to_json(cell.kernel.origin)}
    if isinstance(cell.kernel.origin, Corpus):
        made |= {"shape": dict(cell.shape), "dtype": cell.dtype}
    else:
        assert recorded_launch is not None and recorded_launch.memory is not None
        arguments = {**recorded_launch.launch.args, **recorded_launch.heuristics}
        made |= {"launch": {"args": arguments}, "options": dict(recorded_launch.options)}
        made |= {"memory": recorded_launch.memory.to_json()}
    return {**made, "launch_id": digest(made, 16)}


def own_grid(tuned: TunedLaunch, config: Mapping[str, Any]) -> Json | None:
    """What a request says of the grid of a configuration: that of a recorded one with the same
    constants, on which alone grids depend. Nothing for our own kernels, whose host functions
    compute it; None where nobody knows it."""
    recorded_launch = tuned.recorded_launch
    if recorded_launch is None:
        return {}
    pairs = list(zip(recorded_launch.launch.configs, recorded_launch.grids or ()))
    same = [
        grid
        for known, grid in pairs
        if all(config.get(name) == value for name, value in known.items())
    ]
    alike = [grid for known, grid in pairs if known.get("kwargs") == config.get("kwargs")]
    grid = next(iter([*same, *alike]), None)
    if grid is None:
        return None
    return {"grid": list(grid)}


def _lacking(recorded_launch: RecordedLaunch, memory: Memory) -> Iterator[str]:
    """What is not known of the launch's arguments."""
    for name, spec in {**recorded_launch.launch.args, **recorded_launch.heuristics}.items():
        for path, dtype in _tensors(name, spec):
            placed = memory.tensors.get(path)
            if placed is None:
                yield f"the size of {path} is not known: it is no tensor of torch's"
            elif not dtype.startswith(_FLOATS) and placed.values is None:
                integers = f"{path} holds integers ({dtype})"
                yield f"{integers}, which were too many to record or known to nobody"


def _tensors(path: str, spec: Any) -> Iterator[tuple[str, str]]:
    """The tensors in an argument, each by its path with its dtype."""
    if not isinstance(spec, dict):
        return
    for place, item in enumerate(spec.get("tuple", ())):
        yield from _tensors(f"{path}[{place}]", item)
    form = spec.get("descriptor", spec)
    if "dtype" in form:
        yield path, form["dtype"]
