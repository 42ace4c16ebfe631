"""Findings from the observation of a subject.

A run in a mode of the question is compared with runs of the same code whose parameters and
arguments are all in the half dtype, under the same autocast and without it. In those runs, only
values that autocast or the program makes float32 by design are float32: reductions and norms that
autocast keeps in float32, `.float()`, accumulators. An operand of a kernel is a finding when

1. it is float32 while another operand of the same launch is half;
2. it became float32 by a promotion: a parameter that is passed to the kernel directly does not
   count, nor does a cast by the program or by autocast;
3. without wide parameters the same operand of the same launch is half; and
4. no other launch of the kernel, in a run without wide parameters, has that operand in float32
   beside half operands: there the kernel expects float32. The same holds for a launch of the same
   run that receives it in float32 without any promotion: the program passes a float32 value
   directly, such as a residual stream that begins in float32 and that half branches are added to.

The cause is the first promotion on the operand's way that disappears without wide parameters.
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

_IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError")


def references(mode: Mode) -> list[Mode]:
    """Return the modes that a mode is compared with, the closest first."""
    same = Mode(mode.autocast, mode.half)
    plain = Mode("off", mode.half)
    return list(dict.fromkeys((same, plain)))


def find_wide_by_design(subjects: Iterable[ObservedSubject], modes: Iterable[Mode]) -> WideByDesign:
    """Return the kernel arguments that are float32 beside half operands without any wide parameter.

    The program or autocast casts them; nothing was promoted.
    """
    reference_runs = {each for mode in modes for each in references(mode) if each not in set(modes)}
    wide_arguments: set[tuple[str, str]] = set()
    for subject in subjects:
        for run in subject.runs:
            if run.mode in reference_runs:
                wide_arguments |= _find_wide_arguments(run)
    return frozenset(wide_arguments)


def _find_wide_arguments(run: ObservedRun) -> WideByDesign:
    """Return a run's kernel arguments that are float32 beside half ones without a promotion."""
    wide_arguments = set()
    for launch in run.launches:
        halves = any(operand.is_half for operand in launch.args.values())
        for name, operand in launch.args.items():
            if halves and not operand.is_half and not operand.events:
                wide_arguments.add((launch.kernel, name))
    return frozenset(wide_arguments)


def judge(
    subject: ObservedSubject, mode: Mode, by_design: WideByDesign, display_path: DisplayPath
) -> list[DtypeFinding]:
    """Return the findings of a subject in a mode of the question."""
    run = subject.run(mode)
    if run is None:
        return []
    others = [subject.run(each) for each in references(mode)]
    reference_runs = [each for each in others if each is not None]
    judgement = _Judgement(subject.name, run, reference_runs, by_design, display_path)
    return [*judgement.promotions(), *judgement.overflows()]


def find_failure(subject: ObservedSubject, mode: Mode) -> ObservedError | None:
    """Return the error that makes a subject fail in a mode, or None.

    Such an error has nothing to do with dtypes: it also occurs without wide parameters.
    """
    run = subject.run(mode)
    if run is None:
        # A missing module explains more than the errors of other calls.
        missing = [error for error in subject.errors if error.type in _IMPORT_ERRORS]
        return next(iter([*missing, *subject.errors]), None)
    if run.error is None:
        return None
    others = [subject.run(each) for each in references(mode) if each != mode]
    reference_runs = [each for each in others if each is not None]
    if not reference_runs or any(_is_same(run.error, other.error) for other in reference_runs):
        return run.error
    return None


def _is_same(mine: ObservedError, other: ObservedError | None) -> bool:
    return other is not None and (mine.type, mine.place) == (other.type, other.place)


class _Judgement:
    """One run beside its reference runs."""

    def __init__(
        self,
        subject: str,
        run: ObservedRun,
        reference_runs: Sequence[ObservedRun],
        by_design: WideByDesign,
        display_path: DisplayPath,
    ) -> None:
        self._subject, self._run, self._references = subject, run, reference_runs
        self._by_design, self._display_path = by_design | _find_wide_arguments(run), display_path
        remaining = [p for other in reference_runs[:1] for p in other.promotions]
        self._remaining = {_at(promotion) for promotion in remaining}

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
            finding = self._finding(cause, _merge(kernels))
            if finding is None:
                continue
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
        if not any(other.is_half for other in launch.args.values()):
            return False
        return self._find_intended_dtype(kernel, number, name) in (None, self._run.mode.half)

    def _find_intended_dtype(self, kernel: str, number: int, name: str) -> str | None:
        """Return the operand's dtype without wide parameters; None if no reference run has it."""
        for other in self._references:
            launch = other.by_number.get((kernel, number))
            is_aligned = other.counts.get(kernel) == self._run.counts[kernel]
            if launch is not None and is_aligned and name in launch.args:
                return short(launch.args[name].dtype)
            # The reference run takes another path, so any launch of the kernel decides.
            dtypes = {
                short(each.args[name].dtype)
                for each in other.launches
                if each.kernel == kernel and name in each.args
            }
            if dtypes:
                return max(dtypes, key=lambda dtype: dtype not in ("fp16", "bf16"))
        return None

    def _describe_kernel(
        self, kernel: str, number: int, launch: ObservedLaunch, name: str
    ) -> ReachedKernel:
        dtypes = {arg: short(operand.dtype) for arg, operand in launch.args.items()}
        intended_dtypes = {
            arg: self._find_intended_dtype(kernel, number, arg) or dtypes[arg] for arg in dtypes
        }
        return ReachedKernel(kernel, name, dtypes, intended_dtypes, launch.ids)

    def _causes(self, events: Iterable[int]) -> list[int]:
        """Return the first promotions on the way that disappear without wide parameters."""
        causes = []
        waiting, visited_events = list(events), set()
        while waiting:
            number = waiting.pop()
            if number in visited_events:
                continue
            visited_events.add(number)
            promotion = self._run.promotions[number]
            before = [event for operand in promotion.wide for event in operand.events]
            earlier = [event for event in before if self._is_avoidable(event)]
            if earlier:
                waiting += earlier
            elif self._is_avoidable(number):
                causes.append(number)
        return sorted(set(causes))

    def _is_avoidable(self, number: int) -> bool:
        """Return whether a promotion occurs in no reference run."""
        return _at(self._run.promotions[number]) not in self._remaining

    def _error(self) -> tuple[EndingError | None, list[int], DtypeFinding | None]:
        """Return the error that ended the run, its causes, and a finding of its own.

        A finding of its own exists where an operation rejected its operands or nothing was
        promoted.
        """
        error = self._run.error
        if error is None or error.place is None:
            return None, [], None
        others = [other for other in self._references if other is not self._run]
        if not others or any(_is_same(error, other.error) for other in others):
            return None, [], None
        place = error.place
        statement = expressions.find_statement(place)
        error_at_end = EndingError(
            self._display_path(place.file), place.line, statement, error.brief
        )
        causes_of_error = self._causes([event for each in error.about for event in each.events])
        if causes_of_error and error.kind == "stated":
            return error_at_end, causes_of_error, None
        wide = [each for each in error.about if not each.is_half and each.dims]
        halves = [each for each in error.about if each.is_half]
        operand, parameter, kind = "", None, None
        if wide:
            operand = expressions.describe_operand(place, error.kind == "refused", wide[0])
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
            half=_half(place, error.kind == "refused", halves),
            parameter=parameter,
            kind=kind,
            error_at_end=error_at_end,
            message=error.brief,
        )
        return error_at_end, causes_of_error, finding

    def _finding(
        self, number: int, kernels_by_cause: tuple[ReachedKernel, ...]
    ) -> DtypeFinding | None:
        promotion = self._run.promotions[number]
        place, wide = promotion.place, promotion.wide[0]
        if place is None:
            return None
        operand = expressions.describe_operand(place, promotion.direct, wide)
        return DtypeFinding(
            PROMOTION,
            self._subject,
            self._display_path(place.file),
            place.line,
            expressions.find_statement(place),
            operand,
            short(promotion.source),
            short(promotion.result),
            str(self._run.mode),
            place,
            half=_half(place, promotion.direct, promotion.halves),
            parameter=wide.name,
            kind=wide.kind,
            reached_kernels=kernels_by_cause,
            message=f"{operand} is {short(wide.dtype)}, so the result is {short(promotion.result)}",
        )


def _half(place: Place, direct: bool, halves: Sequence[Operand]) -> str | None:
    """Return the source text of a half operand, a plain name before a computed value."""
    texts = [expressions.find_operand_text(place, direct, each) for each in halves]
    return min((text for text in texts if text), key=len, default=None)


def _at(promotion: Promotion) -> tuple[str, Place | None, tuple[str, ...]]:
    """Return the key that is equal for the same promotion in two runs."""
    return promotion.phase, promotion.place, tuple(each.at for each in promotion.wide)


def _merge(kernels_by_cause: Sequence[ReachedKernel]) -> tuple[ReachedKernel, ...]:
    """Return each kernel once for an argument and its dtypes."""
    unique: dict[str, ReachedKernel] = {}
    for each in kernels_by_cause:
        unique.setdefault(f"{each.kernel} {each.argument} {each.dtypes}", each)
    return tuple(unique.values())
