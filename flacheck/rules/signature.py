"""The identity of a failure: what it says, without what differs from one run or machine to the
next."""

import hashlib
import re
from functools import lru_cache

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

# Order matters: quoted things and paths go before the numbers inside them.
_NOISE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Resources|Failure|Expired|Impl): ?", ""),
        (r"^what\(\):\s*", ""),
        (r"^(?:[A-Z]\w*Error)\((['\"])(.*)\1\)$", r"\2"),
        (r"loc\([^()]*(?:\([^()]*\)[^()]*)*\)", "@"),
        (r"#loc\d*", "@"),
        # A path begins where its first character does: looked for anywhere within, a long line of
        # letters or of slashes would take the square of its length.
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
        # Releases of LLVM word one error in two ways.
        (r"\bcouldn't\b", "could not"),
        (r"\s+", " "),
    )
)


def normalise(message: str) -> str:
    """A message without paths, lines, addresses, temporary names, SSA names and quantities.

    Of a failed assertion only the asserted expression counts: compilers print the function around
    it differently.
    """
    assertion = _assertion(message)
    if assertion:
        return "Assertion " + " ".join(assertion["assertion"].split())
    text = message.strip()
    for pattern, by in _NOISE:
        text = pattern.sub(by, text)
    return text.strip(" .:@")


def _assertion(message: str) -> re.Match[str] | None:
    # Without the word, each file's name in the line would be tried up to the line's end.
    if "Assertion" not in message:
        return None
    return _ASSERTION.search(message)


def bare_name(declaration: str) -> str:
    """The unqualified name of the function in a C++ declaration as `assert` prints it."""
    plain = _NAMELESS.sub("", declaration).replace("operator()", "operator_call")
    # Templates nest; the innermost goes first.
    while (shorter := _TEMPLATE.sub("", plain)) != plain:
        plain = shorter
    name = _NAME.search(plain.partition("(")[0] or plain)
    if name is None:
        return ""
    return name[1]


def asserting_function(message: str) -> str:
    """The bare name of the function whose assertion failed, empty for other messages."""
    assertion = _assertion(message)
    if assertion is None:
        return ""
    return bare_name(assertion["declaration"])


def signature(finding: Finding, stage: str | None) -> str:
    """`FC302:ttgir:reshapeOuts:1a2b3c4d`: code, stage, bare function name, hash of what the first
    line says."""
    return f"{finding.code}:{stage or '-'}:{finding.function or '-'}:{_hashed(finding.message)}"


@lru_cache(maxsize=4096)
def computed_again(signature: str, message: str) -> str:
    """What a stored signature is today: an older flacheck may have told the words that count from
    the noise in another way. `message` is what was stored beside it."""
    head = signature.rpartition(":")[0]
    if not head or not message:
        return signature
    return f"{head}:{_hashed(message)}"


def _hashed(message: str) -> str:
    # No more of it than is stored, so that a stored message gives the same.
    cause = message[:MESSAGE_LIMIT].partition("\n")[0]
    return hashlib.sha256(normalise(cause).encode()).hexdigest()[:8]
