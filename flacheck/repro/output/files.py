"""What a reproduction leaves: a folder of files, one of them the text of an issue."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from flacheck.analysis.slow import CODE as SLOW
from flacheck.errors import UsageError
from flacheck.model.text import code_span, fence, visible
from flacheck.repro.output.result import Reproduced
from flacheck.repro.output.script import CANNOT_TELL, DOES_NOT, SHOWS
from flacheck.repro.versions import ReleaseVerdict, listed
from flacheck.rules import RULES
from flacheck.tables import targets

SCRIPT = "repro.py"
ORIGINAL = "original.py"
ISSUE = "issue.md"
TTIR = "repro.ttir"
LOG = "log.txt"
ABOUT = "repro.json"
# The folders of an absolute path, up to its last part.
_PATH = re.compile(r"(?<![\w.])(?:/[\w.+~@-]+)+/(?=[\w.+~@<-])")
# None: the script did not run on that release.
_SAID = {SHOWS: "fails", DOES_NOT: "does not show it", CANNOT_TELL: "cannot tell", None: ""}


def contents(result: Reproduced) -> dict[str, str]:
    """Each file's text by its name."""
    texts = {
        SCRIPT: result.script,
        ORIGINAL: result.original_script,
        ISSUE: "\n".join(issue(result)) + "\n",
    }
    if result.ttir:
        texts[TTIR] = result.ttir
    texts[LOG] = nameless("\n".join(result.log)) + "\n"
    about = result.to_json([*texts, ABOUT])
    texts[ABOUT] = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
    return texts


def write(texts: Mapping[str, str], folder: Path) -> list[Path]:
    """Write files, each whole or not at all. UsageError when the folder cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # An older reproduction's IR must not stay beside a result that has none.
        if ABOUT in texts and TTIR not in texts:
            (folder / TTIR).unlink(missing_ok=True)
        for name, text in texts.items():
            partial = folder / f".{name}.{os.getpid()}"
            partial.write_text(text, encoding="utf-8")
            partial.replace(folder / name)
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written ({error.strerror}); name another folder with -o"
        ) from None
    return [folder / name for name in texts]


def nameless(text: str) -> str:
    """Text without the folders of the machine that it was made on."""
    return _PATH.sub("", text)


def issue(result: Reproduced) -> Iterator[str]:
    """The lines of issue.md."""
    version = result.cell.toolchain.partition("==")[2]
    target = targets.find(result.cell.target)
    gpu = f"{target.name} ({target.gpu})"
    yield f"# {_title(result)}, {result.cell.target}, Triton {version}"
    yield ""
    yield f"Compiling the kernel below with Triton {version} for {gpu} fails:"
    message = visible(nameless(result.record.message))
    marks = fence(message, 3)
    yield from ("", marks, *message.splitlines(), marks, "")
    yield from _releases(result)
    yield from ("", "## Reproducer", "", "It needs no GPU, only Triton:", "", "```sh")
    yield f"pip install triton=={version}"
    yield from ("python repro.py    # 0: the failure shows, 1: it does not", "```", "")
    yield f"It showed the failure in {result.runs} runs, each in a fresh process."
    marks = fence(result.script, 3)
    yield from ("", f"{marks}python", *result.script.rstrip().splitlines(), marks, "")
    if result.ttir:
        yield from ("The same failure shows when the attached `repro.ttir` is compiled.", "")
    kernel = code_span(visible(result.cell.kernel.name))
    if result.cell.kernel.package:
        kernel += f" of {result.cell.kernel.package}"
    yield (
        f"Reduced by flacheck from {kernel}: {result.original.lines} lines to "
        f"{result.reduced.lines}, {result.effort.ran} compiles."
    )


def _title(result: Reproduced) -> str:
    """What failed, and in which function of the compiler."""
    title = "The compile fails"
    rule = RULES.get(result.record.code or "")
    if rule:
        title = rule.title[0].upper() + rule.title[1:]
    function = _function(result.record.signature or ":::")
    if function:
        title += f" in {function}"
    return title


def _function(signature: str) -> str:
    """The compiler's function that a signature names, in backticks; else the empty string."""
    function = signature.split(":")[2].strip("-")
    return function and code_span(visible(function))


def _releases(result: Reproduced) -> Iterator[str]:
    """What each release makes of the original and of the script."""
    yield from ("## Releases", "")
    yield from ("| Triton | the original kernel | this reproducer |", "|---|---|---|")
    for release, original in result.original_table.items():
        exit_code = result.exits.get(release)
        script = _SAID.get(exit_code, "")
        if exit_code == DOES_NOT and release in result.reduced_table:
            script = _said(result.reduced_table[release], result)
        yield f"| {release.partition('==')[2]} | {_said(original, result)} | {script} |"
    if result.lost:
        yield ""
        yield (
            f"The original kernel also fails in this way on {listed(result.lost)}; "
            "the reproducer does not show it there."
        )


def _said(verdict: ReleaseVerdict, result: Reproduced) -> str:
    """A release's verdict as a table shows it."""
    if verdict.compiles and result.record.code == SLOW:
        return f"compiles in {verdict.seconds:.1f} s"
    if verdict.signature is None:
        return verdict.verdict.value
    if verdict.signature == result.record.signature:
        return "fails"
    cause = [verdict.signature.split(":")[0], _function(verdict.signature)]
    return f"fails differently ({', '.join(filter(None, cause))})"
