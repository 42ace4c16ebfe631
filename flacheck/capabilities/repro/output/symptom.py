"""The symptom of a failure: the words that every run prints, and their readable form."""

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

from flacheck.model import Record
from flacheck.rules import normalise

# LLVM writes this word in two ways; flacheck marks a cut message.
_VARIABLE = re.compile(r"\bcould(?:n't| not)\b|…")
# The `repr` of a text with both kinds of quotes escapes one.
_VARIABLE_IN_REPR = re.compile(rf"{_VARIABLE.pattern}|\\?'")
# Shorter words stand in the output of other failures, too.
_LEAST = 4
# Variable text that other machines do not have: paths, addresses, names of values.
_NAMES = re.compile(r"\S*[/\\]\S*|<scratch>\S*|0x[0-9a-fA-F]+|%\w+|loc\([^)]*\)|…")
# A preposition before a removed path.
_DANGLING = re.compile(r"[\s,;(]+(?:at|in|from)\s+$")
# The rules describe an end without an error in these words, before the log's last lines.
_SILENT_END = re.compile(
    r"(?P<how>exit status \d+|\w+) in stage \w+, (?:nothing on|the last lines)"
)
# A rule's words for a log that ends with the failing line.
_SOURCE_LINE = re.compile(r"at the line `(?P<source>.+)`, whose message is not in the log")
_ASSERTION = re.compile(r"Assertion [`'](?P<text>.+?)' failed")
# Characters that remain at the ends of a piece after the cut.
_EDGES = " \t,;:.`'\"()[]{}"
_CLOSING = "`'\")]}"
# The text before a message and its exception: a program, a path with slashes, a position.
_BEFORE = re.compile(r".*(?:(?<!Error)[:;]\s+|[/\\]\S*\s+)")


@dataclass(frozen=True)
class Symptom:
    """The signs by which a script detects a failure.

    `words` are printed by the compiler; they are a signal's name, or an exit status, if it prints
    nothing. `check` is code that prints them after the compile, and `prepare` code before it.
    `title` is one line with the failure and its place. `timeout` limits the compile, in seconds.
    With `on_card`, `prepare` makes the `tensors` of a launch on this machine's GPU.
    """

    words: str
    title: str
    check: str = ""
    timeout: int = 600
    prepare: str = ""
    on_card: bool = False


def words(record: Record) -> str:
    """Return the longest piece of the failure's first line that its signature keeps as it is.

    Every run on every machine prints it, in whatever form it prints an exception. Return the name
    of the signal (`SIGSEGV`) or the exit status (`exit status 3`) if the compiler died without
    printing anything.
    """
    line, _, rest = record.message.partition("\n")
    if record.signal and (line.startswith(record.signal) or not line):
        return record.signal
    if line.startswith("out of resource:"):
        return line.partition(",")[0]
    assertion = _ASSERTION.search(line)
    if assertion:
        return assertion["text"]
    source_line = _SOURCE_LINE.match(line)
    if source_line:
        return source_line["source"]
    silent_end = _SILENT_END.match(line)
    if silent_end and not rest:
        return silent_end["how"]
    if silent_end:
        line = rest.rpartition("\n")[2]
    return _longest_piece(line)


def _longest_piece(line: str) -> str:
    """Return the longest piece that normalisation keeps; the line if that is too short."""
    variable = _VARIABLE
    if {"'", '"'} <= set(normalise(line)):
        variable = _VARIABLE_IN_REPR
    pieces = []
    for part in variable.split(line):
        kept = normalise(part)
        match = SequenceMatcher(None, part, kept, autojunk=False).find_longest_match()
        pieces.append(part[match.a : match.a + match.size].strip(_EDGES))
    longest = max(pieces, key=len)
    return longest if len(longest) >= _LEAST else line.strip(_EDGES)


def readable_words(record: Record) -> str:
    """Return the words in readable form: with their quotes and brackets, or as an assertion."""
    text, line = words(record), record.message.partition("\n")[0]
    assertion = _ASSERTION.search(line)
    if assertion:
        return assertion[0]
    before, separator, after = line.partition(text)
    if separator:
        # A message with quantities begins after any position or path.
        prefix = _BEFORE.match(before)
        opening = before[prefix.end() :] if prefix else before
        text = f"{opening}{text}{_rest(after)}"
    return text


def _rest(after: str) -> str:
    """Return the text behind the words of a message, up to a path, an address or a value.

    A message ends with its figures: "expected 64 but got 128" is not cut before the 64.
    """
    rest = _DANGLING.sub("", _NAMES.split(after)[0]).rstrip(_EDGES)
    closing = after[len(rest) :]
    return rest + closing[: len(closing) - len(closing.lstrip(_CLOSING))]


def shorten(text: str, most: int) -> str:
    """Return text of at most about `most` characters, cut between two words."""
    if len(text) <= most:
        return text
    whole = text[:most].rpartition(" ")[0] or text[:most]
    return f"{whole} …"
