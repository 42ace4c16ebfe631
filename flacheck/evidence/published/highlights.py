"""Resources of kernels that compile and are still worth a look: spills, shared memory, seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flacheck.evidence.analysis.slow import SECONDS
from flacheck.evidence.published.form import Highlight
from flacheck.model import Record, Verdict

# The part of the shared memory from which a little more no longer fits.
_NEARLY_FULL = 0.9


def highlights(records: Iterable[Record]) -> list[Highlight]:
    """Return the worst figure of each kernel and kind, sorted by kernel and kind."""
    by_kernel: dict[tuple[str, str], list[Highlight]] = {}
    for record in records:
        if record.verdict is Verdict.COMPILES:
            for each in _of_record(record):
                by_kernel.setdefault((each.kernel, each.kind), []).append(each)
    worst = []
    for _, group in sorted(by_kernel.items()):
        most = max(group, key=lambda each: each.value)
        worst.append(
            Highlight(
                kernel=most.kernel,
                kind=most.kind,
                value=most.value,
                of=most.of,
                cells=len(group),
            )
        )
    return worst


def _of_record(record: Record) -> Iterator[Highlight]:
    resources = record.resources
    spills = resources.get("spills")
    if spills:
        yield Highlight(kernel=record.kernel, kind="spills", value=spills)
    shared, limit = resources.get("shared"), resources.get("shared_limit")
    if shared and limit and shared >= _NEARLY_FULL * limit:
        yield Highlight(kernel=record.kernel, kind="shared", value=shared, of=limit)
    if record.compile_seconds >= SECONDS:
        yield Highlight(kernel=record.kernel, kind="slow", value=round(record.compile_seconds, 1))
