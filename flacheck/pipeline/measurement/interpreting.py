"""The judgement of different results by Triton's interpreter, which computes on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs
from packaging.version import Version

from flacheck import toolchains
from flacheck.engine.card import failure_of
from flacheck.engine.executors import LocalPool, Task
from flacheck.engine.provider import torch_folder, worker_kind
from flacheck.engine.sandbox import WorkerKind
from flacheck.evidence.measured.results import Disagreement, LaunchResult, Result, Sample, State
from flacheck.guest.engine import confinement
from flacheck.model import Cell, Json, Outcome
from flacheck.model.kernel import origin_to_json
from flacheck.model.wire import to_plain
from flacheck.pipeline.measurement.collecting import bundled_launch
from flacheck.pipeline.measurement.launches import MeasuredLaunch
from flacheck.pipeline.plan import Plan

# Seconds for the programs of a launch, and for the start of the worker beside them.
SECONDS, _START_SECONDS = 60.0, 120.0
_MEMORY_MB = 16_000
# Dots of earlier releases' interpreters are wrong.
_FIRST_RELEASE = Version("3.3.0")
# The share of elements at which a right result may differ: rounding may be amplified there.
_STRAY = 0.05
# A program's accumulation differs from a dot's of the hardware by more than one rounding.
_MARGIN = 2.0
# Well below the size of a packet with the usual socket buffers.
_LONGEST_REQUEST = 150 << 10


@dataclass(frozen=True)
class Interpretation:
    """The interpreter's values at sampled places, None where no program wrote, or a reason."""

    programs: int = 0
    values: Mapping[str, Sequence[str | None]] | None = None
    reason: str | None = None


def judge_by_interpreter(
    result: LaunchResult, launch: MeasuredLaunch, plan: Plan, seconds: float = SECONDS
) -> LaunchResult:
    """Return a launch's results as the interpreter decides; it names itself as the judge."""
    if result.disagreement is None:
        return result
    interpretation = _interpret(result.disagreement, launch, plan, seconds)
    if interpretation.values is None:
        reason = f"the majority: the interpreter did not decide ({interpretation.reason})"
        return structs.replace(result, judge=reason)
    shares = stray_shares(result.disagreement, interpretation.values)
    right = {group for group, share in enumerate(shares) if share is not None and share <= _STRAY}
    programs = 1
    for size in result.grid:
        programs *= size
    judge = f"Triton's interpreter, {interpretation.programs} of {programs} programs"
    if None in shares or len(right) in (0, len(shares)):
        reason = f"the majority: {judge}, does not tell the results apart"
        return structs.replace(result, judge=reason)
    return structs.replace(with_right_groups(result, right), judge=judge)


def with_right_groups(result: LaunchResult, right: set[int]) -> LaunchResult:
    """Return the results with the groups that are right; all other stable ones are wrong."""
    is_own = result.made_up is None
    results = []
    for each in result.results:
        if each.group is not None and each.state in _COMPARED:
            each = _decided(each, each.group in right, is_own)
        results.append(each)
    return structs.replace(result, results=tuple(results))


_COMPARED = (State.SAME, State.ROUNDING, State.DIFFERS)


def _decided(result: Result, is_right: bool, is_own: bool) -> Result:
    if not is_right:
        reason = result.reason or "its results are those of most releases, and wrong"
        return structs.replace(result, state=State.DIFFERS, reason=reason, is_wrong=is_own)
    state = State.ROUNDING if result.state is State.DIFFERS else result.state
    return structs.replace(result, state=state, reason=None, is_wrong=False)


def stray_shares(
    disagreement: Disagreement, values: Mapping[str, Sequence[str | None]]
) -> list[float | None]:
    """Return the share of elements at which each group differs from the interpreter's values.

    It is None if no program wrote any of them.
    """
    strays: list[int] = []
    count = 0
    for name, sample in disagreement.samples.items():
        bound = _MARGIN * disagreement.tolerance
        own_count, own_strays = _count_strays(sample, values[name], bound)
        count += own_count
        strays = [one + two for one, two in zip(strays or [0] * len(own_strays), own_strays)]
    return [each / count if count else None for each in strays]


def _count_strays(
    sample: Sample, values: Sequence[str | None], bound: float
) -> tuple[int, list[int]]:
    """Return the number of written elements, and how many of them differ in each group."""
    right = {place: _number(text) for place, text in enumerate(values) if text is not None}
    finite = [value for value in right.values() if value - value == 0]
    scale = (sum(value * value for value in finite) / max(1, len(finite))) ** 0.5
    strays = []
    for group in sample.values:
        differing = 0
        for place, value in right.items():
            own = _number(group[place])
            # An integer is right or wrong.
            limit = bound * (scale + abs(value)) if _is_float(group[place]) else 0.0
            if own != value and not abs(own - value) <= limit:
                differing += 1
        strays.append(differing)
    return len(right), strays


def _number(text: str) -> float:
    return float.fromhex(text) if _is_float(text) else int(text)


def _is_float(text: str) -> bool:
    return "x" in text or "n" in text


def _interpret(
    disagreement: Disagreement, launch: MeasuredLaunch, plan: Plan, seconds: float
) -> Interpretation:
    torch = torch_folder()
    if torch is None:
        return Interpretation(reason="torch is not installed")
    chosen = next(_interpretable(launch), None)
    if chosen is None:
        return Interpretation(reason="it needs Triton 3.3.0 or newer")
    cell, grid = chosen
    request = _request(disagreement, launch, cell, grid, seconds)
    if len(str(request)) > _LONGEST_REQUEST:
        return Interpretation(reason="its integers are more than a request to a worker can hold")
    if not (plan.trust or cell.kernel.package or _can_confine()):
        return Interpretation(reason="this machine cannot confine its worker; --trust runs it")
    kind = _worker_kind(cell, plan, torch)
    pool = LocalPool(1, lambda task: seconds + _START_SECONDS)
    try:
        pool.submit([Task(0, kind, request)])
        (attempt,) = [attempt for batch in pool.results() for _, attempt in batch]
    finally:
        pool.close()
    if attempt.outcome is not Outcome.FINISHED:
        return Interpretation(reason=failure_of(attempt))
    return Interpretation(attempt.facts["programs"], attempt.facts["values"])


def _can_confine() -> bool:
    """Return True if the system confines a worker: interpreted code writes all its memory."""
    available = confinement.available_confinement()
    return bool(available["landlock"] and available["seccomp"])


def _interpretable(launch: MeasuredLaunch) -> Iterator[tuple[Cell, tuple[int, ...]]]:
    """Yield the cells whose release's interpreter is right, the newest release first."""
    cells = []
    for cell, _, grid in launch.cells:
        name, _, version = cell.toolchain.partition("==")
        if name == "triton" and Version(version) >= _FIRST_RELEASE:
            cells.append((Version(version), cell, grid))
    cells.sort(key=lambda each: each[0], reverse=True)
    for _, cell, grid in cells:
        yield cell, grid


def _request(
    disagreement: Disagreement,
    launch: MeasuredLaunch,
    cell: Cell,
    grid: tuple[int, ...],
    seconds: float,
) -> Json:
    bundled = bundled_launch(launch, ())
    assert cell.launch is not None
    places = {}
    for name, sample in disagreement.samples.items():
        places[name] = list(sample.places)
    return {
        "op": "interpret",
        "kernel": origin_to_json(cell.kernel.origin),
        "launch": {"args": {**launch.recorded.heuristics, **cell.launch.args}},
        "options": {},
        "grid": list(grid),
        "memory": {"storages": list(bundled.storages), "tensors": to_plain(bundled.tensors)},
        "config": {
            "distribution": disagreement.distribution,
            "seed": disagreement.seed,
            "seconds": seconds,
            "places": places,
        },
    }


def _worker_kind(cell: Cell, plan: Plan, torch: str) -> WorkerKind:
    """Return a sandboxed worker with the release of a cell, and torch."""
    toolchain = toolchains.provide(plan.choices[cell.toolchain])
    package = plan.packages.get(cell.kernel.package or "")
    kind = worker_kind(toolchain, package, False, _MEMORY_MB, plan.trust)
    config = {**kind.config, "worker": "interpreter_worker", "torch": torch}
    return replace(kind, name=f"{kind.name} in the interpreter", config=config)
