"""From the runner's findings to the state of each result. Pure functions."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import convert

from flacheck.evidence.measured.results import Disagreement, LaunchResult, Result, State, Times
from flacheck.model import Json
from flacheck.pipeline.measurement.bundle import BundledLaunch, Variant

# The spacing of each dtype's numbers around 1, relative. Releases add in other orders and round
# intermediate results to the narrowest dtype of a launch; fp32 dots compute in tf32, which has ten
# bits. fp8 keeps two or three.
_SPACING = {
    "fp64": 2.0**-52,
    "fp32": 2.0**-10,
    "fp16": 2.0**-10,
    "bf16": 2.0**-7,
    "fp8e4nv": 2.0**-3,
    "fp8e5": 2.0**-2,
}
# An element may differ by this many spacings, relative to itself and to the storage's root mean
# square: a sum of several rounded terms may be off by more than one.
_SPACINGS = 4.0
# Beyond this multiple of the tolerance nearly any result would pass.
_MOST_AMPLIFICATION_REASON = 8.0
_AMPLIFICATION_REASON = "inputs that differ by one rounding change its results as much"
_TWIN = "twin"
_GOOD = (State.SAME, State.ROUNDING)


def spacing(launch: BundledLaunch) -> float:
    """Return the spacing of a launch's narrowest dtype around 1."""
    return max((_SPACING.get(each.dtype, 0.0) for each in launch.tensors.values()), default=0.0)


def tolerance(launch: BundledLaunch) -> float:
    """Return the largest relative difference of an element that rounding explains.

    The runner widens it for launches that amplify rounding.
    """
    return _SPACINGS * spacing(launch)


def judge_launch(
    launch: BundledLaunch, findings: Json, deaths: Mapping[int, str], seed: int = 0
) -> LaunchResult:
    """Return a launch's results.

    Args:
        launch: The launch of the bundle.
        findings: The facts of the runner, `variants` by index among them.
        deaths: Why a binary ended the runner, by index.
        seed: The seed of the inputs.
    """
    variants: Mapping[str, Json] = findings.get("variants", {})
    reference = _reference(variants)
    states = []
    for index, variant in enumerate(launch.variants):
        finding = variants.get(str(index), {})
        states.append(_state(launch, variant, finding, deaths.get(index), reference, findings))
    wrong = _wrong(launch, [state for state, _ in states], _is_amplified(findings))
    results = []
    for index, (variant, (state, reason)) in enumerate(zip(launch.variants, states)):
        finding = variants.get(str(index), {})
        results.append(_result(variant, state, reason, index in wrong, finding))
    inputs = findings.get("inputs") or {}
    return LaunchResult(
        kernel=launch.kernel,
        package=launch.package,
        dtype=launch.dtype,
        by=launch.by,
        made_up=launch.made_up,
        operators=launch.operators,
        grid=max((each.grid for each in launch.variants), key=math.prod, default=()),
        bytes=sum(launch.storages),
        distribution=inputs.get("distribution"),
        spread=_spread(variants),
        results=tuple(results),
        disagreement=_disagreement(findings, seed),
        shapes={path: tensor.shape for path, tensor in launch.tensors.items()},
    )


def _disagreement(findings: Json, seed: int) -> Disagreement | None:
    samples = findings.get("samples")
    if not samples:
        return None
    distribution = findings["inputs"]["distribution"]
    form = {"seed": seed, "distribution": distribution, "tolerance": findings["tolerance"]}
    return convert({**form, "samples": samples}, Disagreement)


def _reference(variants: Mapping[str, Json]) -> int | None:
    """Return the class of results that most stable binaries share; the first one among equals."""
    classes = Counter[int]()
    for finding in variants.values():
        if finding.get("is_stable") and finding["broken_guard"] is None:
            classes[finding["class"]] += 1
    if not classes:
        return None
    return max(classes, key=lambda number: (classes[number], -number))


def _state(
    launch: BundledLaunch,
    variant: Variant,
    finding: Json,
    death: str | None,
    reference: int | None,
    findings: Json,
) -> tuple[State, str | None]:
    """Return the state of a binary's result, and the reason for any but a good one."""
    if variant.binary is None:
        return State.NOT_COMPARABLE, variant.problem
    fault = death
    if finding.get("broken_guard") is not None:
        fault = f"it writes beyond its memory, beside storage {finding['broken_guard']}"
    if fault and launch.made_up:
        return State.NOT_COMPARABLE, f"{fault}; {launch.made_up}"
    if fault:
        return State.FAULTS, fault
    if "problem" in finding or "class" not in finding:
        return State.NOT_COMPARABLE, finding.get("problem") or findings.get("problem")
    if not finding["is_stable"]:
        return State.UNSTABLE, "two runs on the same inputs give different results"
    if not finding["written"]:
        return State.NOT_COMPARABLE, "it changes no memory"
    if finding["class"] == reference:
        return _state_of_equal(finding, reference, findings)
    if not _is_finite(findings["variants"], reference):
        return State.NOT_COMPARABLE, "the others' results are not finite under any inputs"
    reason = _describe(_difference_of_class(findings["variants"], finding["class"]))
    if _is_amplified(findings):
        reason += f"; {_AMPLIFICATION_REASON}"
    return State.DIFFERS, reason


def _state_of_equal(
    finding: Json, reference: int | None, findings: Json
) -> tuple[State, str | None]:
    """Return the state of a result that differs from the reference by rounding at most."""
    difference = finding["difference"]
    is_first = finding["compared_with"] != reference
    if difference is None or is_first or not difference["differing"]:
        return State.SAME, None
    if _is_amplified(findings):
        return State.NOT_COMPARABLE, _AMPLIFICATION_REASON
    return State.ROUNDING, None


def _is_amplified(findings: Json) -> bool:
    return (findings.get("amplification") or 0.0) > _MOST_AMPLIFICATION_REASON


def _is_finite(variants: Mapping[str, Json], reference: int | None) -> bool:
    """Return True if the results of a class are finite."""
    own = [each for each in variants.values() if each.get("class") == reference]
    return not any(each["not_finite"] for each in own)


def _difference_of_class(variants: Mapping[str, Json], number: int) -> Json | None:
    """Return how the results of a class differ from those of class 0; None for class 0 itself.

    Later results of the class were compared with its first one.
    """
    difference: Json | None = next(
        each["difference"] for each in variants.values() if each.get("class") == number
    )
    return difference


def _describe(difference: Json | None) -> str:
    if not difference:
        return "its results are not those of most releases"
    count = difference["outside"] + difference["not_finite_in_one"]
    return (
        f"{count:,} of {difference['written']:,} elements differ by more than rounding, "
        f"the largest by {difference['largest']:.2g}"
    )


def _wrong(launch: BundledLaunch, states: Sequence[State], is_amplified: bool) -> set[int]:
    """Return the indices of wrong results: only for a program's launch, beside a good result.

    A race that no fewer show than compute it well is the kernel's. Only the interpreter is a judge
    of launches that amplify rounding.
    """
    good = sum(state in _GOOD for state in states)
    if launch.made_up or not good:
        return set()
    bad = [State.FAULTS] if is_amplified else [State.DIFFERS, State.FAULTS]
    if states.count(State.UNSTABLE) < good:
        bad.append(State.UNSTABLE)
    return {index for index, state in enumerate(states) if state in bad}


def _result(
    variant: Variant, state: State, reason: str | None, is_wrong: bool, finding: Json
) -> Result:
    samples = finding.get("microseconds")
    times = None
    if samples:
        times = Times(round(min(samples), 4), round(statistics.median(samples), 4))
    difference = finding.get("difference") or {}
    return Result(
        toolchain=variant.toolchain,
        key=variant.key,
        config=variant.config,
        state=state,
        reason=reason,
        is_wrong=is_wrong,
        times=times,
        error=difference.get("error"),
        registers=finding.get("registers"),
        stack=finding.get("stack"),
        group=finding.get("class"),
    )


def _spread(variants: Mapping[str, Json]) -> float | None:
    """Return the relative difference of the medians of one binary that was timed twice."""
    twin = variants.get(_TWIN, {}).get("microseconds")
    indices = [int(name) for name in variants if name != _TWIN and "microseconds" in variants[name]]
    if not twin or not indices:
        return None
    first = statistics.median(variants[str(min(indices))]["microseconds"])
    return abs(float(first / statistics.median(twin)) - 1)
