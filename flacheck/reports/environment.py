"""The report of `flacheck check`."""

from __future__ import annotations

from collections.abc import Iterator

from flacheck.capabilities.check.document import Checked, CheckedPackage
from flacheck.evidence.analysis.order import kernel_name, short
from flacheck.reports import answer as answers
from flacheck.reports.document import Heading, Item, Part, Report, Table, Tone, Words, row

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
    rows.append(row("GPU", result.gpu or "none found", result.target or "name one with --target"))
    if result.driver:
        rows.append(row("driver", result.driver))
    yield Table(("", "", ""), tuple(rows))
    if result.packages:
        yield Heading("Packages")
        headings = ("package", "standing", "kernels", "configurations", "fails")
        yield Table(headings, tuple(map(_package, result.packages)))
    for package in result.packages:
        yield from _failures(package)
    if result.machine:
        yield Heading("Machine")
    for check in result.machine:
        tone = Tone.PLAIN if check.ok else Tone.DOUBT
        notes = () if check.ok else (check.remedy,)
        yield Item(f"{check.name}: {check.detail}", tone, notes)
    yield from answers.next_commands(result)


def _package(package: CheckedPackage) -> tuple[Words, ...]:
    if package.standing is None:
        return row(package.about, Words("no record", Tone.DOUBT))
    state = Words(package.standing.value, _TONES.get(package.standing.value, Tone.DOUBT))
    deciding = sum(failure.decides for failure in package.failures)
    fails = str(deciding or "–")
    if len(package.failures) > deciding:
        fails += f", and {len(package.failures) - deciding} that models do not meet"
    return row(package.about, state, str(package.kernels), str(package.configurations), fails)


def _failures(package: CheckedPackage) -> Iterator[Part]:
    """Yield the failing operators with their kernels, and the advisories."""
    if package.failures:
        yield Heading(f"{package.about}: failures")
    for failure in package.failures:
        text = f"{failure.operator}: {failure.code}, since Triton {short(failure.since)}"
        tone = Tone.BAD if failure.decides else Tone.FAINT
        yield Item(text, tone, notes=(kernel_name(failure.kernel),))
    if package.advisories:
        yield Heading(f"{package.about}: advisories")
    for advisory in package.advisories:
        yield Item(advisory, Tone.DOUBT)
