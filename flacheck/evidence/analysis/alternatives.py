"""Further configurations of a launch, needed if its autotuner skips the requested one."""

from collections.abc import Iterable, Iterator, Mapping

from flacheck.model import KeySet, Record, Verdict


def is_skipped(record: Record) -> bool:
    """Return True if the autotuner of the launch would skip this configuration."""
    return record.verdict is Verdict.FAILS and record.tolerated


def iterate_alternatives(
    key: str, keys: KeySet, records_by_key: Mapping[str, Record]
) -> Iterator[str]:
    """Yield the other configurations of a cell's launch that are needed.

    If the autotuner skips the cell's own, they are tried in order until one compiles; the last one
    yielded may have no record yet.
    """
    first = records_by_key.get(key)
    if first is None or not is_skipped(first):
        return
    for other in keys.alternatives.get(key, ()):
        yield other
        record = records_by_key.get(other)
        if record is None or record.verdict is Verdict.COMPILES:
            return


def configurations(keys: KeySet, records: Iterable[Record]) -> dict[str, str]:
    """Return the keys of launches that need several configurations.

    Each is mapped to the key of the one that the question names.
    """
    records_by_key = {record.key: record for record in records}
    requested_key_of: dict[str, str] = {}
    for key in keys.alternatives:
        others = list(iterate_alternatives(key, keys, records_by_key))
        if others:
            requested_key_of.update(dict.fromkeys([key, *others], key))
    return requested_key_of


def list_alternatives(keys: KeySet | None, records: Iterable[Record]) -> Iterator[str]:
    """Yield the keys of all alternatives of skipped configurations."""
    if keys is not None:
        for record in records:
            if is_skipped(record):
                yield from keys.alternatives.get(record.key, ())
