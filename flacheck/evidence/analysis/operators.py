"""The standing of a package by operator: its public entry points on the recorded call paths."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from flacheck.evidence.analysis.observation import BLOCK, ObservedCell
from flacheck.evidence.analysis.standing_state import Share, StandingState
from flacheck.model import LaunchExtent
from flacheck.model.wire import JsonStruct, ToolchainName

Fact = tuple[str, str]


class OperatorAnswer(JsonStruct, frozen=True):
    """The standing of a package's public entry point, by recorded call paths, on a place."""

    toolchain: ToolchainName
    target: str
    operator: str
    standing: Annotated[
        StandingState, Meta(extra_json_schema={"enum": ["good", "screened", "bad", "no-record"]})
    ]
    configurations: Share
    codes: list[str]


@dataclass(frozen=True)
class OperatorStanding:
    """The state of a package's public entry point on one toolchain and target.

    `failing` are the failures of its launches that matter, `condition` is what they share and no
    compiling launch of their kernels has: `K=256`; it is empty if they differ in nothing else.
    """

    name: str
    state: StandingState
    configurations: Share
    failing: tuple[ObservedCell, ...] = ()
    condition: str = ""

    @property
    def codes(self) -> list[str]:
        """The codes of the failures, each once."""
        return sorted({cell.code for cell in self.failing if cell.code})

    def on(self, toolchain: str, target: str) -> OperatorAnswer:
        """Return the standing on a place in the form of flacheck.run/1."""
        answer = (self.name, self.state, self.configurations, self.codes)
        return OperatorAnswer(toolchain, target, *answer)


def operator_standings(
    extent: LaunchExtent,
    launch_of: Mapping[str, str],
    answered_keys: Iterable[str],
    failing: Sequence[ObservedCell],
    cells: Sequence[ObservedCell],
) -> tuple[OperatorStanding, ...]:
    """Return the standing of each operator of an extent.

    Args:
        extent: The launches of the question.
        launch_of: The launches of the cells, by key.
        answered_keys: The keys of the answered configurations.
        failing: The failures that matter.
        cells: All cells that count.
    """
    answered = Counter(launch_of[key] for key in answered_keys)
    counts: dict[str, int] = {}
    for own in extent.launches.values():
        counts.update(own)
    standings = []
    for name, launches in extent.operators.items():
        answered_count = total = 0
        for launch in launches:
            answered_count += answered[launch]
            total += counts[launch]
        share = Share(answered_count, total)
        failures = tuple(_failures_of(name, extent, launch_of, failing))
        state = StandingState.SCREENED
        if failures:
            state = StandingState.BAD
        elif not share.answered:
            state = StandingState.NO_RECORD
        elif share.is_whole:
            state = StandingState.GOOD
        condition = ""
        if failures:
            identities = frozenset(launches)
            own_cells = [cell for cell in cells if launch_of.get(cell.key) in identities]
            condition = find_condition(failures, own_cells)
        standings.append(OperatorStanding(name, state, share, failures, condition))
    return tuple(standings)


def _failures_of(
    operator: str,
    extent: LaunchExtent,
    launch_of: Mapping[str, str],
    failing: Sequence[ObservedCell],
) -> Iterable[ObservedCell]:
    """Yield the failures of an operator's launches, autotuner runs, calls and imports."""
    launches = frozenset(extent.operators[operator])
    kernels = set()
    for kernel, counts in extent.launches.items():
        if not launches.isdisjoint(counts):
            kernels.add(kernel)
    for cell in failing:
        launch = launch_of.get(cell.key)
        module, _, function = cell.kernel.partition(":")
        is_import = function == "__init__" and f"{operator}.".startswith(f"{module}.")
        is_call = cell.kernel.replace(":", ".") == operator
        is_tuning = launch is None and cell.kernel in kernels
        if launch in launches or is_import or is_call or is_tuning:
            yield cell


def find_condition(failing: Sequence[ObservedCell], cells: Sequence[ObservedCell]) -> str:
    """Return one setting that all failures share and no compiling launch of their kernels has."""
    kernels = {cell.kernel for cell in failing}
    facts = _facts(failing[0])
    for cell in failing[1:]:
        facts &= _facts(cell)
    has_compiled = False
    for cell in cells:
        if cell.compiles and cell.kernel in kernels:
            has_compiled = True
            facts -= _facts(cell)
    if not has_compiled or not facts:
        return ""
    name, value = min(facts, key=_by_meaning)
    if name == "dtype":
        return value
    return f"{name}={value}"


def _facts(cell: ObservedCell) -> set[Fact]:
    """Return the dtype, the integers and the options of a cell."""
    launch, _ = json.JSONDecoder().raw_decode(cell.call)
    facts = set()
    for name, value in {**cell.options, "dtype": cell.dtype}.items():
        if value is not None:
            facts.add((name, str(value)))
    arguments = (launch or {}).get("args", {})
    for name, value in arguments.items():
        for form in ("constexpr", "int"):
            if isinstance(value, dict) and type(value.get(form)) in (int, bool):
                facts.add((name, str(value[form])))
    return facts


def _by_meaning(fact: Fact) -> tuple[object, ...]:
    """Order the dtype first, then sizes with short names, then options and block sizes."""
    name, value = fact
    is_option = name.startswith("num_")
    is_block = bool(BLOCK.fullmatch(name))
    return name != "dtype", is_option, is_block, len(name), name, value
