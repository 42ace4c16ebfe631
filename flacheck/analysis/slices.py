"""dtype by release: where the dtypes, or the forms, of a question have different answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from flacheck.analysis.context import Context
from flacheck.analysis.known_good import TRITON, KnownGood, group_by_key, prefer_unadvised
from flacheck.analysis.observation import ObservedCell
from flacheck.analysis.order import by_target, by_version, short, split
from flacheck.analysis.standing import Standing, is_good
from flacheck.model import Json, Verdict

# The order in which people name them; others follow by name.
_DTYPES = ("fp16", "bf16", "fp32")


@dataclass(frozen=True)
class Slice:
    """One dtype of a question, or one form of its operators in that dtype, on one target.

    `answers` says for each release of a compiler, oldest first, how that part of the question
    stands: `good`, `fails`, `partial`, `unknown` or `skipped`. `newest` is the newest good one from
    an index; `pair` of Triton the (torch, Triton) to pin, torch None where no torch pins that
    Triton. None where no release is good.
    """

    target: str
    dtype: str
    form: str | None
    answers: tuple[tuple[str, str], ...]
    pair: tuple[str | None, str] | None
    newest: str | None = None

    @property
    def good(self) -> list[str]:
        return [release for release, answer in self.answers if answer == "good"]

    def to_json(self) -> Json:
        pin = None
        if self.pair:
            pin = dict(zip(("torch", "triton"), self.pair))
        return {
            "target": self.target,
            "dtype": self.dtype,
            "form": self.form,
            "releases": dict(self.answers),
            "pin": pin,
        }


def slices(standings: Sequence[Standing], context: Context) -> Iterator[Slice]:
    """The dtypes of each target, split by form where the forms of a dtype differ; nothing where all
    have the same answer."""
    by_place = group_by_key(((each.target, split(each.toolchain)[0]), each) for each in standings)
    for target, name in sorted(by_place, key=lambda place: (by_target(place[0]), place[1])):
        there = by_place[target, name]
        dtypes = {cell.dtype for each in there for cell in each.cells if cell.dtype}
        rows: list[Slice] = []
        for dtype in sorted(dtypes, key=_by_dtype):
            rows += _of_dtype(target, dtype, there, context)
        if len({tuple(row.good) for row in rows}) > 1:
            yield from rows


def _by_dtype(dtype: str) -> tuple[int, str]:
    if dtype in _DTYPES:
        return _DTYPES.index(dtype), dtype
    return len(_DTYPES), dtype


def _of_dtype(target: str, dtype: str, there: Sequence[Standing], context: Context) -> list[Slice]:
    """One row for the dtype, or one for each form where they differ."""
    whole = _slice(target, dtype, None, there, context)
    operators = {form[0] for form in context.forms.values()}
    forms = sorted({form for _, form in context.forms.values()})
    of_operator = all("ops" in each.question.selection for each in there)
    # Forms are alternatives of one operator; those of several operators are no choice. What --op
    # chose is one operator, in whatever modules its kernels stand.
    if len(forms) < 2 or (len(operators) != 1 and not of_operator):
        return [whole]
    asked = {
        context.forms.get((cell.package, cell.kernel), ("", ""))[1]
        for each in there
        for cell in each.cells
        if cell.dtype == dtype
    }
    rows = [_slice(target, dtype, form, there, context) for form in forms if form in asked]
    if len({tuple(row.good) for row in rows}) < 2:
        return [whole]
    return rows


def _slice(
    target: str, dtype: str, form: str | None, there: Sequence[Standing], context: Context
) -> Slice:
    def belongs(cell: ObservedCell) -> bool:
        own = context.forms.get((cell.package, cell.kernel))
        # A kernel without a dtype, or that all forms share, is part of every row.
        other_form = form is not None and own is not None and own[1] != form
        return cell.dtype in (dtype, None) and not other_form

    answers = {}
    for release, asked in group_by_key((each.toolchain, each) for each in there).items():
        answers[release] = _answer(asked, belongs)
    releases = sorted(answers, key=by_version)
    good = [
        KnownGood(release, _torch(release, context), (target,), 0)
        for release in releases
        if answers[release] == "good"
    ]
    pair, newest = None, None
    for best in prefer_unadvised(good, target, context)[-1:]:
        newest = best.toolchain
        if best.triton:
            pair = (next(reversed(best.torch), None), best.triton)
    ordered = tuple((short(release), answers[release]) for release in releases)
    return Slice(target, dtype, form, ordered, pair, newest)


def _torch(release: str, context: Context) -> tuple[str, ...]:
    name, version = split(release)
    if name != TRITON or "+" in version:
        return ()
    return tuple(sorted(context.torch_for(version), key=by_version))


def _answer(asked: Sequence[Standing], belongs: Callable[[ObservedCell], bool]) -> str:
    cells = [cell for each in asked for cell in each.cells if belongs(cell)]
    failing = [cell for each in asked for cell in each.failing if belongs(cell)]
    if failing:
        return "fails"
    if any(each.is_partial for each in asked):
        return "partial"
    if all(cell.verdict is Verdict.SKIPPED for cell in cells):
        return "skipped"
    if is_good(cells):
        return "good"
    return "unknown"
