"""The identity of a failure: its message without details of one run or machine."""

import hashlib
import re
from collections.abc import Callable

from flacheck.model import MESSAGE_LIMIT, Finding

_ASSERTION = re.compile(
    r"(?:^|\s|/)(?P<file>[\w.+-]+\.(?:cpp|cc|cxx|h|hpp|inc|def)):\d+: (?P<declaration>.+?): "
    r"Assertion [`'](?P<assertion>.*?)(?:'\s*failed|$)"
)
_NAMELESS = re.compile(
    r"\(anonymous(?: namespace| class)?\)|\{anonymous\}|<unnamed>|<lambda\([^)]*\)>"
)
_TEMPLATE = re.compile(r"<[^<>]*>")
_NAME = re.compile(r"(~?\w+)\s*$")

_EXCEPTION = r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Resources|Failure|Expired|Impl)"


def _without_escapes(match: re.Match[str]) -> str:
    """Return the first line of the text that `repr` wrote."""
    return re.sub(r"\\(['\"])", r"\1", match["text"]).partition(r"\n")[0]


# The order matters: quotations and paths go before the numbers inside them.
_NOISE: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        # Releases print an exception with its type, its module, its cause, or by `repr`.
        (rf"^(?:{_EXCEPTION}: ?)+", ""),
        (r"^what\(\):\s*", ""),
        (rf"^{_EXCEPTION}\((?P<quote>['\"])(?P<text>.*)(?P=quote)\)$", _without_escapes),
        # The text of a KeyError is the `repr` of its key.
        (r"^(['\"])([^'\"]*)\1$", r"\2"),
        (r"loc\([^()]*(?:\([^()]*\)[^()]*)*\)", "@"),
        (r"#loc\d*", "@"),
        # The lookbehind lets a match begin only where a path begins. Without it a long line of
        # letters or slashes would take quadratic time.
        (
            r"(?:[A-Za-z]:|(?<![\w.+~<>/\\-]))(?:[\w.+~<>-]*[/\\])+[\w.+~<>-]+",
            "@",
        ),
        (
            r"\btmp[\w-]*(?:\.\w+)*|\b[\w-]{1,255}\.(?:ptx|cubin|cu|cuh|cpp|h|py|ll|o|ttir|ttgir|llir)\b",
            "@",
        ),
        (r"0x[0-9a-fA-F]+", "#"),
        (r"@(?:[:,(]\s*(?:line )?\d+\)?)+(?::\d+)*", "@"),
        (r"<unknown>:\d+", "@"),
        (r"\bline \d+", "line #"),
        (r"%[\w#:]+", "%"),
        (r"#(blocked|mma|shared|linear|smem|tmem)\d+", r"#\1"),
        (r"(?<![\w.])\d+(?:x\d+)*x?", "#"),
        (r"(?<=#)(?:\.\d+)+", ""),
        (r"@+", "@"),
        # Newer releases print the operation as well.
        (r"(\bexplicitly marked illegal\b).*", r"\1"),
        # LLVM releases word this error in two ways.
        (r"\bcouldn't\b", "could not"),
        (r"\s+", " "),
    )
)

# The version namespaces of CUDA's libraries: cub::CUB_300001_SM_900, cuda::std::__4. A mangled name
# has the number of its characters before it.
_LIBRARY_VERSION = re.compile(
    r"\b(?:CUB|THRUST|_V)_\d{6}\w*::|::(?:CUB|THRUST|_V)_\d{6}\w*\b"
    r"|(?:(?<=\bcuda::)|(?<=\bcuda::std::))__\d+::"
)
_MANGLED_LIBRARY_VERSION = re.compile(r"(\d{1,3})(?=(?:CUB|THRUST)_\d{6})")


def without_library_versions(text: str) -> str:
    """Return the text without the namespaces that name a CUDA library's version and its GPUs."""
    text = _LIBRARY_VERSION.sub("", text)
    position = 0
    while match := _MANGLED_LIBRARY_VERSION.search(text, position):
        position = match.start()
        text = text[:position] + text[match.end() + int(match[1]) :]
    return text


def normalise(message: str) -> str:
    """Return a message without paths, lines, addresses, temporary names, SSA names and quantities.

    A failed assertion is reduced to its expression, because compilers print the function around it
    differently.
    """
    assertion = _assertion(message)
    if assertion:
        return "Assertion " + " ".join(assertion["assertion"].split())
    text = without_library_versions(message.strip())
    for pattern, by in _NOISE:
        text = pattern.sub(by, text)
    return text.strip(" .:@")


def _assertion(message: str) -> re.Match[str] | None:
    # Without this check, the pattern would try each file name up to the end of the line.
    if "Assertion" not in message:
        return None
    return _ASSERTION.search(message)


def bare_name(declaration: str) -> str:
    """Return the unqualified function name in a C++ declaration as `assert` prints it."""
    plain = _NAMELESS.sub("", declaration).replace("operator()", "operator_call")
    # Templates nest; the innermost goes first.
    shorter = _TEMPLATE.sub("", plain)
    while shorter != plain:
        plain = shorter
        shorter = _TEMPLATE.sub("", plain)
    name = _NAME.search(plain.partition("(")[0] or plain)
    if name is None:
        return ""
    return name[1]


def asserting_function(message: str) -> str:
    """Return the bare name of the function whose assertion failed; empty for other messages."""
    assertion = _assertion(message)
    if assertion is None:
        return ""
    return bare_name(assertion["declaration"])


def signature(finding: Finding, stage: str | None) -> str:
    """Return code, stage, bare function name and message hash: `FC302:ttgir:reshapeOuts:1a2b3c4d`.

    The hash is of the message's first line.
    """
    return f"{finding.code}:{stage or '-'}:{finding.function or '-'}:{_hash(finding.message)}"


def _hash(message: str) -> str:
    # The store cuts messages at this limit; the hash must be the same for a stored message.
    cause = message[:MESSAGE_LIMIT].partition("\n")[0]
    return hashlib.sha256(normalise(cause).encode()).hexdigest()[:8]
