"""From what was seen to findings.

A run in the mode asked is compared with runs of the same code whose parameters and arguments are
all in the half dtype, under the same autocast and without it. There nothing is float32 but what
autocast or the program makes so by design: reductions and norms that autocast keeps in float32,
`.float()`, accumulators. An operand of a kernel is a finding when

1. it is float32 while another operand of the same launch is half;
2. it became float32 by a promotion: a parameter that is handed to the kernel as it is does not
   count, nor does the program's or autocast's own cast;
3. without wide parameters the same operand of the same launch is half; and
4. no other launch of the kernel, in a run without wide parameters, gets that operand in float32
   beside half ones: there the kernel wants it so; nor does one in the same run get it so where
   nothing was promoted: the program hands it a float32 value as it is, such as a residual stream
   that begins in float32 and that half branches are added to.

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

# A file as a report names it.
Shown = Callable[[str], str]
# Kernels with the argument that they take in float32 beside half operands by design.
WideByDesign = frozenset[tuple[str, str]]

_IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError")


def references(mode: Mode) -> list[Mode]:
    """What a mode is compared with, the closest first."""
    same = Mode(mode.autocast, mode.half)
    plain = Mode("off", mode.half)
    return list(dict.fromkeys((same, plain)))


def find_wide_by_design(subjects: Iterable[ObservedSubject], modes: Iterable[Mode]) -> WideByDesign:
    """What kernels take in float32 beside half operands though no parameter is wide: the program
    or autocast casts it, nothing was promoted."""
    compared = {each for mode in modes for each in references(mode) if each not in set(modes)}
    found: set[tuple[str, str]] = set()
    for subject in subjects:
        for run in subject.runs:
            if run.mode in compared:
                found |= _taken_wide(run)
    return frozenset(found)


def _taken_wide(run: ObservedRun) -> WideByDesign:
    """What kernels take in float32 beside half operands though nothing was promoted."""
    taken = set()
    for launch in run.launches:
        halves = any(operand.is_half for operand in launch.args.values())
        for name, operand in launch.args.items():
            if halves and not operand.is_half and not operand.events:
                taken.add((launch.kernel, name))
    return frozenset(taken)


def judge(
    subject: ObservedSubject, mode: Mode, wanted: WideByDesign, shown: Shown
) -> list[DtypeFinding]:
    """The findings of a subject in one of the modes asked."""
    run = subject.run(mode)
    if run is None:
        return []
    others = [subject.run(each) for each in references(mode)]
    compared = [each for each in others if each is not None]
    judgement = _Judgement(subject.name, run, compared, wanted, shown)
    return [*judgement.promotions(), *judgement.overflows()]


def find_failure(subject: ObservedSubject, mode: Mode) -> ObservedError | None:
    """Why a subject has no answer in a mode: an error that has nothing to do with dtypes, for it
    comes without wide parameters, too; None when it has one."""
    run = subject.run(mode)
    if run is None:
        # A module that is missing says more than what other arguments came to.
        missing = [error for error in subject.errors if error.type in _IMPORT_ERRORS]
        return next(iter([*missing, *subject.errors]), None)
    if run.error is None:
        return None
    others = [subject.run(each) for each in references(mode) if each != mode]
    compared = [each for each in others if each is not None]
    if not compared or any(_is_same(run.error, other.error) for other in compared):
        return run.error
    return None


def _is_same(mine: ObservedError, other: ObservedError | None) -> bool:
    return other is not None and (mine.type, mine.place) == (other.type, other.place)


class _Judgement:
    """One run beside those that it is compared with."""

    def __init__(
        self,
        subject: str,
        run: ObservedRun,
        compared: Sequence[ObservedRun],
        wanted: WideByDesign,
        shown: Shown,
    ) -> None:
        self._subject, self._run, self._compared = subject, run, compared
        self._wanted, self._shown = wanted | _taken_wide(run), shown
        remaining = [p for other in compared[:1] for p in other.promotions]
        self._remaining = {_at(promotion) for promotion in remaining}

    def promotions(self) -> Iterator[DtypeFinding]:
        """A finding for each promotion that breaks something, and the error that ended the run."""
        reached: dict[int, list[ReachedKernel]] = {}
        for kernel, number, launch in self._run.number_launches():
            for name, operand in launch.args.items():
                if self._is_mixed(kernel, number, launch, name, operand):
                    one = self._reached(kernel, number, launch, name)
                    for cause in self._causes(operand.events):
                        reached.setdefault(cause, []).append(one)
        error_at_end, blamed, refused = self._error()
        for cause in blamed:
            reached.setdefault(cause, [])
        for cause, kernels in reached.items():
            finding = self._finding(cause, _merged(kernels))
            if finding is None:
                continue
            if cause in blamed:
                finding = replace(finding, error_at_end=error_at_end)
            yield finding
        if refused is not None:
            yield refused

    def overflows(self) -> Iterator[DtypeFinding]:
        for overflow in self._run.overflows:
            if overflow.place is None:
                continue
            place = overflow.place
            yield DtypeFinding(
                OVERFLOW,
                self._subject,
                self._shown(place.file),
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
        if operand.is_half or not operand.events or (kernel, name) in self._wanted:
            return False
        if not any(other.is_half for other in launch.args.values()):
            return False
        return self._intended(kernel, number, name) in (None, self._run.mode.half)

    def _intended(self, kernel: str, number: int, name: str) -> str | None:
        """The operand's dtype without wide parameters; None where that is not known."""
        for other in self._compared:
            launch = other.by_number.get((kernel, number))
            is_aligned = other.counts.get(kernel) == self._run.counts[kernel]
            if launch is not None and is_aligned and name in launch.args:
                return short(launch.args[name].dtype)
            # The program goes another way there: any launch of the kernel tells.
            dtypes = {
                short(each.args[name].dtype)
                for each in other.launches
                if each.kernel == kernel and name in each.args
            }
            if dtypes:
                return max(dtypes, key=lambda dtype: dtype not in ("fp16", "bf16"))
        return None

    def _reached(
        self, kernel: str, number: int, launch: ObservedLaunch, name: str
    ) -> ReachedKernel:
        dtypes = {arg: short(operand.dtype) for arg, operand in launch.args.items()}
        intended = {arg: self._intended(kernel, number, arg) or dtypes[arg] for arg in dtypes}
        return ReachedKernel(kernel, name, dtypes, intended, launch.ids)

    def _causes(self, events: Iterable[int]) -> list[int]:
        """The first promotions on the way that are gone without wide parameters."""
        causes = []
        waiting, seen = list(events), set()
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            promotion = self._run.promotions[number]
            before = [event for operand in promotion.wide for event in operand.events]
            earlier = [event for event in before if self._is_avoidable(event)]
            if earlier:
                waiting += earlier
            elif self._is_avoidable(number):
                causes.append(number)
        return sorted(set(causes))

    def _is_avoidable(self, number: int) -> bool:
        """Whether a promotion is in no run that this one is compared with."""
        return _at(self._run.promotions[number]) not in self._remaining

    def _error(self) -> tuple[EndingError | None, list[int], DtypeFinding | None]:
        """What ended the run: the statement, the promotions to blame, and a finding of its own
        where an operation refused its operands or nothing was promoted."""
        error = self._run.error
        if error is None or error.place is None:
            return None, [], None
        others = [other for other in self._compared if other is not self._run]
        if not others or any(_is_same(error, other.error) for other in others):
            return None, [], None
        place = error.place
        statement = expressions.find_statement(place)
        error_at_end = EndingError(self._shown(place.file), place.line, statement, error.brief)
        blamed = self._causes([event for each in error.about for event in each.events])
        if blamed and error.kind == "stated":
            return error_at_end, blamed, None
        wide = [each for each in error.about if not each.is_half and each.dims]
        halves = [each for each in error.about if each.is_half]
        operand, parameter, kind = "", None, None
        if wide:
            operand = expressions.describe_operand(place, error.kind == "refused", wide[0])
            parameter, kind = wide[0].name, wide[0].kind
        finding = DtypeFinding(
            REJECTION,
            self._subject,
            self._shown(place.file),
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
        return error_at_end, blamed, finding

    def _finding(self, number: int, reached: tuple[ReachedKernel, ...]) -> DtypeFinding | None:
        promotion = self._run.promotions[number]
        place, wide = promotion.place, promotion.wide[0]
        if place is None:
            return None
        operand = expressions.describe_operand(place, promotion.direct, wide)
        return DtypeFinding(
            PROMOTION,
            self._subject,
            self._shown(place.file),
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
            reached_kernels=reached,
            message=f"{operand} is {short(wide.dtype)}, so the result is {short(promotion.result)}",
        )


def _half(place: Place, direct: bool, halves: Sequence[Operand]) -> str | None:
    """A half operand as the program writes it, a plain name before a computed value."""
    texts = [expressions.find_operand_text(place, direct, each) for each in halves]
    return min((text for text in texts if text), key=len, default=None)


def _at(promotion: Promotion) -> tuple[str, Place | None, tuple[str, ...]]:
    """What makes two promotions the same in two runs."""
    return promotion.phase, promotion.place, tuple(each.at for each in promotion.wide)


def _merged(reached: Sequence[ReachedKernel]) -> tuple[ReachedKernel, ...]:
    """Each kernel once for an argument and its dtypes."""
    kept: dict[str, ReachedKernel] = {}
    for each in reached:
        kept.setdefault(f"{each.kernel} {each.argument} {each.dtypes}", each)
    return tuple(kept.values())
