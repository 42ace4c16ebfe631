"""The text of an issue: what a maintainer asks for, ready to paste."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flacheck.repro.output.result import Result
from flacheck.repro.verification import CANNOT_TELL, DOES_NOT, SHOWS
from flacheck.repro.versions import Outcome, listed
from flacheck.rules import RULES
from flacheck.tables import targets

_PATH = re.compile(r"(?<![\w.])(?:/[\w.+~@-]+)+/(?=[\w.+~@<-])")
_WORDS = {SHOWS: "fails", DOES_NOT: "does not show it", CANNOT_TELL: "cannot tell"}


def nameless(text: str) -> str:
    """Text without the folders of the machine that it was made on."""
    return _PATH.sub("", text)


def issue(result: Result) -> Iterator[str]:
    """The lines of issue.md."""
    version = result.cell.toolchain.partition("==")[2]
    row = targets.find(result.cell.target)
    yield f"# {_title(result)}"
    yield ""
    yield f"Compiling the kernel below with Triton {version} for {row.name} ({row.gpu}) fails:"
    yield from ("", "```", *nameless(result.record.message).splitlines(), "```", "")
    yield from _releases(result)
    yield from ("", "## Reproducer", "", "It needs no GPU, only Triton:", "", "```sh")
    yield from (
        f"pip install triton=={version}",
        "python repro.py    # 0: the failure shows, 1: it does not",
        "```",
        "",
    )
    yield f"It showed the failure in {result.runs} runs, each in a fresh process."
    yield from ("", "```python", *result.script.rstrip().splitlines(), "```", "")
    if result.ttir:
        yield from ("The same failure shows when the attached `repro.ttir` is compiled.", "")
    yield _origin(result)


def _title(result: Result) -> str:
    rule = RULES.get(result.record.code or "")
    what = rule.title if rule else "the compile fails"
    function = (result.record.signature or ":::").split(":")[2].strip("-")
    where = f" in `{function}`" if function else ""
    return f"{what[0].upper()}{what[1:]}{where}, {result.cell.target}, Triton {result.cell.toolchain.partition('==')[2]}"


def _releases(result: Result) -> Iterator[str]:
    yield from (
        "## Releases",
        "",
        "| Triton | the original kernel | this reproducer |",
        "|---|---|---|",
    )
    for name, outcome in result.original_table.items():
        exit_code = result.exits.get(name)
        script = _WORDS.get(exit_code, "") if exit_code is not None else ""
        reduced = result.reduced_table.get(name)
        if exit_code == DOES_NOT and reduced is not None:
            script = _worded(reduced, result)
        yield f"| {name.partition('==')[2]} | {_worded(outcome, result)} | {script} |"
    if result.lost:
        yield from (
            "",
            f"Not shown by the reproducer, though the original fails so there: {listed(result.lost)}.",
        )


def _worded(outcome: Outcome, result: Result) -> str:
    if outcome.compiles and result.record.code == "FC921":
        return f"compiles in {outcome.seconds:.1f} s"
    if outcome.signature is None:
        return outcome.verdict.value
    if outcome.signature == result.record.signature:
        return "fails"
    function = outcome.signature.split(":")[2].strip("-")
    return f"fails otherwise ({outcome.signature.split(':')[0]}{', `' + function + '`' if function else ''})"


def _origin(result: Result) -> str:
    kernel, package = result.cell.kernel, result.cell.kernel.package
    of = f" of {package}" if package else ""
    before, after = result.original, result.reduced
    return (
        f"Reduced by flacheck from `{kernel.name}`{of}: {before.lines} lines to {after.lines}, "
        f"{result.tally.ran} compiles."
    )
