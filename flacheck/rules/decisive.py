"""The lines of a compiler's output that say what went wrong, the cause before its wrappers.

What a compiler says last is often a wrapper (`PassManager::run failed`); the line that names the
cause stands above it. Native messages come before Python exceptions, and inner exceptions before
outer ones.
"""

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
# Twice the longest message: no pattern has to be linear in a line of megabytes.
_ENDLESS = re.compile(rf"^(.{{{2 * MESSAGE_LIMIT}}}).+$", re.MULTILINE)
_NATIVE = re.compile(
    r"Assertion [`'(]|LLVM ERROR:|UNREACHABLE executed|^Unsupported conversion from|what\(\):"
    r"|std::bad_alloc|^Fatal Python error:|\bSegmentation fault\b|^Killed$|Bad machine code"
    r"|is not a recognized processor|Failures have been detected while processing"
    r"|Pipeline failed while executing|^Triton Error \["
    r"|\b(?:ptxas|nvlink|cicc|cudafe\+\+|nvcc|ld\.lld)[^\n]{0,500}?\b(?:error|fatal)\b\s*:"
    r"|(?:^|[:)\]] )(?:(?:catastrophic |fatal |internal )?error)(?: #\S+)?: |^ERROR: "
    r"|^\s*(?:cause: |[×╰─▶][×╰─▶ ]*)Because |^\s* Because "
)
_WRAPPER = re.compile(
    r"PassManager::run failed|Failures have been detected while processing"
    r"|Pipeline failed while executing|Internal Triton PTX codegen error"
    r"|Ptx assembly aborted due to errors|CalledProcessError"
    r"|No solution found when resolving dependencies|errors? detected in the compilation"
)
_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*"
    r"(?P<type>[A-Z]\w*"
    r"(?:Error(?:Impl)?|Exception|Exit|Interrupt|Resources|Failure|Expired|Iteration"
    r"|LanguageConstruct))"
    r"(?:: ?(?P<text>.*)|\(['\"].*\)?)?$"
)
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line \d+, in (?P<function>\S+)')
_CARET = re.compile(r"^\s*[\^~]+\s*$")
_CHAIN = ("Traceback", "The above exception", "During handling")
# A message has room for a few dozen; in the rest of a log rules are looked for as a whole.
_MOST_LINES = 500
# Errors of the front end say where they are, and only below that what they are. A static assertion
# is the kernel's own word: its text is all that tells it from another one.
_STATIC_ASSERTION = "CompileTimeAssertionFailure"
_FRONT_END = ("CompilationError", _STATIC_ASSERTION, "UnsupportedLanguageConstruct")
# How far a front-end error's source excerpt may reach before its caret.
_EXCERPT_LINES = 400


@dataclass(frozen=True)
class Line:
    """A decisive line: its number from 1, its text, how near to the cause (0 is nearest)."""

    number: int
    text: str
    rank: int
    function: str = ""


def is_wrapper(line: str) -> bool:
    """Return True if a line reports that something failed, but not what."""
    return _WRAPPER.search(line) is not None


def clean(log: str) -> str:
    """The log without launchers' prefixes, dumped IR and the ends of endless lines; the numbers of
    lines stay."""
    return _ENDLESS.sub(r"\1…", _DUMP.sub("", _PREFIX.sub("", log)))


def _front_end_error(lines: list[str], start: int, kind: str) -> Iterator[Line]:
    """The message of a front-end error stands behind the source excerpt and its caret; of a
    static assertion without one the asserted line says most."""
    for at in range(start + 1, min(len(lines), start + _EXCERPT_LINES)):
        if not _CARET.match(lines[at]):
            continue
        text = "".join(lines[at + 1 : at + 2]).strip()
        said = text and not text.startswith(_CHAIN)
        if said and kind == _STATIC_ASSERTION:
            yield Line(at + 2, f"{kind}: {text}", 1)
        elif said:
            yield Line(at + 2, text, 1)
        elif kind == _STATIC_ASSERTION:
            yield Line(at, f"{kind}: {lines[at - 1].strip()}", 1)
        return


def _exception(lines: list[str], at: int, frame: str) -> Line:
    text = lines[at].strip()
    if text == "AssertionError":
        # It says nothing; the asserted source line above it does.
        above = [line.strip() for line in lines[max(0, at - 2) : at] if not _CARET.match(line)]
        if above and above[-1].startswith("assert "):
            text = f"AssertionError: {above[-1]}"
    rank = 1
    if is_wrapper(text):
        rank = 2
    return Line(at + 1, text, rank, frame)


def _scan(lines: list[str]) -> Iterator[Line]:
    function = ""
    for at, line in enumerate(lines):
        if frame := _FRAME.match(line):
            function = frame["function"]
        elif raised := _EXCEPTION.match(line):
            is_front_end = (raised["text"] or "").startswith("at ")
            if raised["type"] in _FRONT_END and is_front_end:
                yield from _front_end_error(lines, at, raised["type"])
            else:
                yield _exception(lines, at, function)
        elif is_wrapper(line) and _NATIVE.search(line):
            yield Line(at + 1, line.strip(), 2)
        elif _NATIVE.search(line):
            yield Line(at + 1, line.strip(), 0)


def decisive_lines(log: str) -> list[Line]:
    """All decisive lines, cause first, each message once; wrappers only where there is nothing
    else."""
    found = sorted(_scan(log.splitlines()), key=lambda line: line.rank)
    causes = [line for line in found if line.rank < 2] or found
    once: dict[str, Line] = {}
    for line in causes[:_MOST_LINES]:
        once.setdefault(normalise(line.text), line)
    return list(once.values())


def join(lines: list[str]) -> str:
    """Lines as one message of at most the model's limit, cut at the end of a line where that is
    possible."""
    text = "\n".join(lines)
    if len(text) <= MESSAGE_LIMIT:
        return text
    whole = text[:MESSAGE_LIMIT].rpartition("\n")[0]
    return whole or text[: MESSAGE_LIMIT - 1] + "…"


def decisive(text: str) -> str:
    """All decisive lines of a compiler's output, cause first, at most 2,000 characters; empty
    without a failure."""
    return join([line.text for line in decisive_lines(clean(text))])
