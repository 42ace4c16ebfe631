"""How a failure is known: the words that every run prints, and as people read them."""

import re
from dataclasses import dataclass

from flacheck.model import Record

# What differs from one run, machine, release or specimen to the next: paths, addresses, values,
# numbers that stand alone, and a word that LLVM writes in two ways; and the character that flacheck
# puts where it cuts a long message.
_VARIABLE = re.compile(
    r"\S*[/\\]\S*|<scratch>\S*|0x[0-9a-fA-F]+|%\w+|(?<![\w.])\d+(?![\w.]*[A-Za-z])|loc\([^)]*\)"
    r"|\bcould(?:n't| not)\b|…"
)
# The rules join these names with text from another line, so the compiler never prints the two
# together: see `flacheck.rules.decisive`.
_JOINED = re.compile(r"AssertionError: (?=assert )|CompileTimeAssertionFailure: ")
# The rules describe an end without an error in these words, before the last lines of the log.
_ENDED = re.compile(r"(?P<how>exit status \d+|\w+) in stage \w+, (?:nothing on|the last lines)")
_ASSERTED = re.compile(r"Assertion [`'](?P<text>.+?)' failed")
# What the cut leaves at the ends of a piece.
_EDGES = " \t,;:.`'\"()[]{}"
_CLOSING = "`'\")]}"
# What stands before a message in its line: a program, a path, a place; a path has slashes.
_BEFORE = re.compile(r".*(?:[:;]\s+|[/\\]\S*\s+)")


@dataclass(frozen=True)
class Symptom:
    """How the failure is known: `words` the compiler prints (or a signal's name, or the exit status
    of a compiler that prints nothing), `check` what is
    done with the finished compile to print them after `prepare`, `title` one line that says what
    fails where, `timeout` the seconds that the compile may take."""

    words: str
    title: str
    check: str = ""
    timeout: int = 600
    prepare: str = ""


def words(record: Record) -> str:
    """Return the longest piece of the failure's first line that every run prints on every machine.

    Return the name of the signal (`SIGSEGV`) or the exit status (`exit status 3`) if the compiler
    died without printing anything.
    """
    line, _, rest = record.message.partition("\n")
    if record.signal and (line.startswith(record.signal) or not line):
        return record.signal
    if line.startswith("out of resource:"):
        return line.partition(",")[0]
    if asserted := _ASSERTED.search(line):
        return asserted["text"]
    silent_end = _ENDED.match(line)
    if silent_end and not rest:
        return silent_end["how"]
    if silent_end:
        line = rest.rpartition("\n")[2]
    line = _JOINED.sub("", line, count=1)
    return max((piece.strip(_EDGES) for piece in _VARIABLE.split(line)), key=len)


def readable_words(record: Record) -> str:
    """Those words as people read them: within the quotes and brackets that they stand in, and what
    was asserted as an assertion."""
    said, line = words(record), record.message.partition("\n")[0]
    if asserted := _ASSERTED.search(line):
        return asserted[0]
    before, found, after = line.partition(said)
    if found:
        # A message that holds quantities is read from its beginning, behind any place or path.
        begun = _BEFORE.match(before)
        opening = before[begun.end() :] if begun else before
        closing = after[: len(after) - len(after.lstrip(_CLOSING))]
        said = f"{opening}{said}{closing}"
    # The assembler writes `error   : Feature …`.
    return re.sub(r"\s+(?=:)", "", said)


def shorten(text: str, most: int) -> str:
    """Text of at most about so many characters, cut between two words."""
    if len(text) <= most:
        return text
    whole = text[:most].rpartition(" ")[0] or text[:most]
    return f"{whole} …"
