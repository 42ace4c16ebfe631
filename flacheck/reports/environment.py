"""The report of `flacheck check`."""

from __future__ import annotations

from collections.abc import Iterator

from flacheck.capabilities.check.document import Checked, CheckedPackage
from flacheck.evidence.analysis.order import kernel_name, short
from flacheck.reports import answer as answers
from flacheck.reports.document import (
    Heading,
    Item,
    Paragraph,
    Part,
    Report,
    Table,
    Tone,
    Words,
    row,
)

_TONES = {"good": Tone.GOOD, "screened": Tone.GOOD, "bad": Tone.BAD}


def report(result: Checked) -> Report:
    """Return an environment with its answer as a document."""
    return Report(_parts(result), result.to_json())


def _parts(result: Checked) -> Iterator[Part]:
    yield from answers.parts("flacheck check", result, f"checked: {result.source}")
    yield Heading("Environment")
    rows = []
    builds = [build for build in (result.torch, *result.tritons) if build is not None]
    for build in builds:
        rows.append(row(build.name, build.version, build.origin))
    rows.append(_gpu(result))
    if result.driver:
        rows.append(row("driver", result.driver))
    yield Table(("", "", ""), tuple(rows))
    if result.packages:
        yield Heading("Packages")
        headings = ("package", "standing", "kernels", "configurations", "fails")
        yield Table(headings, tuple(map(_package, result.packages)))
        yield from _speed(result)
    for package in result.packages:
        yield from _failures(package)
    if result.machine:
        yield Heading("Machine")
    for check in result.machine:
        tone = Tone.PLAIN if check.ok else Tone.DOUBT
        notes = () if check.ok else (check.remedy,)
        yield Item(f"{check.name}: {check.detail}", tone, notes)
    yield from answers.next_commands(result)


def _gpu(result: Checked) -> tuple[Words, ...]:
    if result.gpu is None and result.target is None:
        return row("GPU", "none found", "name one with --target")
    return row("GPU", result.gpu or "named", result.target or "unknown to flacheck")


def _speed(result: Checked) -> Iterator[Part]:
    """Yield what is slower on measured GPUs, and the packages that were not measured."""
    place = result.gpu or result.target
    unknown = [each.about for each in result.packages if not each.measured_on]
    if unknown and place:
        yield Paragraph(f"Speed on {place}: not measured for {', '.join(unknown)}", Tone.FAINT)
    for package in result.packages:
        for each in package.slower:
            text = f"{each.operator}: {each.ratio:.2f} times as slow as under Triton "
            text += f"{short(each.beside)} on {each.card}, since {short(each.since)}"
            yield Item(text, Tone.DOUBT, notes=(package.about,))


def _package(package: CheckedPackage) -> tuple[Words, ...]:
    if package.standing is None:
        return row(package.about, Words("no record", Tone.DOUBT))
    state = Words(package.standing.value, _TONES.get(package.standing.value, Tone.DOUBT))
    fails = str(len(package.failures) or "–")
    return row(package.about, state, str(package.kernels), str(package.configurations), fails)


def _failures(package: CheckedPackage) -> Iterator[Part]:
    """Yield the failing operators with their kernels, and the advisories."""
    if package.failures:
        yield Heading(f"{package.about}: failures")
    for failure in package.failures:
        text = f"{failure.operator}: {failure.code}, since Triton {short(failure.since)}"
        text += "" if failure.decides else "; models do not meet it"
        tone = Tone.BAD if failure.decides else Tone.FAINT
        yield Item(text, tone, notes=(kernel_name(failure.kernel),))
    if package.advisories:
        yield Heading(f"{package.about}: advisories")
    for advisory in package.advisories:
        yield Item(advisory, Tone.DOUBT)
