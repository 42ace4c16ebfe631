"""What the store asks of SQLite: which record of a key counts, and the columns that are read.

In all of these `r` is a record, `n` another one of its key, `m` its place in a run, `u` that run.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from flacheck.model import Purpose

# Keys in one query: SQLite before 3.32 takes no more than 999 values.
CHUNK = 500
# Runs that compile what nobody asked a scan for: their records are no answer to a scan's question.
ASIDE = (Purpose.FALLBACKS, Purpose.AUTOTUNE, Purpose.DTYPES)

LATEST = (
    "NOT EXISTS (SELECT 1 FROM records n WHERE n.key = r.key AND (n.added, n.id) > (r.added, r.id))"
)
_SCANNED = f"u.purpose = '{Purpose.SCAN.value}'"
NOT_ASIDE = f"u.purpose NOT IN ({', '.join(repr(purpose.value) for purpose in ASIDE)})"
_MEMBER = (
    "EXISTS (SELECT 1 FROM run_records m JOIN runs u ON u.id = m.run WHERE m.record = {{record}}.id"
    " AND {which})"
)
_NEWEST_MEMBER = (
    "{there} AND NOT EXISTS (SELECT 1 FROM records n WHERE n.key = r.key"
    " AND (n.added, n.id) > (r.added, r.id) AND {newer})"
)
IN_A_SCAN = _MEMBER.format(which=NOT_ASIDE)
# The latest of those records of a key that a run other than those aside has asked for.
LATEST_ASKED = _NEWEST_MEMBER.format(
    there=IN_A_SCAN.format(record="r"), newer=IN_A_SCAN.format(record="n")
)
_OF_A_SCAN = _MEMBER.format(which=_SCANNED)
# The latest of those records of a key that belong to a scan, whichever it was.
LATEST_SCANNED = _NEWEST_MEMBER.format(
    there=_OF_A_SCAN.format(record="r"), newer=_OF_A_SCAN.format(record="n")
)
# The columns of a run, in the order of `Store._run`.
RUN = "id, started, finished, matrix, environment, context, purpose, question"
# A record with what compiling its cell again takes and the record does not hold: the kernel with
# its origin (for one that was cut out its whole source, kept once) and the stages asked. The
# autotuner's list that a launch was filled from only describes it and is not kept.
BODY = "r.body, c.kernel, c.stage, c.until"
JOINED = "records r LEFT JOIN cells c ON c.key = r.key"
RECORDS_WHERE = f"SELECT {BODY} FROM {JOINED} WHERE"


def chunks(keys: Iterable[str]) -> Iterator[list[str]]:
    """The keys, each once, as many at a time as one query takes."""
    rest = iter(dict.fromkeys(keys))
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def marks(values: Sequence[Any]) -> str:
    """A question mark for each value."""
    return ", ".join("?" * len(values))
