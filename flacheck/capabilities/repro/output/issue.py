"""The text of an issue in the fields of Triton's own form for bugs.

It has a minimal example, the whole error, and the environment.
"""

import platform
import re
from collections.abc import Iterator

from packaging.version import Version

from flacheck.capabilities.repro.output.blame import blame
from flacheck.capabilities.repro.output.result import Reproduced
from flacheck.capabilities.repro.output.script import CANNOT_TELL, DOES_NOT, SHOWS, kernel_text
from flacheck.capabilities.repro.output.symptom import readable_words, shorten
from flacheck.capabilities.repro.versions import ReleaseVerdict, join_versions
from flacheck.evidence.analysis.slow import CODE as SLOW
from flacheck.model.text import code_span, fence, visible
from flacheck.pipeline.measurement.wrong_results import WRONG
from flacheck.rules import is_wrapper
from flacheck.tables import targets

# The folders of an absolute path, up to its last part.
_PATH = re.compile(r"(?<![\w.])(?:/[\w.+~@-]+)+/(?=[\w.+~@<-])")
_ABOVE_TRITON = re.compile(r"(?<![\w.])(?:/[\w.+~@-]+)+/(?=triton/[\w/]+\.py)")
_SCRATCH = re.compile(r"<scratch>/?(?:cache-\d+/)?")
# The lines of a module dump, which the compiler prints when it crashes.
_MODULE = re.compile(
    r"^ *(?:%|#|module (?:attributes|@|\{)|tt\.|ttg\.|triton_|scf\.|llvm\.|\}|\{-#|// -----// |"
    r"external_resources:|mlir_reproducer:|pipeline:|disable_threading:|verify_each:)"
)
# Releases print the passes of the failing stage; these passes begin with Triton's own IR.
_PIPELINE = re.compile(r'^ *pipeline: "(.*\bconvert-triton-to-tritongpu\b.*)",?$', re.MULTILINE)
_STATUS_TEXT = {SHOWS: "fails", DOES_NOT: "does not show it", CANNOT_TELL: "cannot tell"}
_NOT_REACHED = "not reached"
# Older releases import setuptools, which environments of Python 3.12 and later lack.
_DECLARES_SETUPTOOLS = Version("3.3")
# A title is one line of a tracker's list.
_TITLE = 110
# More lines would be too long to read; the script prints all of them.
_ERROR_LINES = 60


def nameless(text: str) -> str:
    """Return text without the folders of this machine; those inside Triton stay."""
    return _PATH.sub("", _ABOVE_TRITON.sub("", _SCRATCH.sub("", text)))


def issue(result: Reproduced) -> Iterator[str]:
    """Yield the lines of issue.md."""
    version = result.cell.toolchain.partition("==")[2]
    target = targets.find(result.cell.target)
    gpu = f"{target.name} ({target.gpu})"
    is_wrong = result.record.code == WRONG
    if result.lost_neighbours:
        names = join_versions(result.lost_neighbours)
        yield f"**Unlike the original on {names}: this may be another bug.**"
        yield ""
    yield f"# {title(result)}"
    yield ""
    yield from _where(result)
    yield from ("## Describe the bug", "")
    if is_wrong:
        card = result.record.findings[0]["facts"]["card"]
        yield f"With Triton {version} this kernel computes a wrong result on a GPU ({card}):"
    else:
        yield f"Compiling this kernel with Triton {version} for {gpu} fails. No GPU is needed:"
    script = result.short_script or result.script
    marks = fence(script, 3)
    yield from ("", f"{marks}python", *script.rstrip().splitlines(), marks, "")
    if result.short_script:
        yield "The attached `repro.py` compiles the same kernel and checks the message:"
        yield ""
    yield from ("```sh", *_commands(result), "```", "")
    yield f"It showed the failure in {result.runs} runs, each in a fresh process. It prints:"
    lines = error(result)
    marks = fence("\n".join(lines), 3)
    yield from ("", marks, *lines, marks, "")
    yield from _pass(result)
    yield from _releases(result)
    yield from _changes(result)
    yield from ("## Environment details", "")
    yield f"- Triton: {version}"
    yield f"- GPU: {'' if is_wrong else 'none needed; '}compiled for {gpu}"
    yield f"- Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    yield ""
    kernel = code_span(visible(result.cell.kernel.name))
    if result.cell.kernel.package:
        kernel += f" of {result.cell.kernel.package}"
    yield (
        f"Reduced by flacheck from {kernel}: {result.original.lines} lines to "
        f"{result.reduction.lines}, {result.effort.ran} compiles."
    )


def title(result: Reproduced) -> str:
    """Return the compiler's message, its function or pass, GPU and release.

    A message that names no cause is left out where the pass is known.
    """
    message = readable_words(result.record)
    function = (result.record.signature or ":::").split(":")[2].strip("-")
    if function and function not in message:
        message += f" in {function}"
    elif result.failing_pass and is_wrapper(message):
        message = f"{result.failing_pass} fails"
    elif result.failing_pass:
        message += f" in {result.failing_pass}"
    version = result.cell.toolchain.partition("==")[2]
    return f"{visible(shorten(message, _TITLE))} ({result.cell.target}, Triton {version})"


def _where(result: Reproduced) -> Iterator[str]:
    """Yield a comment for the person who files the issue; trackers do not show it."""
    cause = blame(result.cell, result.record, kernel_text(result.reduction))
    yield f"<!-- {cause.what}. {cause.why} To be reported: {cause.where}"
    compiling = _compiling_since(result)
    if compiling:
        yield f"Newer releases that compile the original: {join_versions(compiling)}."
    yield from ("-->", "")


def _compiling_since(result: Reproduced) -> list[str]:
    """Return the newer releases since which every compiled release works, oldest first.

    Other releases may be missing because of the budget or `--releases`.
    """
    releases = list(result.original_table)
    newer = releases[releases.index(result.cell.toolchain) + 1 :]
    compiling: list[str] = []
    for release in newer:
        if result.original_table[release].compiles:
            compiling.append(release)
        else:
            compiling.clear()
    return compiling


def _commands(result: Reproduced) -> Iterator[str]:
    version = result.cell.toolchain.partition("==")[2]
    # A local build, such as "3.8.0+1a2b3c", cannot be installed by its version.
    if "+" in version:
        yield f"# in an environment with Triton {version}, a local build"
    else:
        yield f"pip install triton=={version}{_undeclared(version)}"
    yield "python repro.py                 # 0: the failure shows, 1: it does not"
    yield "python repro.py --expect-pass   # for git bisect run: 0 compiles, 1 fails so, 125 else"


def _undeclared(version: str) -> str:
    """Return the requirement that a release imports and does not declare."""
    if Version(version) < _DECLARES_SETUPTOOLS:
        return " setuptools"
    return ""


def error(result: Reproduced) -> list[str]:
    """Return the lines that the script printed, without the compiler's module dumps."""
    text = visible(nameless(result.output or result.record.message))
    lines = []
    for line in text.splitlines():
        if line.rstrip() and not _MODULE.match(line.rstrip()):
            lines.append(line.rstrip())
    if len(lines) <= _ERROR_LINES:
        return lines
    # The cause is at the beginning or at the end.
    half = _ERROR_LINES // 2
    left_out = f"[{len(lines) - 2 * half} lines left out: repro.py prints them]"
    return [*lines[:half], left_out, *lines[-half:]]


def _pass(result: Reproduced) -> Iterator[str]:
    operations = ", ".join(result.operations) or "loads and stores alone"
    if result.failing_pass:
        yield f"The compiler's last pass is `{result.failing_pass}`; operations: {operations}."
        yield ""
    if result.ttir:
        target = targets.find(result.cell.target)
        gpu = f"GPUTarget({target.backend!r}, {target.arch!r}, {target.warp_size})"
        options = dict(result.reduction.options)
        yield "The attached `repro.ttir` fails in the same way:"
        yield from (
            "",
            "```python",
            "import triton",
            "from triton.backends.compiler import GPUTarget",
        )
        yield ""
        yield f'triton.compile("repro.ttir", target={gpu}, options={options})'
        yield from ("```", "")
        pipeline = _PIPELINE.search(result.output)
        if pipeline:
            yield "For `triton-opt`, which no wheel holds, the release printed these passes:"
            yield from ("", "```sh", f"triton-opt repro.ttir --pass-pipeline='{pipeline[1]}'")
            yield from ("```", "")


def _releases(result: Reproduced) -> Iterator[str]:
    """Yield a table of each release's verdicts on the original and on the script."""
    yield from ("| Triton | the original kernel | this reproducer |", "|---|---|---|")
    for release in result.releases:
        original = _verdict_text(result.original_table.get(release), result)
        script = _script_text(release, result)
        yield f"| {release.partition('==')[2]} | {original} | {script} |"
    yield ""
    if result.lost_releases:
        yield (
            f"The original kernel also fails in this way on {join_versions(result.lost_releases)}; "
            "the reproducer does not show it there."
        )
        yield ""


def _changes(result: Reproduced) -> Iterator[str]:
    lines = result.changes
    if lines:
        yield "Against the original launch:"
        yield from ("", *(f"- {line}" for line in lines), "")


def _script_text(release: str, result: Reproduced) -> str:
    """Return the script's output on a release; the verdict if it shows another failure."""
    exit_code = result.exits.get(release)
    verdict = result.reduced_table.get(release)
    shows_elsewhere = verdict is not None and verdict.signature != result.record.signature
    if exit_code is None or (exit_code == DOES_NOT and shows_elsewhere):
        return _verdict_text(verdict, result)
    return _STATUS_TEXT.get(exit_code, "")


def _verdict_text(verdict: ReleaseVerdict | None, result: Reproduced) -> str:
    """Return a release's verdict as the table shows it."""
    if verdict is None:
        return _NOT_REACHED
    if verdict.compiles and result.record.code == SLOW:
        return f"compiles in {verdict.seconds:.1f} s"
    if verdict.signature is None:
        return verdict.verdict.value
    if verdict.signature == result.record.signature:
        return "fails"
    code, _, function, *_ = verdict.signature.split(":")
    cause = [code]
    if function != "-":
        cause.append(code_span(visible(function)))
    return f"fails differently ({', '.join(cause)})"
