"""A package's operators in a report: the sentence that leads it, and the table by release."""

from collections.abc import Iterator, Sequence

from flacheck.evidence.analysis.operators import OperatorStanding
from flacheck.evidence.analysis.order import by_version, count_noun, short, some
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standing_state import StandingState
from flacheck.evidence.analysis.summary import Summary
from flacheck.reports import document, phrases
from flacheck.reports.document import Part, Tone, Words, row

# The number of failing operators that a sentence names.
_MOST_NAMED = 3
_TONES = {
    StandingState.GOOD: Tone.GOOD,
    StandingState.SCREENED: Tone.DOUBT,
    StandingState.BAD: Tone.BAD,
    StandingState.NO_RECORD: Tone.FAINT,
}


def sentence(summary: Summary) -> str:
    """Return the operators under the newest release and the newest known good one.

    `3.7.1 on sm90: 62 of 63 operators good in all configurations; parallax fails with K=256, FC501`
    """
    by_release = phrases.group_by(_with_operators(summary), lambda each: each.toolchain)
    releases = sorted(by_release, key=by_version)
    good = [name for name in releases if all(each.is_passing for each in by_release[name])]
    clauses = []
    for toolchain in dict.fromkeys((*releases[-1:], *good[-1:])):
        texts = phrases.group_by(by_release[toolchain], describe_operator)
        for text, standings in texts.items():
            targets = ", ".join(each.target for each in standings)
            clauses.append(f"{short(toolchain)} on {targets}: {text}")
    if not clauses:
        return ""
    return f"{'. '.join(clauses)}."


def table(summary: Summary) -> Iterator[Part]:
    """Yield the operators that some release does not compile, by release."""
    by_targets = phrases.group_by(_with_operators(summary), lambda each: each.target)
    for target, standings in by_targets.items():
        standings = sorted(standings, key=lambda each: by_version(each.toolchain))
        names: dict[str, None] = {}
        for standing in standings:
            for each in standing.operators:
                if each.state is StandingState.BAD:
                    names[each.name] = None
        if not names:
            continue
        releases = [short(standing.toolchain) for standing in standings]
        yield document.Heading(f"Operators that fail on {target}")
        rows = []
        for name in list(names)[: phrases.MAX_ITEMS]:
            rows.append(row(name, *(_word(standing, name) for standing in standings)))
        yield document.Table(("", *releases), tuple(rows), document.Fit.SPLIT)
        yield from phrases.rest(len(names), "operator")


def _with_operators(summary: Summary) -> list[Standing]:
    return [each for each in summary.answering if each.operators and not each.is_partial]


def _word(standing: Standing, name: str) -> Words:
    """Return the codes of an operator's failures, or its state."""
    for each in standing.operators:
        if each.name == name:
            text = ", ".join(each.codes) or each.state.value
            return Words(text, _TONES[each.state])
    return Words("–", Tone.FAINT)


def describe_operator(standing: Standing) -> str:
    """Return the number of operators by state, and the failures of those that fail."""
    operators = standing.operators
    by_state = phrases.group_by(operators, lambda each: each.state)
    good_operators = by_state.get(StandingState.GOOD, [])
    screened_operators = by_state.get(StandingState.SCREENED, [])
    bad_operators = by_state.get(StandingState.BAD, [])
    not_tested = by_state.get(StandingState.NO_RECORD, [])
    total = count_noun(len(operators), "operator")
    text = f"{len(good_operators)} of {total} good in all configurations"
    if screened_operators:
        text = f"{len(screened_operators)} of {total} screened ({standing.extent_text})"
        if good_operators:
            text += f", {len(good_operators)} good in all configurations"
    parts = [text, *_failures(bad_operators)]
    if not_tested:
        parts.append(f"{len(not_tested)} not tested")
    outside = len(standing.failing) - len(_keys(bad_operators))
    if outside:
        parts.append(count_noun(outside, "failure outside of these", "failures outside of these"))
    return "; ".join(parts)


def _failures(failing: Sequence[OperatorStanding]) -> Iterator[str]:
    """Yield `parallax fails with K=256, FC501`; operators that fail alike share a part."""
    alike: dict[str, list[str]] = {}
    for each in failing:
        reason = ", ".join(each.codes)
        if each.condition:
            reason = f"with {each.condition}, {reason}"
        alike.setdefault(reason, []).append(_last_part(each.name))
    for reason, names in list(alike.items())[:_MOST_NAMED]:
        verb = "fail"
        if len(names) == 1:
            verb = "fails"
        separator = ","
        if reason.startswith("with "):
            separator = ""
        yield f"{', '.join(some(names, _MOST_NAMED))} {verb}{separator} {reason}"
    hidden = list(alike.values())[_MOST_NAMED:]
    if hidden:
        yield f"{sum(map(len, hidden))} more fail"


def _keys(failing: Sequence[OperatorStanding]) -> set[str]:
    keys: set[str] = set()
    for each in failing:
        for cell in each.failing:
            keys.add(cell.key)
    return keys


def _last_part(name: str) -> str:
    return name.rpartition(".")[2]
