"""The words by which a script knows the failure: a piece of the decisive line that every run and machine prints."""

from __future__ import annotations

import re

from flacheck.model import Record
from flacheck.rules.signature import normalise

_PLACEHOLDER = re.compile(r"[#@%]")
_SIGNAL = re.compile(r"SIG[A-Z]+\b")
_SHORTEST = 8


def words(record: Record) -> str:
    """The longest piece of what the failure says in which no path, number or temporary name stands.

    The name of a signal (`SIGSEGV`) where the compiler died without a word.
    """
    line = record.message.partition("\n")[0]
    if record.signal and (line.startswith(record.signal) or not line):
        return record.signal
    plain = normalise(line).removeprefix("Assertion ")
    pieces = [piece.strip() for piece in _PLACEHOLDER.split(plain)]
    printed = [piece for piece in pieces if piece in line]
    best = max(printed, key=len, default="")
    return best if len(best) >= _SHORTEST else line.strip()


def is_signal(text: str) -> bool:
    """Whether `words` found nothing but how the compiler died."""
    return _SIGNAL.fullmatch(text) is not None
