"""How a failure is known: the words that every run prints, and as people read them."""

import re
from dataclasses import dataclass

from flacheck.model import Record

# What differs from one run, machine, release or specimen to the next: paths, addresses, values,
# numbers that stand alone, and a word that LLVM writes in two ways.
_VARIABLE = re.compile(
    r"\S*[/\\]\S*|<scratch>\S*|0x[0-9a-fA-F]+|%\w+|(?<![\w.])\d+(?![\w.]*[A-Za-z])|loc\([^)]*\)"
    r"|\bcould(?:n't| not)\b"
)
_ASSERTED = re.compile(r"Assertion [`'](?P<text>.+?)' failed")
# What the cut leaves at the ends of a piece.
_EDGES = " \t,;:.`'\"()[]{}"
_CLOSING = "`'\")]}"
# What stands before a message in its line: a program, a path, a place; a path has slashes.
_BEFORE = re.compile(r".*(?:[:;]\s+|[/\\]\S*\s+)")


@dataclass(frozen=True)
class Symptom:
    """How the failure is known: `words` the compiler prints (or a signal's name), `check` what is
    done with the finished compile to print them after `prepare`, `title` one line that says what
    fails where, `timeout` the seconds that the compile may take."""

    words: str
    title: str
    check: str = ""
    timeout: int = 600
    prepare: str = ""


def words(record: Record) -> str:
    """The longest piece of what the failure says that every run on every machine prints, or the
    name of the signal (`SIGSEGV`) where the compiler died without a word."""
    line = record.message.partition("\n")[0]
    if record.signal and (line.startswith(record.signal) or not line):
        return record.signal
    if line.startswith("out of resource:"):
        return line.partition(",")[0]
    if asserted := _ASSERTED.search(line):
        return asserted["text"]
    return max((piece.strip(_EDGES) for piece in _VARIABLE.split(line)), key=len)


def told(record: Record) -> str:
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


def shortened(text: str, most: int) -> str:
    """Text of at most about so many characters, cut between two words."""
    if len(text) <= most:
        return text
    whole = text[:most].rpartition(" ")[0] or text[:most]
    return f"{whole} …"
