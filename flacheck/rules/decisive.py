"""The lines of a compiler's output that say what went wrong, the cause before its wrappers.

What a compiler says last is often a wrapper (`PassManager::run failed`); the line that names the
cause stands above it. Native messages come before Python exceptions, and inner exceptions before
outer ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from flacheck.model import MESSAGE_LIMIT
from flacheck.rules.signature import normalise

# What launchers put in front of a line: ranks, pytest's E, quotation, glog, vLLM's and containers'
# logs.
_PREFIX = re.compile(
    r"^(?:\[rank\d+\]:[ ]?|E[ ]{3,}|>[ ]|[EWI]\d{4}[ ][\d:.]+[ ]+\d+[ ]\S+\][ ]?"
    r"|(?:\([^()\n]*pid=\d+\)[ ])?(?:ERROR|WARNING|INFO)[ ]\d\d-\d\d[ ][\d:]+[ ]\[[^\]\n]+\][ ]?"
    r"|\d{4}-\d\d-\d\dT[\d:.+-]+Z?[ ]std(?:err|out)[ ]F[ ]?)"
    r"|\x1b\[[0-9;]*[A-Za-z]|\r$",
    re.MULTILINE,
)
# Operations of a module dump: most of a long log, and no line of them is a message.
_DUMP = re.compile(
    r"^ +(?:%[\w:]+ = |(?:tt|ttg|ttng|triton_\w+|scf|cf|arith|llvm|nvvm|gpu)\.\w).*$", re.MULTILINE
)
# Twice the longest message: the patterns need not be linear in a line of megabytes.
_ENDLESS = re.compile(rf"^(.{{{2 * MESSAGE_LIMIT}}}).+$", re.MULTILINE)
_NATIVE = re.compile(
    r"Assertion [`'(]|LLVM ERROR:|UNREACHABLE executed|^Unsupported conversion from|what\(\):|std::bad_alloc"
    r"|^Fatal Python error:|\bSegmentation fault\b|^Killed$|Bad machine code|is not a recognized processor"
    r"|Failures have been detected while processing|Pipeline failed while executing|^Triton Error \["
    r"|\b(?:ptxas|nvlink|cicc|cudafe\+\+|nvcc|ld\.lld)[^\n]*?\b(?:error|fatal)\b\s*:"
    r"|(?:^|[:)\]] )(?:(?:catastrophic |fatal |internal )?error)(?: #\S+)?: |^ERROR: |^\s*(?:cause: |[×╰─▶ ]+)Because "
)
_WRAPPER = re.compile(
    r"PassManager::run failed|Failures have been detected while processing|Pipeline failed while executing"
    r"|Internal Triton PTX codegen error|Ptx assembly aborted due to errors|CalledProcessError"
    r"|No solution found when resolving dependencies|errors? detected in the compilation"
)
_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*"
    r"(?P<type>[A-Z]\w*(?:Error(?:Impl)?|Exception|Exit|Interrupt|Resources|Failure|Expired|Iteration))"
    r"(?:: ?(?P<text>.*)|\(['\"].*\)?)?$"
)
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line \d+, in (?P<function>\S+)')
_CARET = re.compile(r"^\s*[\^~]+\s*$")
_CHAIN = ("Traceback", "The above exception", "During handling")
# How far a front-end error's source excerpt may reach before its caret.
_EXCERPT_LINES = 400


@dataclass(frozen=True)
class Line:
    """A decisive line: its number from 1, its text, how near to the cause (0 is nearest)."""

    number: int
    text: str
    rank: int
    function: str = ""


def clean(log: str) -> str:
    """The log without launchers' prefixes, dumped IR and the ends of endless lines; the numbers of
    lines stay.
    """
    return _ENDLESS.sub(r"\1…", _DUMP.sub("", _PREFIX.sub("", log)))


def _compilation_error(lines: list[str], start: int) -> Iterator[Line]:
    """The message of a CompilationError stands behind the source excerpt and its caret."""
    stop = min(len(lines), start + _EXCERPT_LINES)
    caret = next((at for at in range(start + 1, stop) if _CARET.match(lines[at])), None)
    text = lines[caret + 1].strip() if caret is not None and caret + 1 < len(lines) else ""
    if caret is not None and text and not text.startswith(_CHAIN):
        yield Line(caret + 2, text, 1)


def _asserted(lines: list[str], at: int) -> str:
    """A bare `AssertionError` says nothing: the asserted source line above it does."""
    above = [line.strip() for line in lines[max(0, at - 2) : at] if not _CARET.match(line)]
    return (
        f"AssertionError: {above[-1]}"
        if above and above[-1].startswith("assert ")
        else "AssertionError"
    )


def _exception(lines: list[str], at: int, found: re.Match[str], frame: str) -> Iterator[Line]:
    if found["type"] == "CompilationError" and (found["text"] or "").startswith("at "):
        yield from _compilation_error(lines, at)
        return
    text = lines[at].strip()
    if text == "AssertionError":
        text = _asserted(lines, at)
    yield Line(at + 1, text, 2 if _WRAPPER.search(text) else 1, frame)


def _scan(lines: list[str]) -> Iterator[Line]:
    frame = ""
    for at, line in enumerate(lines):
        if found := _FRAME.match(line):
            frame = found["function"]
        elif found := _EXCEPTION.match(line):
            yield from _exception(lines, at, found, frame)
        elif _NATIVE.search(line):
            yield Line(at + 1, line.strip(), 2 if _WRAPPER.search(line) else 0)


def decisive_lines(log: str) -> list[Line]:
    """All decisive lines, cause first, each message once; wrappers only where there is nothing
    else.
    """
    found = sorted(_scan(log.splitlines()), key=lambda line: line.rank)
    causes = [line for line in found if line.rank < 2] or found
    once: dict[str, Line] = {}
    for line in causes:
        once.setdefault(normalise(line.text), line)
    return list(once.values())


def join(lines: list[str]) -> str:
    """Lines as one message of at most the model's limit, cut at the end of a line where that is
    possible.
    """
    text = "\n".join(lines)
    if len(text) <= MESSAGE_LIMIT:
        return text
    whole = text[:MESSAGE_LIMIT].rpartition("\n")[0]
    return whole or text[: MESSAGE_LIMIT - 1] + "…"


def decisive(text: str) -> str:
    """All decisive lines of a compiler's output, cause first, at most 2,000 characters; empty
    without a failure.
    """
    return join([line.text for line in decisive_lines(clean(text))])
