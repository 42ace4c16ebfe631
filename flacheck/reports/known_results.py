"""The reports of `flacheck known` and `flacheck results verify`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain

from flacheck.capabilities.known_results.document import Known, KnownPair, KnownPlace
from flacheck.capabilities.results.verifying import Verification
from flacheck.evidence.analysis.compiled_sizes import join_sizes
from flacheck.evidence.analysis.order import (
    by_target,
    by_version,
    count_noun,
    kernel_name,
    short,
    some,
)
from flacheck.evidence.analysis.standing_state import Share, StandingState
from flacheck.reports import answer as answers
from flacheck.reports import phrases
from flacheck.reports.document import (
    Heading,
    Item,
    Listing,
    Paragraph,
    Part,
    Report,
    Table,
    Title,
    Tone,
    Words,
    row,
)
from flacheck.rules import RULES

_TONES = {
    "good": Tone.GOOD,
    "screened": Tone.GOOD,
    "bad": Tone.BAD,
    "partial": Tone.DOUBT,
    "no-record": Tone.DOUBT,
}
# Kernels, causes and gaps that a table or list names before it counts the rest.
_MOST_KERNELS, _MOST_CAUSES, _MOST_GAPS = 4, 12, 12


def report(answer: Known) -> Report:
    """Return what is published about a package as a document."""
    return Report(_parts(answer), answer.to_json(), pins=_pins(answer))


def _pins(answer: Known) -> Iterator[tuple[str, str]]:
    for pin in answer.pins:
        for requirement in filter(None, (pin.torch, pin.triton)):
            yield f"{pin.about} on {pin.target}", requirement


def _parts(answer: Known) -> Iterator[Part]:
    subject = [*(each.about for each in answer.places), *(each.about for each in answer.not_built)][
        -1
    ]
    option = "--package " if "==" in subject else ""
    about = f"flacheck scan {option}{subject} compiles here"
    yield from answers.parts("flacheck known", answer, _origin(answer) + about)
    for place in answer.places:
        if place.reason:
            yield Paragraph(
                f"{place.about}: differs from the installed package: {place.reason}", Tone.DOUBT
            )
            break
    yield from _older(answer)
    for about in dict.fromkeys(place.about for place in answer.places):
        own = [place for place in answer.places if place.about == about]
        configs = dict.fromkeys(place.configs for place in own)
        yield Heading(f"{about} --configs {'; '.join(configs)}")
        sizes = phrases.name_sizes(join_sizes(place.sizes for place in own))
        if sizes:
            yield Paragraph(sizes)
        yield _grid(own)
        yield from _causes(own)
        yield from _untested(own)
        yield from phrases.measured(chain.from_iterable(each.measured for each in own))
    yield from phrases.list_package_failures(answer.package_failures)
    yield from _pairs(answer)
    yield from _requirements(answer)
    yield from _gaps(answer)
    yield from answers.next_commands(answer)


def _requirements(answer: Known) -> Iterator[Part]:
    lines = []
    for pin in answer.pins:
        torch = f" {pin.torch}" if pin.torch else ""
        lines.append(f"{pin.about} on {pin.target}: {pin.triton}{torch}")
    if lines:
        yield Heading("Pins")
        yield Listing("\n".join(lines))


def _origin(answer: Known) -> str:
    """Return the days and versions that compiled the results; empty without any."""
    if not answer.places:
        return ""
    dates = sorted({place.date for place in answer.places})
    versions = sorted({place.flacheck for place in answer.places}, key=by_version)
    return f"published results of {', '.join(dates)}, flacheck {', '.join(versions)}; "


def _grid(places: list[KnownPlace]) -> Table:
    """Return releases × GPUs with the number of failing kernels."""
    on = sorted({place.target for place in places}, key=by_target)
    by_place = {(place.toolchain, place.target): place for place in places}
    rows = []
    for toolchain in sorted({place.toolchain for place in places}, key=by_version):
        own = [place for place in places if place.toolchain == toolchain]
        torch = ", ".join(some(list(own[0].torch), 3)) or "–"
        cells: list[str | Words] = [short(toolchain), torch]
        for target in on:
            place = by_place.get((toolchain, target))
            cells.append(Words("not built", Tone.FAINT) if place is None else _cell(place))
        rows.append(row(*cells))
    return Table(("Triton", "torch", *on), tuple(rows))


def _cell(place: KnownPlace) -> Words:
    text = place.standing.value
    if place.failing_kernels:
        text = f"{count_noun(len(place.failing_kernels), 'kernel fails', 'kernels fail')}"
    elif place.standing is StandingState.SCREENED:
        text = f"screened, {_share(place.kernels)} kernels"
    tone = _TONES[place.standing]
    if place.advisories:
        text += "\nadvised against"
        tone = Tone.DOUBT if tone is Tone.GOOD else tone
    return Words(text, tone)


def _share(share: Share) -> str:
    return f"{share.answered} of {'?' if share.of is None else share.of}"


def _causes(places: list[KnownPlace]) -> Iterator[Part]:
    """Yield each cause once, with its releases, GPUs and kernels."""
    groups: dict[str, list[tuple[KnownPlace, str, tuple[str, ...]]]] = {}
    for place in places:
        for cause in place.causes:
            title = RULES[cause.code].title if cause.code in RULES else ""
            name = f"{cause.code} {title}: {cause.line}".replace(" : ", " ")
            groups.setdefault(name, []).append((place, cause.signature, tuple(cause.kernels)))
    if groups:
        yield Heading("Failures")
    for name, own in list(groups.items())[:_MOST_CAUSES]:
        releases = dict.fromkeys(short(place.toolchain) for place, *_ in own)
        on = dict.fromkeys(place.target for place, *_ in own)
        kernels = dict.fromkeys(kernel_name(each) for *_, names in own for each in names)
        notes = (
            f"Triton {', '.join(releases)} on {', '.join(on)}",
            ", ".join(some(list(kernels), _MOST_KERNELS)),
        )
        yield Item(name[:300], Tone.BAD, notes=notes)
    if len(groups) > _MOST_CAUSES:
        yield Paragraph(f"and {len(groups) - _MOST_CAUSES} more causes (--format json)", Tone.FAINT)


def _older(answer: Known) -> Iterator[Part]:
    """Yield the sentence on answers whose launches are older than a capture's."""
    older = [place for place in answer.places if place.older_launches]
    if not older:
        return
    abouts = list(dict.fromkeys(place.about for place in older))
    number = count_noun(len(older), "pair", "pairs")
    yield Paragraph(
        f"{number} of release and GPU of {' and '.join(some(abouts, _MOST_KERNELS))} hold for the "
        "launches of an older flacheck, with fewer sizes of each kernel: flacheck scan --package "
        f"{abouts[-1]} compiles those of today",
        Tone.DOUBT,
    )


def _untested(places: list[KnownPlace]) -> Iterator[Part]:
    """Yield the kernels that are untested, by their releases and GPUs."""
    by_kernels = phrases.group_by(places, lambda place: place.untested_kernels)
    by_kernels.pop((), None)
    lines = []
    for kernels, own in by_kernels.items():
        names = ", ".join(some(list(map(kernel_name, kernels)), _MOST_KERNELS, "and {} others"))
        lines.append(f"{phrases.places_of(own)}: {names}")
    yield from phrases.items("Not tested", lines, Tone.FAINT)


def _pairs(answer: Known) -> Iterator[Part]:
    if not answer.known_good:
        return
    yield Heading("Good and screened")
    for pair in answer.known_good:
        yield Item(_pair(pair), Tone.GOOD if pair.standing == "good" else Tone.PLAIN)


def _pair(pair: KnownPair) -> str:
    torch = f" (torch {', '.join(pair.torch)})" if pair.torch else ""
    text = f"{pair.about} with Triton {short(pair.toolchain)}{torch} on {', '.join(pair.targets)}"
    text += f": {pair.standing}"
    if pair.standing == "screened":
        configurations = f"{_share(pair.configurations)} configurations"
        text += f", {configurations}, {_share(pair.kernels)} kernels"
    if pair.advisories:
        text += f"; advised against ({len(pair.advisories)})"
    return text


def _gaps(answer: Known) -> Iterator[Part]:
    if not answer.not_built:
        return
    yield Heading("Not built")
    for gap in answer.not_built[:_MOST_GAPS]:
        names = ", ".join(map(short, gap.toolchains))
        yield Item(
            f"{gap.about} --configs {gap.configs} on {gap.target}: Triton {names}", Tone.FAINT
        )
    more = len(answer.not_built) - _MOST_GAPS
    if more > 0:
        yield Paragraph(f"and {more} more (--format json)", Tone.FAINT)


def verification(outcome: Verification) -> Report:
    """Return the outcome of a verification as a document."""
    plain = {
        "cells": outcome.cells,
        "files": list(outcome.files),
        "broken": [asdict(each) for each in outcome.broken],
        "notes": list(outcome.notes),
    }
    return Report(_verification_parts(outcome), plain)


def _verification_parts(outcome: Verification) -> Iterator[Part]:
    tone = Tone.BAD if outcome.broken else Tone.GOOD
    cells = count_noun(outcome.cells, "cell")
    broken_cells = {(each.file, each.kernel) for each in outcome.broken}
    text = f"{cells} of {count_noun(len(outcome.files), 'file')} compiled again: "
    if outcome.broken:
        text += count_noun(len(broken_cells), "published result does", "published results do")
        text += " not hold"
    else:
        text += "every published result holds"
    yield Title("flacheck results verify", f"{text}.", tone)
    for each in outcome.broken:
        where = f"{each.file} {each.kernel}".strip()
        yield Item(where, Tone.BAD, notes=(f"{each.what}: {each.published} → {each.now}",))
    for note in outcome.notes:
        yield Item(note, Tone.DOUBT)
