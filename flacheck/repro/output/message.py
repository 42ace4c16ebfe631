"""The words by which a script knows the failure: a piece of the decisive line that every run and
machine prints.
"""

from __future__ import annotations

import re

from flacheck.model import Record

# What differs from one run, machine or specimen to the next: paths, addresses, values, numbers that
# stand alone.
_VARIABLE = re.compile(
    r"\S*[/\\]\S*|<scratch>\S*|0x[0-9a-fA-F]+|%\w+|(?<![\w.])\d+(?![\w.]*[A-Za-z])|loc\([^)]*\)"
)
_ASSERTED = re.compile(r"Assertion [`'](?P<text>.+?)' failed")
_SIGNAL = re.compile(r"SIG[A-Z]+")
_EDGES = " \t,;:.`'\"()[]{}"


def words(record: Record) -> str:
    """The longest piece of what the failure says in which no path, address or number stands by
    itself.

    The name of the signal (`SIGSEGV`) where the compiler died without a word.
    """
    line = record.message.partition("\n")[0]
    if record.signal and (line.startswith(record.signal) or not line):
        return record.signal
    if found := _ASSERTED.search(line):
        return found["text"]
    return max((piece.strip(_EDGES) for piece in _VARIABLE.split(line)), key=len)


def is_signal(text: str) -> bool:
    """Whether `words` found nothing but how the compiler died."""
    return _SIGNAL.fullmatch(text) is not None
