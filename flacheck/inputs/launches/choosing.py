"""Which recorded launches are compiled, as sources of cells."""

import math
from collections.abc import Iterable, Mapping, Sequence

from flacheck.errors import UsageError
from flacheck.inputs.expand import Source
from flacheck.inputs.launches.entries import RecordedLaunch
from flacheck.model import Cut, Kernel, Launch, canonical, digest
from flacheck.model.launch import is_int


def without_refused(
    entries: Sequence[RecordedLaunch],
) -> tuple[Sequence[RecordedLaunch], tuple[str, ...]]:
    """The launches whose sources were admitted, and a word on the kernels that are left out.

    Raises UsageError when every one was refused.
    """
    kept = [entry for entry in entries if not entry.refused]
    reasons = {entry.kernel: entry.refused for entry in entries if entry.refused}
    if not reasons:
        return entries, ()
    if not kept:
        first = next(iter(reasons.values()))
        raise UsageError(f"{first}: the source is refused; --trust compiles it all the same")
    return kept, tuple(
        f"{reason}: the source of {kernel} is refused and its launches are left out; --trust "
        "compiles them all the same"
        for kernel, reason in reasons.items()
    )


def sources(recorded: Sequence[RecordedLaunch]) -> list[Source]:
    """One source a kernel as it was cut out, with its distinct launches; those without a text are
    left out."""
    return group_launches(
        (_kernel(entry, entry.text), entry.without_decorators()) for entry in recorded if entry.text
    )


def group_launches(launched: Iterable[tuple[Kernel, Launch]]) -> list[Source]:
    """One source a kernel, by its digest, with its distinct launches; those that were made up are
    apart."""
    kernels: dict[tuple[str, bool], Kernel] = {}
    launches: dict[tuple[str, bool], dict[str, Launch]] = {}
    for kernel, launch in launched:
        key = kernel.digest, kernel.is_made_up
        kernels.setdefault(key, kernel)
        launches.setdefault(key, {}).setdefault(canonical(launch.to_json()), launch)
    return [Source(kernel, tuple(launches[key].values())) for key, kernel in kernels.items()]


def one_each(recorded: Sequence[RecordedLaunch]) -> list[RecordedLaunch]:
    """The first launch of each kernel and dtype; one that a program made comes before those that
    flacheck made up, and last come those with an argument that Triton has no type for."""
    first: dict[tuple[str, str | None], RecordedLaunch] = {}
    for entry in sorted(recorded, key=lambda each: (_has_unknown(each), each.made_up)):
        first.setdefault((entry.kernel, entry.launch.dtype), entry)
    return list(first.values())


def _has_unknown(entry: RecordedLaunch) -> bool:
    values = entry.launch.args.values()
    return any(isinstance(value, Mapping) and "unknown" in value for value in values)


def shared(recordings: Sequence[Sequence[RecordedLaunch]]) -> list[list[RecordedLaunch]]:
    """Of several recordings one launch of each kernel and dtype, the same one in all that have the
    kernel in the dtype where that can be. One that a program made comes before a made-up one, then
    the smallest, which compiles soonest."""
    groups: dict[tuple[str, str | None], dict[int, dict[str, RecordedLaunch]]] = {}
    for place, recorded in enumerate(recordings):
        for entry in recorded:
            group = groups.setdefault((entry.kernel, entry.launch.dtype), {})
            same = canonical([entry.launch.to_json(), entry.options])
            group.setdefault(place, {}).setdefault(same, entry)
    chosen: list[list[RecordedLaunch]] = [[] for _ in recordings]
    for group in groups.values():
        first = next(iter(group.values()))
        common = [same for same in first if all(same in entries for entries in group.values())]
        if common:
            same = min(common, key=lambda same: max(_rank(each[same]) for each in group.values()))
            for place, entries in group.items():
                chosen[place].append(entries[same])
        else:
            for place, entries in group.items():
                chosen[place].append(min(entries.values(), key=_rank))
    return chosen


def _rank(entry: RecordedLaunch) -> tuple[bool, int]:
    """Whether a launch is made up, and how large its tiles and sizes are."""
    constants = (
        value["constexpr"]
        for value in entry.launch.args.values()
        if isinstance(value, Mapping) and "constexpr" in value
    )
    sizes = (size for size in constants if is_int(size) and size > 0)
    return entry.made_up, math.prod(sizes)


def _kernel(entry: RecordedLaunch, text: str) -> Kernel:
    identity = digest([entry.kernel, entry.package, text, entry.qualname])
    return Kernel(entry.kernel, entry.package, identity, Cut(text, entry.qualname, entry.made_up))
