"""The decisive lines of a compiler's output, the cause before its wrappers.

The last message of a compiler is often a wrapper (`PassManager::run failed`); the line with the
cause is above it. Native messages come before Python exceptions, and inner exceptions before
outer ones.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

from flacheck.model import MESSAGE_LIMIT
from flacheck.rules.signature import normalise

# Colours and other sequences of terminals, and the end of a line on Windows.
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r+$", re.MULTILINE)
# torch.compile names its compiler in front of the error that this raised.
_COMPILER = r"(?:[\w.]{1,60}\.)?BackendCompilerFailed: backend='[^'\n]{1,100}' raised:[ ](?=\w)"
# Prefixes of a line: CI and container timestamps, ranks, workers, loggers, pytest's E, quotation,
# seconds of a docker build, boxes of rich. Several of them may stand in front of one line.
_LEVELS = r"(?:TRACE|DEBUG|INFO|SUCCESS|WARN|WARNING|ERROR|CRITICAL|FATAL)"
_PREFIX = re.compile(
    r"^(?:"
    # Job and step of `gh run view --log`.
    r"[^\t\n]{1,100}\t[^\t\n]{1,100}\t(?=\ufeff?\d{4}-\d\d-\d\dT)"
    r"|\ufeff?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?(?:[ ]std(?:err|out)[ ]F)?[ ]{0,2}"
    r"|\[\d{4}-\d\d-\d\d[T ][\d:.,]+(?:[ ][A-Z]{1,3}\d{1,4}){0,4}\][ ]?"
    r"|\d\d:\d\d:\d\d(?:[.,]\d{1,6})?[ ]"
    r"|[A-Z][a-z]{2}[ ]{1,2}\d{1,2}[ ][\d:]{8}[ ]\S{1,60}[ ][\w./@-]{1,60}\[\d+\]:[ ]"
    r"|\[[ ]{0,8}\d{1,9}\.\d{3,6}\][ ]"
    r"|\[(?:rank|default)\d+\]:[ ]?|\[\d\d:\d\d:\d\d\][ ](?:std(?:out|err)/\w+[ ]+)?"
    r"|\[\d{1,5}\]:[ ]|\d{1,4}:[ ]|\[\d{1,5},\d{1,5}\]<std(?:out|err)>:[ ]?|std(?:out|err):[ ]"
    r"|\[(?:[Ww]orker|[Rr]ank|[Nn]ode|GPU|TP|DP|PP|EP)[ =:_-]?\d{1,5}\]:?[ ]?"
    r"|[\w.-]{0,60}[-_]\d{1,4}[ ]{1,20}\|[ ]"
    r"|\((?:[^()\n]{0,80}[ :])?pid=\d+[^()\n]{0,40}\)[ ]"
    r"|[EWI]\d{4}[ ][\d:.]+[ ]+\d+[ ][^\]\n]{1,200}\][ ]?(?:\[[\d/]+\][ ]?)?"
    r"|[ ]{0,8}(?:ERROR|WARNING|INFO|CRITICAL)[ ]\d\d-\d\d[ ][\d:]+[ ]\[[^\]\n]{1,80}\][ ]?"
    rf"|\|[ ]?{_LEVELS}[ ]*\|[ ]\S{{1,200}}[ ]-[ ]|{_LEVELS}[ ][a-z]\w*(?:_\w+|::\w+)+:[ ]"
    rf"|-[ ]?[\w.]{{1,100}}(?::\d+)?[ ]?-[ ]?{_LEVELS}[ ]?-[ ]?|{_LEVELS}:[A-Za-z_][\w.]{{0,100}}:"
    r"|!!![ ]Exception[ ]during[ ]processing[ ]!!![ ]"
    r"|\#\d+[ ]\d{1,5}\.\d{1,3}[ ]{1,3}|\d{1,5}\.\d{1,3}[ ]{2,3}"
    r"|E[ ]{3,7}|(?:>[ ])+|[│|❱][ ](?=\s*(?:│|\w))"
    rf"|{_COMPILER}"
    r"){1,6}",
    re.MULTILINE,
)
# pdsh, with which DeepSpeed starts its workers, puts the name of the host in front of each line.
# That looks like the type of an exception; only before a traceback or a time it is a host.
_HOST = re.compile(
    r"^([\w.-]{1,60}): (?=Traceback \(most recent call last\):|  File \"|\[\d{4}-\d\d-\d\d )",
    re.MULTILINE,
)
_MOST_HOSTS = 1_000
# Progress bars stand in front of what is printed after them, on the same line.
_PROGRESS = re.compile(
    r"(?:^\r?|\r)[^\n\r|]{0,200}?\d{1,3}%\|[^\n\r|]{0,300}\|[^\n\r\[]{0,60}\[[^\]\n\r]{0,80}\][ ]?",
    re.MULTILINE,
)
# Inductor's autotuner prints the error of a choice that it leaves out, and goes on.
_LEFT_OUT = re.compile(r"^[^\n]*\n(?=[^\n]{0,120}Ignoring this choice)", re.MULTILINE)
# A program that announces a harmless message quotes it.
_HARMLESS = re.compile(r"^[^\n]{0,500}\b(?:can|may) be (?:safely )?ignored\b[^\n]*$", re.MULTILINE)
# A program that goes on without a module logs the exception of the import under its warning.
_TOLERATED = re.compile(
    r"^[^\n]{0,300}\b(?:will not be enabled|[Ff]all(?:ing)? back)\b[^\n]*\n"
    r"Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n)*"
    r"(?:ModuleNotFound|Import)Error: [^\n]*$",
    re.MULTILINE,
)
# torch logs the exception of an analysis that it can do without.
_ASSUMED = re.compile(
    r"^[^\n]{0,300}\bassuming every input is mutated\b[^\n]*\n"
    r"(?:Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n|\n)*[\w.]+(?::[^\n]*)?$)?",
    re.MULTILINE,
)
# Operations of a module dump: they fill most of a long log, and none is a message.
_DUMP = re.compile(
    r"^ +(?:%[\w:]+ = |(?:tt|ttg|ttng|triton_\w+|scf|cf|arith|llvm|nvvm|gpu)\.\w).*$", re.MULTILINE
)
# Longer lines are cut at twice the longest message, so that patterns need not be linear.
_ENDLESS = re.compile(rf"^(.{{{2 * MESSAGE_LIMIT}}}).+$", re.MULTILINE)
# Widths of terminals that wrap, and the lines that must fill one before it is taken for wrapped.
_NARROWEST, _WIDEST, _LEAST_CUT = 40, 250, 3
_NATIVE = re.compile(
    r"Assertion [`'(]|^Assertion failed: |LLVM ERROR:|UNREACHABLE executed|what\(\):"
    r"|^Unsupported conversion from|std::bad_alloc|^Fatal Python error:|\bSegmentation fault\b"
    r"|^number of \w+ constraints does not match |Internal error while accessing SQLite"
    r"|^fatal: unable to access |^Windows fatal exception: "
    r"|^Killed$|Bad machine code|^Failed to import Triton kernels\.|not found in known hashes"
    r"|Failures have been detected while processing|Pass execution failed"
    r"|Pipeline failed while executing|Triton Error \["
    r"|(?:CUDA|HIP|ROCm)(?: driver| runtime)? error: |(?:CUDA|Cuda) failure \d+|\bHSA_STATUS_ERROR_"
    r"|(?:error|failed|returned|code|status)\b[^\n]{0,60}\b(?:CUDA_ERROR_|(?:cuda|hip)Error[A-Z])"
    r"|^(?:\w+: )?(?:CUDA_ERROR_|(?:cuda|hip)Error[A-Z]|nccl[A-Z]\w+Error: )|NCCL Error \d"
    r"|cuda runtime error \(\d|CUDA initialization failure with|MIOpen\(HIP\): Error "
    r"|HW Exception by GPU |: ring \S+ timeout|\b(?:ZE_RESULT|UR_RESULT|PI)_ERROR_"
    r"|\b(?:gcc|g\+\+|cc1plus|clang|hipcc): error: "
    r"|Cudnn Error in |NVRM: Xid |CMake Error|Configuring incomplete, errors occurred"
    r"|^\S*[/\\]?python[\w.]*(?:\.exe)?: (?:Error while finding|No module named)"
    r"|: (?:fatal )?error C\d{4}: |\bld(?:\.\w+)?: cannot find |multiple definition of "
    r"|^PLEASE submit a bug report|^Stack dump:|, version solving failed\."
    r"|\b(?:ptxas|nvlink|cicc|cudafe\+\+|nvcc|ld\.lld)[^\n]{0,500}?\b(?:error|fatal)\b\s*:"
    r"|\bld: cannot find |undefined symbol: |\bFloating point exception\b|^ninja: build stopped"
    r"|^\s*[\w.-]+ [\d.]+\S* (?:requires|has requirement) [^\n]{1,200}, but you (?:will )?have "
    r"|(?:^|[:)\]] )(?:catastrophic |fatal |internal (?:compiler )?)?error(?: #\S+)?: |^ERROR: "
    r"|^\s*(?:cause: |[×╰─▶][×╰─▶ ]*)(?:Because|Failed to (?:fetch|download)) |^\s* Because "
    # The text of an exception without its type, as people quote it.
    r"|^(?:(?!Ignore)\w[\w ']{0,30}: (?<! was: ))?[`\"]?No module named '"
    r"|^(?:\w[\w -]{0,30}: )?[`\"]?'NoneType' object has no attribute '"
)
_WRAPPER = re.compile(
    r"PassManager::run failed|No valid triton configs|^ninja: build stopped"
    r"|Failures have been detected while processing|Pipeline failed while executing"
    r"|Internal Triton PTX codegen error"
    r"|Ptx assembly aborted due to errors|CalledProcessError"
    r"|No solution found when resolving dependencies|errors? detected in the compilation"
)
_EXCEPTION = re.compile(
    # Tools such as pip indent the tracebacks of the programs that they run.
    r"^[ \t]{0,40}(?:[A-Za-z_]\w*\.)*"
    r"(?P<type>[A-Z]\w*"
    r"(?:Error(?:Impl)?|Exception|Exit|Interrupt|Resources|Failure|Expired|Iteration"
    r"|LanguageConstruct|Decomp)|Exception|Unsupported|InvalidBackend|FailOnRecompileLimitHit)"
    r"(?:: ?(?P<text>.*)|\(['\"].*\)?)?$"
)
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line \d+, in (?P<function>\S+)')
_CARET = re.compile(r"^\s*[\^~]+\s*$")
_CHAIN = ("Traceback", "The above exception", "During handling")
# nvcc names the arguments of the templates in which it finds an error, innermost first.
_INSTANTIATION = re.compile(r'instantiation of "[^"\n]{0,4000}?\[with (?P<arguments>[^"\n]+)\]"')
INSTANTIATION_LINES = 6
# Files of Triton's front end, in which it checks what a kernel passes to the language.
_LANGUAGE = re.compile(r"triton[/\\](?:language[/\\]|compiler[/\\]code_generator\.py)")
# A message has room for a few dozen; rules also search the log as a whole.
_MOST_LINES = 500
FRONT_END = "front end"
# The beginning of a decisive line with the template arguments of the error above it.
INSTANTIATION = "[with "
# Errors of the front end give the position first and the message below. Only its text distinguishes
# a static assertion of a kernel from another one.
_STATIC_ASSERTION = "CompileTimeAssertionFailure"
_FRONT_END = ("CompilationError", _STATIC_ASSERTION, "UnsupportedLanguageConstruct")
# The lines that a front-end error's source excerpt may have before its caret.
_EXCERPT_LINES = 400


@dataclass(frozen=True)
class Line:
    """A decisive line: its number from 1, its text, its rank (0 is nearest to the cause).

    `form` is `front end` for the text of an error that the front end reports. `is_language` is
    True for an exception that a file of Triton's language raised.
    """

    number: int
    text: str
    rank: int
    function: str = ""
    form: str = ""
    is_language: bool = False


def is_wrapper(line: str) -> bool:
    """Return True if a line reports that something failed, but not what."""
    return _WRAPPER.search(line) is not None


def clean(log: str) -> str:
    """Return the log without prefixes and dumps of IR, and with overlong lines cut.

    Line numbers stay the same.
    """
    plain = _without_hosts(_TERMINAL.sub("", _join_wrapped(log)))
    log = _DUMP.sub("", _PREFIX.sub("", _PROGRESS.sub("", plain)))
    log = _TOLERATED.sub(_empty_lines, _HARMLESS.sub("", _LEFT_OUT.sub("\n", log)))
    log = _ASSUMED.sub(_empty_lines, log)
    return _ENDLESS.sub(r"\1…", log)


def _empty_lines(match: re.Match[str]) -> str:
    """Return as many line ends as a match has."""
    return "\n" * match[0].count("\n")


def _without_hosts(log: str) -> str:
    """Return the log without the names of hosts that pdsh puts in front of its lines."""
    hosts = set(_HOST.findall(log))
    if not hosts or len(hosts) > _MOST_HOSTS:
        return log
    names = "|".join(re.escape(host) for host in sorted(hosts))
    return re.sub(rf"^(?:{names}): ?", "", log, flags=re.MULTILINE)


def _join_wrapped(log: str) -> str:
    """Return the log with lines joined that a terminal of fixed width has cut.

    In such a log no line is longer than the terminal, and several fill it, but most do not. An
    empty line takes the place of each that was joined, so that the numbers of lines stay.
    """
    lines = log.splitlines()
    width = max(map(len, lines), default=0)
    if not _NARROWEST <= width <= _WIDEST:
        return log
    full = [line for line in lines if len(line) == width]
    if len(set(full)) < _LEAST_CUT or len(full) > len(lines) / 2:
        return log
    pieces: list[str] = []
    parts: list[str] = []
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        parts.append(line)
        is_cut = len(line) == width and not line.endswith(" ") and following[:1].strip()
        if not is_cut:
            pieces.append("".join(parts))
            pieces.extend([""] * (len(parts) - 1))
            parts = []
    return "\n".join(pieces) + "\n"


def _front_end_error(lines: list[str], start: int, kind: str) -> Iterator[Line]:
    """Yield the message of a front-end error, which is below the source excerpt and its caret.

    A static assertion without a message gives the line of the assertion. Another error without one
    gives its source only where the log has no other message.
    """
    for at in range(start + 1, min(len(lines), start + _EXCERPT_LINES)):
        if not _CARET.match(lines[at]):
            continue
        text = "".join(lines[at + 1 : at + 2]).strip()
        has_message = text and not text.startswith(_CHAIN)
        if has_message and kind == _STATIC_ASSERTION:
            yield Line(at + 2, f"{kind}: {text}", 1, form=FRONT_END)
        elif has_message:
            yield Line(at + 2, text, 1, form=FRONT_END)
        elif kind == _STATIC_ASSERTION:
            yield Line(at, f"{kind}: {lines[at - 1].strip()}", 1, form=FRONT_END)
        else:
            yield Line(at, f"{kind}: {lines[at - 1].strip()}", 2, form=FRONT_END)
        return


def _exception(lines: list[str], at: int, frame: str, file: str) -> Line:
    text = lines[at].strip()
    if text == "AssertionError":
        # Only the source line above the exception shows the assertion.
        above = [line.strip() for line in lines[max(0, at - 2) : at] if not _CARET.match(line)]
        if above and above[-1].startswith("assert "):
            text = f"AssertionError: {above[-1]}"
    rank = 1
    if is_wrapper(text):
        rank = 2
    is_language = _LANGUAGE.search(file) is not None
    return Line(at + 1, text, rank, frame, is_language=is_language)


def _scan(lines: list[str]) -> Iterator[Line]:
    function = file = ""
    for at, line in enumerate(lines):
        frame = _FRAME.match(line)
        exception = _EXCEPTION.match(line)
        if frame:
            function = frame["function"]
            file = frame["file"]
        elif exception:
            kind = exception["type"]
            has_position = (exception["text"] or "").startswith("at ")
            if kind in _FRONT_END and has_position:
                yield from _front_end_error(lines, at, kind)
            else:
                yield _exception(lines, at, function, file)
        elif is_wrapper(line) and _NATIVE.search(line):
            yield Line(at + 1, line.strip(), 2)
        elif _NATIVE.search(line):
            yield Line(at + 1, line.strip(), 0)
            yield from _instantiation(lines, at)


def _instantiation(lines: list[str], at: int) -> Iterator[Line]:
    """Yield the template arguments of the error at a line, such as `[with BM=64, W=8]`."""
    for number in range(at + 1, min(len(lines), at + 1 + INSTANTIATION_LINES)):
        if _NATIVE.search(lines[number]):
            return
        match = _INSTANTIATION.search(lines[number])
        if match:
            yield Line(number + 1, f"{INSTANTIATION}{match['arguments']}]", 1)
            return


def decisive_lines(log: str) -> list[Line]:
    """Return all decisive lines, cause first, each message once; wrappers only without a cause."""
    by_rank = sorted(_scan(log.splitlines()), key=lambda line: line.rank)
    causes = [line for line in by_rank if line.rank < 2] or by_rank
    once: dict[str, Line] = {}
    for line in causes[:_MOST_LINES]:
        first = once.setdefault(normalise(line.text), line)
        if line.form and not first.form:
            once[normalise(line.text)] = replace(first, form=line.form)
    if any(line.form for line in once.values()):
        return list(once.values())
    # A log that was cut lacks the front end's report, but not the check that raised.
    return [replace(line, form=FRONT_END) if line.is_language else line for line in once.values()]


def join(lines: list[str]) -> str:
    """Return lines as one message within the model's limit, cut at a line's end if possible."""
    text = "\n".join(lines)
    if len(text) <= MESSAGE_LIMIT:
        return text
    whole = text[:MESSAGE_LIMIT].rpartition("\n")[0]
    return whole or text[: MESSAGE_LIMIT - 1] + "…"


def decisive(text: str) -> str:
    """Return the decisive lines of a compiler's output, cause first; empty without a failure.

    The text has at most 2,000 characters.
    """
    return join([line.text for line in decisive_lines(clean(text))])
