"""Findings from the observation of a subject.

A run in a mode of the question is compared with runs of the same code whose parameters and
arguments are all in the half dtype, under the same autocast and without it. In those runs, only
values that autocast or the program makes float32 by design are float32: reductions and norms that
autocast keeps in float32, `.float()`, accumulators. An operand of a kernel is a finding when

1. it is float32 while another operand of the same launch is half;
2. it became float32 by a promotion: a parameter that is passed to the kernel directly does not
   count, nor does a cast by the program or by autocast;
3. without wide parameters the same operand of the same launch is half; and
4. no other launch of the kernel by the same subject, in a run without wide parameters, has that
   operand in float32 beside half operands: there the kernel expects float32. The same holds for a
   launch of the same run that receives it in float32 without any promotion: the program passes a
   float32 value directly, such as a residual stream that begins in float32 and that half branches
   are added to.

The cause is the first promotion on the operand's way that disappears without wide parameters.

A promotion by a table counts in the same way, although it remains: values that the program computes
in float32 from numbers and integers, such as rotary tables, widen what they are multiplied with.
Nobody intends q and k in float32 beside a half v.

An error is a finding if the run in the half dtype alone, or that in float32 alone, does not end in
it: then mixed dtypes are its cause, whoever made an operand float32 (`refusals` applies the same to
launches that do not compile). The cause is a promotion, else the cast that widened the operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from flacheck.capabilities.dtypes import expressions
from flacheck.capabilities.dtypes.finding import (
    OVERFLOW,
    PROMOTION,
    REJECTION,
    DtypeFinding,
    EndingError,
    ReachedKernel,
)
from flacheck.capabilities.dtypes.observation import (
    Cast,
    Mode,
    ObservedError,
    ObservedLaunch,
    ObservedRun,
    ObservedSubject,
    Operand,
    Place,
    Promotion,
    short,
)

# Turns an absolute path into the path in a report.
DisplayPath = Callable[[str], str]
# Kernel arguments that are float32 beside half operands by design.
WideByDesign = frozenset[tuple[str, str]]

# The kind of values that the program computes from numbers and integers.
_TABLE = "table"
_IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError")


def references(mode: Mode) -> list[Mode]:
    """Return the modes that a mode is compared with, the closest first."""
    same = Mode(mode.autocast, mode.half)
    plain = Mode("off", mode.half)
    return list(dict.fromkeys((same, plain)))


def plain_modes(mode: Mode) -> list[Mode]:
    """Return the modes with one dtype everywhere.

    Errors absent there are caused by mixed dtypes.
    """
    return [Mode("off", mode.half), Mode("off", "fp32")]


def find_wide_by_design(subject: ObservedSubject, modes: Iterable[Mode]) -> WideByDesign:
    """Return the kernel arguments that are float32 beside half operands without any wide parameter.

    The program or autocast casts them; nothing was promoted. Other subjects do not count: a finding
    must not depend on the layers that are followed beside its own.
    """
    reference_modes: set[Mode] = set()
    for mode in modes:
        reference_modes.update(references(mode))
    reference_modes.difference_update(modes)
    wide_arguments: set[tuple[str, str]] = set()
    for run in subject.runs:
        if run.mode in reference_modes:
            wide_arguments |= _find_wide_arguments(run)
    return frozenset(wide_arguments)


def _find_wide_arguments(run: ObservedRun) -> WideByDesign:
    """Return a run's kernel arguments that are float32 beside half ones without a promotion."""
    wide_arguments = set()
    for launch in run.launches:
        if not launch.has_half:
            continue
        for name, operand in launch.args.items():
            if not operand.is_half and not operand.events:
                wide_arguments.add((launch.kernel, name))
    return frozenset(wide_arguments)


def judge(
    subject: ObservedSubject, mode: Mode, by_design: WideByDesign, display_path: DisplayPath
) -> list[DtypeFinding]:
    """Return the findings of a subject in a mode of the question."""
    run = subject.run(mode)
    if run is None:
        return []
    reference_runs = _find_runs(subject, references(mode))
    plain_runs = find_plain_runs(subject, mode)
    judgement = _Judgement(subject.name, run, reference_runs, plain_runs, by_design, display_path)
    return [*judgement.promotions(), *judgement.overflows()]


def _find_runs(subject: ObservedSubject, modes: Iterable[Mode]) -> list[ObservedRun]:
    runs = []
    for mode in modes:
        run = subject.run(mode)
        if run is not None:
            runs.append(run)
    return runs


def find_failure(subject: ObservedSubject, mode: Mode) -> ObservedError | None:
    """Return the error that makes a subject fail in a mode, or None.

    Such an error has nothing to do with mixed dtypes: it also occurs without them, in the half
    dtype and in float32.
    """
    run = subject.run(mode)
    if run is None:
        # A missing module explains more than the errors of other calls.
        for error in subject.errors:
            if error.type in _IMPORT_ERRORS:
                return error
        return next(iter(subject.errors), None)
    if run.error is None:
        return None
    if _occurs_in_all(run.error, find_plain_runs(subject, mode)):
        return run.error
    return None


def find_plain_runs(subject: ObservedSubject, mode: Mode) -> list[ObservedRun]:
    """Return the runs of a subject in one dtype each, with which a run in a mode is compared."""
    return _find_runs(subject, (each for each in plain_modes(mode) if each != mode))


def _occurs_in_all(error: ObservedError, runs: Iterable[ObservedRun]) -> bool:
    """Return whether every run ends in an error; True without runs."""
    for run in runs:
        other = run.error
        if other is None or (error.type, error.place) != (other.type, other.place):
            return False
    return True


class _Judgement:
    """One run beside its reference runs."""

    def __init__(
        self,
        subject: str,
        run: ObservedRun,
        reference_runs: Sequence[ObservedRun],
        plain_runs: Sequence[ObservedRun],
        by_design: WideByDesign,
        display_path: DisplayPath,
    ) -> None:
        self._subject, self._run, self._references = subject, run, reference_runs
        self._plain_runs = plain_runs
        self._by_design, self._display_path = by_design | _find_wide_arguments(run), display_path
        self._remaining: set[tuple[str, Place | None, tuple[str, ...]]] = set()
        if reference_runs:
            self._remaining.update(map(_at, reference_runs[0].promotions))

    def promotions(self) -> Iterator[DtypeFinding]:
        """Yield findings of harmful promotions, and of an operation that rejects its operands."""
        kernels_by_cause: dict[int, list[ReachedKernel]] = {}
        for kernel, number, launch in self._run.number_launches():
            for name, operand in launch.args.items():
                if self._is_mixed(kernel, number, launch, name, operand):
                    one = self._describe_kernel(kernel, number, launch, name)
                    for cause in self._causes(operand.events):
                        kernels_by_cause.setdefault(cause, []).append(one)
        error_at_end, causes_of_error, rejection = self._error()
        for cause in causes_of_error:
            kernels_by_cause.setdefault(cause, [])
        for cause, kernels in kernels_by_cause.items():
            finding = describe_promotion(self._subject, self._run, cause, self._display_path)
            if finding is None:
                continue
            finding = replace(finding, reached_kernels=_merge(kernels))
            if cause in causes_of_error:
                finding = replace(finding, error_at_end=error_at_end)
            yield finding
        if rejection is not None:
            yield rejection

    def overflows(self) -> Iterator[DtypeFinding]:
        """Yield a finding for each overflow in the program's own code."""
        for overflow in self._run.overflows:
            if overflow.place is None:
                continue
            place = overflow.place
            yield DtypeFinding(
                OVERFLOW,
                self._subject,
                self._display_path(place.file),
                place.line,
                expressions.find_statement(place),
                overflow.operand,
                "fp16",
                "fp16",
                str(self._run.mode),
                place,
                message=overflow.message,
            )

    def _is_mixed(
        self, kernel: str, number: int, launch: ObservedLaunch, name: str, operand: Operand
    ) -> bool:
        if operand.is_half or not operand.events or (kernel, name) in self._by_design:
            return False
        if not launch.has_half:
            return False
        return self._find_intended_dtype(kernel, number, name) in (None, self._run.mode.half)

    def _find_intended_dtype(self, kernel: str, number: int, name: str) -> str | None:
        """Return the operand's dtype without wide parameters; None if no reference run has it."""
        operand = self._run.by_number[kernel, number].args[name]
        if any(map(self._is_by_table, self._causes(operand.events))):
            return self._run.mode.half
        for other in self._references:
            launch = other.by_number.get((kernel, number))
            is_aligned = other.counts.get(kernel) == self._run.counts[kernel]
            if launch is not None and is_aligned and name in launch.args:
                return short(launch.args[name].dtype)
            # The reference run takes another path, so any launch of the kernel decides.
            dtypes = []
            for each in other.launches:
                if each.kernel == kernel and name in each.args:
                    dtypes.append(short(each.args[name].dtype))
            if dtypes:
                return max(dtypes, key=lambda dtype: dtype not in ("fp16", "bf16"))
        return None

    def _describe_kernel(
        self, kernel: str, number: int, launch: ObservedLaunch, name: str
    ) -> ReachedKernel:
        intended_dtypes = launch.dtypes
        for argument in launch.args:
            dtype = self._find_intended_dtype(kernel, number, argument)
            if dtype is not None:
                intended_dtypes[argument] = dtype
        return ReachedKernel(kernel, name, launch.dtypes, intended_dtypes, launch.ids)

    def _causes(self, events: Iterable[int]) -> list[int]:
        """Return the first promotions on the way that disappear without wide parameters."""
        return first_promotions(self._run, events, self._is_avoidable)

    def _is_avoidable(self, number: int) -> bool:
        """Return whether a promotion occurs in no reference run, or is by a table."""
        is_known = _at(self._run.promotions[number]) in self._remaining
        return not is_known or self._is_by_table(number)

    def _is_by_table(self, number: int) -> bool:
        return all(each.kind == _TABLE for each in self._run.promotions[number].wide)

    def _error(self) -> tuple[EndingError | None, list[int], DtypeFinding | None]:
        """Return the error that ended the run, its causes, and a finding of its own.

        A finding of its own exists where an operation rejected its operands or nothing was
        promoted.
        """
        error = self._run.error
        if error is None or error.place is None:
            return None, [], None
        if _occurs_in_all(error, self._plain_runs):
            return None, [], None
        place = error.place
        statement = expressions.find_statement(place)
        error_at_end = EndingError(
            self._display_path(place.file), place.line, statement, error.brief
        )
        causes_of_error = self._causes(_events(error.about))
        if causes_of_error and error.kind == "stated":
            return error_at_end, causes_of_error, None
        if error.kind == "stated":
            cast = self._find_cast(error)
            if cast is not None:
                finding = describe_cast(self._subject, self._run, cast, self._display_path)
                return None, [], replace(finding, error_at_end=error_at_end)
            # Autocast made one operand of a promotion float32, so it also occurs with half
            # parameters.
            promotions = first_promotions(self._run, _events(error.about))
            if promotions:
                return error_at_end, promotions, None
        wide, halves = [], []
        for each in error.about:
            if each.is_half:
                halves.append(each)
            elif each.dims:
                wide.append(each)
        operand, parameter, kind = "", None, None
        is_direct = error.kind == "refused"
        if wide:
            operand = expressions.describe_operand(place, is_direct, wide[0])
            parameter, kind = wide[0].name, wide[0].kind
        finding = DtypeFinding(
            REJECTION,
            self._subject,
            self._display_path(place.file),
            place.line,
            statement,
            operand,
            short(halves[0].dtype) if halves else self._run.mode.half,
            short(wide[0].dtype) if wide else "fp32",
            str(self._run.mode),
            place,
            parameter=parameter,
            kind=kind,
            error_at_end=error_at_end,
            message=error.brief,
        )
        return error_at_end, causes_of_error, finding

    def _find_cast(self, error: ObservedError) -> Cast | None:
        """Return the first cast that widened a tensor which the failing statement names."""
        for operand in error.about:
            for number in operand.casts:
                return self._run.casts[number]
        return None


def describe_promotion(
    subject: str, run: ObservedRun, number: int, display_path: DisplayPath
) -> DtypeFinding | None:
    """Return the finding of a run's promotion without kernels; None without a place in a file."""
    promotion = run.promotions[number]
    place, wide = promotion.place, promotion.wide[0]
    if place is None:
        return None
    operand = expressions.describe_operand(place, promotion.direct, wide)
    return DtypeFinding(
        PROMOTION,
        subject,
        display_path(place.file),
        place.line,
        expressions.find_statement(place),
        operand,
        short(promotion.source),
        short(promotion.result),
        str(run.mode),
        place,
        parameter=wide.name,
        kind=wide.kind,
        message=f"{operand} is {short(wide.dtype)}, so the result is {short(promotion.result)}",
    )


def first_promotions(
    run: ObservedRun, events: Iterable[int], counts: Callable[[int], bool] = lambda _: True
) -> list[int]:
    """Return the promotions on the way to some events that no earlier promotion led to.

    Promotions that do not count are left out, together with the promotions that only they led to.
    """
    first = []
    waiting, visited_events = list(events), set()
    while waiting:
        number = waiting.pop()
        if number in visited_events:
            continue
        visited_events.add(number)
        earlier = list(filter(counts, _events(run.promotions[number].wide)))
        if earlier:
            waiting += earlier
        elif counts(number):
            first.append(number)
    return sorted(first)


def describe_cast(
    subject: str, run: ObservedRun, cast: Cast, display_path: DisplayPath
) -> DtypeFinding:
    """Return the finding of a cast to a wider dtype, without kernels."""
    place = cast.place
    operand = expressions.describe_operand(place, cast.direct, cast.halves[0])
    return DtypeFinding(
        PROMOTION,
        subject,
        display_path(place.file),
        place.line,
        expressions.find_statement(place),
        operand,
        short(cast.source),
        short(cast.result),
        str(run.mode),
        place,
        message=f"{operand} is {short(cast.source)}, and the result is {short(cast.result)}",
        is_cast=True,
    )


def _events(operands: Iterable[Operand]) -> list[int]:
    """Return the events of all operands, one after another."""
    events: list[int] = []
    for operand in operands:
        events += operand.events
    return events


def _at(promotion: Promotion) -> tuple[str, Place | None, tuple[str, ...]]:
    """Return the key that is equal for the same promotion in two runs."""
    return promotion.phase, promotion.place, tuple(each.at for each in promotion.wide)


def _merge(kernels: Sequence[ReachedKernel]) -> tuple[ReachedKernel, ...]:
    """Return each kernel once for an argument and its dtypes."""
    unique: dict[str, ReachedKernel] = {}
    for each in kernels:
        unique.setdefault(f"{each.kernel} {each.argument} {each.dtypes}", each)
    return tuple(unique.values())
