"""The times of an operator's forms; their JSON Schema is generated."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from flacheck.errors import Exit
from flacheck.model.wire import Count, JsonStruct, Seconds


class Form(Struct, frozen=True):
    """A function that computes an operator in one way.

    `function` is `module:name` of a package's function, or `family.form` of our own kernels.
    """

    operator: str
    form: str
    function: str
    is_ours: bool = False


class Spread(JsonStruct, frozen=True):
    """The median of runs in ms; a fifth of them lies below `low`, a fifth above `high`."""

    median: float
    low: float
    high: float


class FormTiming(JsonStruct, frozen=True, kw_only=True):
    """One form at one batch size and length.

    The first run's seconds are split: `compile_s` in compilers, `tuning_s` in autotuners beside
    that, `warm_up_s` for the rest. `forward` and `backward` are of the steady state. `difference`
    is the largest relative difference of an output from that of the form `compared_with`. A form
    that does not run has `failed` instead; one whose backward does not run, `backward_failed`.
    """

    operator: str
    form: str
    function: str
    batch: Count
    length: Count
    compile_s: Seconds | None = None
    tuning_s: Seconds | None = None
    warm_up_s: Seconds | None = None
    forward: Spread | None = None
    backward: Spread | None = None
    memory_mb: float | None = None
    difference: float | None = None
    compared_with: str | None = None
    backward_failed: str | None = None
    failed: str | None = None


class Winner(JsonStruct, frozen=True):
    """The form that is fastest at this length and at every longer one that was timed.

    `backward` is false if the forms were compared by their forward alone.
    """

    operator: str
    batch: Count
    form: str
    from_length: Count
    backward: bool


class FormsCompared(JsonStruct, frozen=True, kw_only=True):
    """The forms of operators, timed on a GPU."""

    schema: Literal["flacheck.bench/1"] = "flacheck.bench/1"
    about: str
    gpu: str
    triton: str
    torch: str
    dtype: str
    heads: Count
    head_size: Count
    repeats: Count
    tolerance: float
    timings: list[FormTiming]
    winners: list[Winner]
    notes: list[str]
    interrupted: bool = False

    @property
    def exit_code(self) -> Exit:
        """The exit code that the command line returns."""
        if self.interrupted:
            return Exit.INTERRUPTED
        if self.differing:
            return Exit.FINDINGS
        if not any(timing.forward for timing in self.timings):
            return Exit.INCOMPLETE
        return Exit.OK

    @property
    def differing(self) -> list[FormTiming]:
        """The timings whose outputs differ from the first form's by more than the tolerance."""
        far = []
        for timing in self.timings:
            if timing.difference is not None and not timing.difference <= self.tolerance:
                far.append(timing)
        return far


def winners(timings: list[FormTiming]) -> list[Winner]:
    """Return the winner of each operator and batch size that was timed in several forms."""
    groups: dict[tuple[str, int], dict[int, list[FormTiming]]] = {}
    for timing in timings:
        if timing.forward is not None:
            lengths = groups.setdefault((timing.operator, timing.batch), {})
            lengths.setdefault(timing.length, []).append(timing)
    wins = []
    for (operator, batch), by_length in groups.items():
        winner = _winner(operator, batch, by_length)
        if winner is not None:
            wins.append(winner)
    return wins


def _winner(operator: str, batch: int, by_length: dict[int, list[FormTiming]]) -> Winner | None:
    # Forms that failed at a length would make another one win there.
    common = {timing.form for group in by_length.values() for timing in group}
    complete = {n: group for n, group in by_length.items() if {t.form for t in group} == common}
    if len(common) < 2 or not complete:
        return None
    has_backward = all(timing.backward for group in complete.values() for timing in group)
    fastest = {}
    for length, group in complete.items():
        times = {timing.form: _time(timing, has_backward) for timing in group}
        fastest[length] = min(times, key=lambda form: times[form])
    descending = sorted(fastest, reverse=True)
    form = fastest[descending[0]]
    from_length = descending[0]
    for length in descending:
        if fastest[length] != form:
            break
        from_length = length
    return Winner(operator, batch, form, from_length, has_backward)


def _time(timing: FormTiming, has_backward: bool) -> float:
    assert timing.forward is not None
    if has_backward and timing.backward is not None:
        return timing.forward.median + timing.backward.median
    return timing.forward.median
