"""The report of a comparison: the answer, what got worse, what got better, and what to do."""

from collections.abc import Iterable, Iterator, Sequence

from flacheck.analysis.known_good import group_by_key
from flacheck.analysis.order import count_noun, kernel_name, parameters, settings, some
from flacheck.capabilities.diff.compared_side import ComparedSide
from flacheck.capabilities.diff.differences import Difference, DifferenceKind, Grown
from flacheck.capabilities.diff.result import Comparison
from flacheck.model import Record, Verdict
from flacheck.reports import document, phrases
from flacheck.reports.document import Part, Tone, Words, row
from flacheck.reports.numbers import in_words
from flacheck.reports.phrases import SHOWN
from flacheck.rules import RULES
from flacheck.tables.advisories import Advisory

# Characters of a compiler's message in a table.
_MESSAGE = 100
# GitHub shows ten annotations of a kind.
_ANNOTATIONS = 10
_RESOURCES = {
    "spills": "bytes of spills",
    "registers": "registers",
    "shared": "bytes shared",
    "stack": "bytes of stack",
}


def report(result: Comparison, command: str = "") -> document.Report:
    """The comparison as a document; `command` is what was typed, for the next commands."""
    return document.Report(
        _parts(result, command), in_words(result.to_json()), _annotations(result)
    )


def _parts(result: Comparison, command: str) -> Iterator[Part]:
    yield _title(result)
    yield _sides(result)
    yield from _failing("Regressed", result.of(DifferenceKind.REGRESSED), Tone.BAD)
    yield from _failing("Other cause", result.of(DifferenceKind.CHANGED_CAUSE), Tone.DOUBT)
    yield from _one_sided(
        f"Only under {result.before.release}", result.of(DifferenceKind.ONLY_FROM)
    )
    yield from _mended(result)
    yield from _slower(result)
    yield from _more(result)
    yield from _reasons("Unknown", result.of(DifferenceKind.UNKNOWN))
    yield from _reasons("Not tested", result.of(DifferenceKind.UNTESTED))
    yield from _one_sided(f"Only under {result.after.release}", result.of(DifferenceKind.ONLY_TO))
    yield from _unchanged(result)
    yield from _advisories(result)
    yield from _package(result)
    yield from _coverage(result)
    yield from _pin(result)
    yield from _fallbacks(result)
    yield from phrases.items("Next", _commands(result, command), code=True)


def _title(result: Comparison) -> document.Title:
    tone = Tone.GOOD
    if result.advisories[1] or not result.after.has_verdict:
        tone = Tone.DOUBT
    if result.is_regression:
        tone = Tone.BAD
    about = result.about
    if result.narrowed:
        about += " · one configuration of each kernel and dtype (--configs own compares all)"
    if result.run:
        about += f" · run {result.run}"
    return document.Title("flacheck diff", f"{result.answer}.", tone, about)


def _sides(result: Comparison) -> Part:
    rows = [
        _side(result, "from", result.before, result.advisories[0]),
        _side(result, "to", result.after, result.advisories[1]),
    ]
    headings = (
        "",
        "side",
        *_names(result),
        "compile",
        "fail",
        "unknown",
        "skipped",
        "advisories",
    )
    return document.Table(headings, tuple(rows))


def _is_of_triton(result: Comparison) -> bool:
    """Whether a compiler is Triton, or nobody knows; to another one no torch belongs."""
    known = [side.toolchain for side in (result.before, result.after) if side.toolchain]
    return not known or any(each.triton for each in (result.before, result.after))


def _names(result: Comparison) -> tuple[str, ...]:
    if _is_of_triton(result):
        return "Triton", "torch"
    return ("compiler",)


def _side(
    result: Comparison, place: str, side: ComparedSide, advisories: Sequence[Advisory]
) -> tuple[document.Words, ...]:
    counts = [str(side.verdicts.get(verdict, 0)) for verdict in Verdict]
    names = [side.toolchain or "–"]
    if _is_of_triton(result):
        names = [side.triton or "–", side.torch or ", ".join(side.torch_for) or "–"]
    advised = Words("none")
    if advisories:
        advised = Words(str(len(advisories)), Tone.DOUBT)
    return row(place, side.text, *names, *counts, advised)


def _failing(heading: str, changes: Sequence[Difference], tone: Tone) -> Iterator[Part]:
    """Failures by cause, each with its kernels."""
    groups = group_by_key((_cause(change), change) for change in changes)
    for place, (cause, alike) in enumerate(groups.items()):
        if not place:
            yield document.Heading(heading)
        if place == SHOWN:
            break
        named = tuple(_where(change) for change in alike[:SHOWN])
        more = phrases.omitted(len(alike), "cell")
        yield document.Item(cause, tone, notes=(*named, *filter(None, [more])))
    yield from phrases.rest(len(groups), "cause")


def _cause(change: Difference) -> str:
    """What TO says, after what FROM said where that failed, too."""
    after = _outcome(change.pair.after)
    before = change.pair.before
    if before is None or before.verdict is Verdict.COMPILES:
        cause = after
    else:
        cause = f"{_outcome(before)} → {after}"
    if change.waived:
        cause += " (waived)"
    return cause


def _outcome(record: Record | None) -> str:
    if record is None:
        return "nothing"
    if record.verdict is Verdict.FAILS:
        title = RULES[record.code].title if record.code in RULES else ""
        line = _cut(record.message.partition("\n")[0])
        return " ".join(filter(None, (record.code, f"{title}:" if title else "", line)))
    return phrases.beside(record.verdict.value, record.reason)


def _cut(text: str) -> str:
    if len(text) <= _MESSAGE:
        return text
    return f"{text[: _MESSAGE - 1].rstrip()}…"


def _where(change: Difference) -> str:
    record = change.record
    said = (
        kernel_name(record.kernel),
        parameters(record.cell),
        record.dtype,
        record.target,
        settings(record.options),
    )
    cell = " · ".join(filter(None, said))
    if not change.pair.exact:
        cell += " · best of each side"
    return f"{cell} · {record.key[:12]}"


def _mended(result: Comparison) -> Iterator[Part]:
    changes = result.of(DifferenceKind.MENDED)
    groups = group_by_key((_outcome(change.pair.before), change) for change in changes)
    lines = (f"{_kernels(alike)}: was {cause}" for cause, alike in list(groups.items())[:SHOWN])
    yield from phrases.items("Mended", lines, Tone.GOOD)
    yield from phrases.rest(len(groups), "cause")


def _kernels(changes: Iterable[Difference]) -> str:
    """Kernels with their dtypes: `chunk_fwd_o (bf16, fp16), chunk_fwd_h (bf16)`."""
    dtypes = group_by_key((change.kernel, change.record.dtype) for change in changes)
    named = [
        phrases.beside(kernel_name(kernel), ", ".join(dict.fromkeys(filter(None, own))))
        for kernel, own in dtypes.items()
    ]
    return ", ".join(some(named, phrases.NAMED, "{} more kernels"))


def _one_sided(heading: str, changes: Sequence[Difference]) -> Iterator[Part]:
    yield from _reasons(heading, changes)


def _reasons(heading: str, changes: Sequence[Difference]) -> Iterator[Part]:
    """Kernels by the reason why there is nothing to compare."""
    groups = group_by_key((change.reason or "no reason recorded", change) for change in changes)
    for place, (reason, alike) in enumerate(list(groups.items())[:SHOWN]):
        if not place:
            yield document.Heading(heading)
        yield document.Item(f"{count_noun(len(alike), 'cell')}: {reason}", notes=(_kernels(alike),))
    yield from phrases.rest(len(groups), "reason")


def _slower(result: Comparison) -> Iterator[Part]:
    slower = result.slower
    lines = []
    for change in slower[:SHOWN]:
        before, after = change.pair.before, change.pair.after
        assert before is not None and after is not None
        took = f"{before.seconds:.1f} s → {after.seconds:.1f} s"
        lines.append(f"{took}: {_where(change)}")
    yield from phrases.items("Slower to compile", lines, Tone.DOUBT)
    yield from phrases.rest(len(slower), "slower compile")


def _more(result: Comparison) -> Iterator[Part]:
    changes = result.more_resources
    if not changes:
        return
    yield document.Heading("More spills, registers or shared memory")
    rows = []
    for change in changes[:SHOWN]:
        record = change.record
        takes = "\n".join(_takes_more(change))
        name = f"{kernel_name(record.kernel)} {parameters(record.cell)}".strip()
        rows.append(row(name, record.dtype or "–", record.target, takes))
    yield document.Table(("kernel", "dtype", "target", "takes more"), tuple(rows))
    yield from phrases.rest(len(changes), "kernel")


def _takes_more(change: Difference) -> list[str]:
    """What a kernel takes more of, and which functions of a unit do."""
    texts = _taken(change.more or {})
    functions = list(change.functions.items())
    # Of a unit with one function the line of the whole says it already.
    if len(change.record.resources.get("functions", ())) == 1:
        only = {**dict(*change.functions.values()), **(change.more or {})}
        return _taken(only)
    texts += [f"{name}: {', '.join(_taken(more))}" for name, more in functions[:SHOWN]]
    if len(functions) > SHOWN:
        texts.append(f"and {count_noun(len(functions) - SHOWN, 'more function')}")
    return texts


def _taken(grown: Grown) -> list[str]:
    """`0 → 88 bytes of spills`, spills first."""
    ordered = sorted(grown.items(), key=lambda each: each[0] != "spills")
    return [f"{old} → {new} {_RESOURCES[name]}" for name, (old, new) in ordered]


def _unchanged(result: Comparison) -> Iterator[Part]:
    failing = [change for change in result.unchanged if change.record.verdict is Verdict.FAILS]
    same = len(result.unchanged) - len(failing)
    verb = "compile"
    if same == 1:
        verb = "compiles"
    if same:
        said = f"Unchanged: {count_noun(same, 'cell')} that {verb} on both sides"
        yield document.Paragraph(said, Tone.FAINT)
    skipped = group_by_key(
        (change.reason, change) for change in result.unchanged if change.pair.note
    )
    lines = (f"{_kernels(alike)}: {reason}" for reason, alike in skipped.items())
    yield from phrases.items("Skipped by the autotuner", lines, Tone.FAINT)
    groups = group_by_key((_outcome(change.pair.after), change) for change in failing)
    lines = (f"{_kernels(alike)}: {cause}" for cause, alike in list(groups.items())[:SHOWN])
    yield from phrases.items("Fails on both sides", lines, Tone.FAINT)
    yield from phrases.rest(len(groups), "cause")


def _advisories(result: Comparison) -> Iterator[Part]:
    """Each advisory once, with the sides that it speaks against."""
    sides = group_by_key(
        (advisory.text, side.release)
        for side, advisories in zip((result.before, result.after), result.advisories)
        for advisory in advisories
    )
    lines = (f"{' and '.join(dict.fromkeys(told))}: {text}" for text, told in sides.items())
    yield from phrases.items("Advisories", lines, Tone.DOUBT)


def _package(result: Comparison) -> Iterator[Part]:
    """What the package says, and under which of the two releases."""
    lines = []
    for word in result.package[:SHOWN]:
        if word.kind == "requires":
            lines.append(_requirement(result, word.text, (word.under_from, word.under_to)))
        else:
            sides = _said_under(result, (word.under_from, word.under_to))
            lines.append(f"{word.kind} under {sides}: {word.text}")
    yield from phrases.items("The package itself", lines)
    yield from phrases.rest(len(result.package), "line")


def _requirement(result: Comparison, text: str, lacking: tuple[bool, bool]) -> str:
    if not any(lacking):
        return f"{text}: both sides satisfy it"
    return f"{text}: {_said_under(result, lacking)} does not satisfy it"


def _said_under(result: Comparison, under: tuple[bool, bool]) -> str:
    sides = (result.before.release, result.after.release)
    return " and ".join(side for side, holds in zip(sides, under) if holds)


def _coverage(result: Comparison) -> Iterator[Part]:
    lines = []
    for covered in result.coverage:
        recorded = f"{covered['recorded']} of {covered['launchable']} launchable kernels recorded"
        lines.append(f"{covered['toolchain']}: {recorded} in {covered['package']}")
    yield from phrases.items("Coverage", lines)


def _pin(result: Comparison) -> Iterator[Part]:
    pin = result.pin
    yield document.Heading("Pin")
    if pin.side == "none":
        yield document.Paragraph(pin.why, Tone.DOUBT)
        return
    for requirement in filter(None, (pin.torch, pin.triton, pin.toolchain)):
        yield document.Item(f'"{requirement}"', Tone.GOOD, code=True)
    yield document.Paragraph(pin.why, Tone.FAINT)


def _fallbacks(result: Comparison) -> Iterator[Part]:
    lines = []
    for entry in phrases.advice(result.fallbacks)[:SHOWN]:
        uses = " or ".join(entry.uses)
        lines.append(f"{kernel_name(entry.kernel)}: use {uses}")
    yield from phrases.items(f"Fallbacks under {result.after.release}", lines, Tone.GOOD)


def _commands(result: Comparison, command: str) -> list[str]:
    """What to type next: what broke a kernel and since when, or how to look closer."""
    regressed = [change for change in result.of(DifferenceKind.REGRESSED) if change.record.launch]
    commands = []
    for change in regressed[:1]:
        code = change.record.code
        if code:
            commands.append(f"flacheck explain {code}")
        commands.append(f"flacheck bisect {change.record.key[:12]}")
    if result.narrowed and command and not regressed:
        commands.append(f"{command} --configs own")
    pin = result.pin
    wanted = pin.torch or pin.triton
    # No requirement names a local build, or a compiler that is no package of the environment.
    if wanted and pin.side in ("to", "other"):
        commands.append(f'pip install "{wanted}"')
    return commands


def _annotations(result: Comparison) -> Iterator[document.Annotation]:
    """Regressions as errors, advisories against TO as warnings, and the answer."""
    for change in result.of(DifferenceKind.REGRESSED)[:_ANNOTATIONS]:
        level = "error"
        if change.waived:
            level = "notice"
        yield document.Annotation(level, f"regressed: {_where(change)}", _cause(change))
    for advisory in result.advisories[1][:_ANNOTATIONS]:
        yield document.Annotation("warning", f"advisory {advisory.id}", advisory.text)
    yield document.Annotation("notice", "flacheck diff", result.answer)
