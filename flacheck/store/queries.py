"""SQL of the store: the record of a key that counts, and the columns to read.

In all of these `r` is a record, `n` another one of its key, `m` its place in a run, `u` that run.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from flacheck.model import Purpose

# Keys in one query: SQLite before 3.32 takes no more than 999 values.
CHUNK = 500
# Runs that compile cells outside a scan's question; their records do not count for it.
ASIDE = (Purpose.FALLBACKS, Purpose.AUTOTUNE, Purpose.DTYPES)

LATEST = (
    "NOT EXISTS (SELECT 1 FROM records n WHERE n.key = r.key AND (n.added, n.id) > (r.added, r.id))"
)
_IS_SCAN = f"u.purpose = '{Purpose.SCAN.value}'"
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
# The latest record of a key in any run other than those aside.
LATEST_IN_SCANS = _NEWEST_MEMBER.format(
    there=IN_A_SCAN.format(record="r"), newer=IN_A_SCAN.format(record="n")
)
_IN_SCAN = _MEMBER.format(which=_IS_SCAN)
OF_A_SCAN = _IN_SCAN.format(record="r")
# The latest record of a key in any scan.
LATEST_OF_SCANS = _NEWEST_MEMBER.format(there=OF_A_SCAN, newer=_IN_SCAN.format(record="n"))
# The columns of a run, in the order of `Store._run`.
RUN = "id, started, finished, matrix, environment, context, purpose, question"
# A record with the data for compiling its cell again: the kernel with its origin (including the
# whole source of an extracted one, stored once) and the stages. The autotuner's list from which a
# launch was filled only describes it and is not kept.
BODY = "r.body, c.kernel, c.stage, c.until"
RECORDS_WITH_CELLS = "records r LEFT JOIN cells c ON c.key = r.key"
RECORDS_WHERE = f"SELECT {BODY} FROM {RECORDS_WITH_CELLS} WHERE"


def chunks(keys: Iterable[str]) -> Iterator[list[str]]:
    """Yield the keys, each once, in lists that fit one query."""
    rest = iter(dict.fromkeys(keys))
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def marks(values: Sequence[Any]) -> str:
    """Return a question mark for each value."""
    return ", ".join("?" * len(values))
