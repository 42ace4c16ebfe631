"""Slices of a question: its dtypes, or its forms, where their results differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from flacheck.evidence.analysis.context import Context
from flacheck.evidence.analysis.known_good import TRITON, KnownGood, group_by_key, prefer_unadvised
from flacheck.evidence.analysis.launch_evidence import compile_all
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.order import by_target, by_version, short, split
from flacheck.evidence.analysis.standing import Standing
from flacheck.model import Verdict
from flacheck.model.wire import JsonStruct

# The usual order; other dtypes follow by name.
_DTYPES = ("fp16", "bf16", "fp32")


class SlicePin(JsonStruct, frozen=True):
    """The newest good pair; torch is null if none pins that Triton."""

    torch: str | None
    triton: str


class SliceAnswers(JsonStruct, frozen=True):
    """A dtype, or a form in that dtype, with the answer of each Triton release."""

    target: str
    dtype: str
    form: str | None
    releases: dict[str, Annotated[str, Meta(pattern="^(good|fails|partial|unknown|skipped)$")]]
    pin: SlicePin | None


@dataclass(frozen=True)
class Slice:
    """One dtype of a question, or one form of its operators in that dtype, on one target.

    `answers` maps each release of a compiler, oldest first, to the state of that part of the
    question: `good`, `fails`, `partial`, `unknown` or `skipped`. `newest` is the newest good one
    from an index; `pair` the (torch, Triton) to pin, with torch None if no torch pins that Triton.
    Both are None if no release is good.
    """

    target: str
    dtype: str
    form: str | None
    answers: tuple[tuple[str, str], ...]
    pair: tuple[str | None, str] | None
    newest: str | None = None

    @property
    def good(self) -> list[str]:
        releases = []
        for release, answer in self.answers:
            if answer == "good":
                releases.append(release)
        return releases

    def document(self) -> SliceAnswers:
        """Return the slice in the form of flacheck.run/1."""
        pin = None
        if self.pair:
            pin = SlicePin(*self.pair)
        return SliceAnswers(self.target, self.dtype, self.form, dict(self.answers), pin)


def slices(standings: Sequence[Standing], context: Context) -> Iterator[Slice]:
    """Yield the dtypes of each target, split by form where the forms of a dtype differ.

    Nothing is yielded for a target if all dtypes have the same good releases.
    """
    by_compiler: dict[tuple[str, str], list[Standing]] = {}
    for standing in standings:
        name, _ = split(standing.toolchain)
        by_compiler.setdefault((standing.target, name), []).append(standing)
    for target, name in sorted(by_compiler, key=_by_target_and_name):
        there = by_compiler[target, name]
        dtypes: set[str] = set()
        for standing in there:
            for cell in standing.cells:
                if cell.dtype:
                    dtypes.add(cell.dtype)
        rows: list[Slice] = []
        for dtype in sorted(dtypes, key=_by_dtype):
            rows += _make_rows(target, dtype, there, context)
        if not _have_one_result(rows):
            yield from rows


def _by_target_and_name(place: tuple[str, str]) -> tuple[object, str]:
    target, name = place
    return by_target(target), name


def _by_dtype(dtype: str) -> tuple[int, str]:
    if dtype in _DTYPES:
        return _DTYPES.index(dtype), dtype
    return len(_DTYPES), dtype


def _make_rows(target: str, dtype: str, there: Sequence[Standing], context: Context) -> list[Slice]:
    """Return one row for the dtype, or one for each form where they differ."""
    whole = _make_slice(target, dtype, None, there, context)
    operators, forms = set[str](), set[str]()
    for operator, form in context.forms.values():
        operators.add(operator)
        forms.add(form)
    of_operator = all("ops" in each.question.selection for each in there)
    # Forms are alternatives of one operator; those of several operators are not. --op selects one
    # operator, whatever the modules of its kernels.
    if len(forms) < 2 or (len(operators) != 1 and not of_operator):
        return [whole]
    requested_forms = set()
    for standing in there:
        for cell in standing.cells:
            if cell.dtype == dtype:
                _, form = context.forms.get((cell.package, cell.kernel), ("", ""))
                requested_forms.add(form)
    rows = []
    for form in sorted(forms & requested_forms):
        rows.append(_make_slice(target, dtype, form, there, context))
    if _have_one_result(rows):
        return [whole]
    return rows


def _have_one_result(rows: Sequence[Slice]) -> bool:
    return len({tuple(row.good) for row in rows}) < 2


def _make_slice(
    target: str, dtype: str, form: str | None, there: Sequence[Standing], context: Context
) -> Slice:
    def belongs(cell: ObservedCell) -> bool:
        own = context.forms.get((cell.package, cell.kernel))
        # A kernel without a dtype, or one that all forms share, belongs to every row.
        other_form = form is not None and own is not None and own[1] != form
        return cell.dtype in (dtype, None) and not other_form

    by_release = group_by_key((each.toolchain, each) for each in there)
    answers = []
    good = []
    for release in sorted(by_release, key=by_version):
        answer = _judge(by_release[release], belongs)
        answers.append((short(release), answer))
        if answer == "good":
            good.append(KnownGood(release, _find_torch(release, context), (target,), 0))
    pair, newest = None, None
    for best in prefer_unadvised(good, target, context)[-1:]:
        newest = best.toolchain
        if best.triton:
            pair = (next(reversed(best.torch), None), best.triton)
    return Slice(target, dtype, form, tuple(answers), pair, newest)


def _find_torch(release: str, context: Context) -> tuple[str, ...]:
    name, version = split(release)
    if name != TRITON or "+" in version:
        return ()
    return tuple(sorted(context.torch_for(version), key=by_version))


def _judge(standings: Sequence[Standing], belongs: Callable[[ObservedCell], bool]) -> str:
    cells: list[ObservedCell] = []
    is_partial = False
    for standing in standings:
        if any(map(belongs, standing.failing)):
            return "fails"
        is_partial = is_partial or standing.is_partial
        cells += filter(belongs, standing.cells)
    if is_partial:
        return "partial"
    if all(cell.verdict is Verdict.SKIPPED for cell in cells):
        return "skipped"
    if compile_all(cells):
        return "good"
    return "unknown"
