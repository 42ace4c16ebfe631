"""Kernels that two releases of a package have in different modules."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.order import kernel_name
from flacheck.model import Record


def find_moved_kernels(before: Sequence[Record], after: Sequence[Record]) -> dict[str, str]:
    """Return the names under TO of kernels that TO has in another module, by their old names.

    Both have the same function name and the same parameters, and each name exists on one side only.
    If several kernels match, the one whose module name shares the most parts is taken; a tie gives
    no match.
    """
    old_parameters = _parameters(before)
    new_parameters = _parameters(after)
    old_names = [name for name in old_parameters if name not in new_parameters]
    new_names = [name for name in new_parameters if name not in old_parameters]
    candidates_of = group_by_key((kernel_name(name), name) for name in new_names)
    new_name_of: dict[str, str] = {}
    for old in old_names:
        candidates = []
        for new in candidates_of.get(kernel_name(old), ()):
            if old_parameters[old] & new_parameters[new]:
                candidates.append(new)
        nearest = _nearest(old, candidates)
        # The other way round too, because two old kernels may have become one.
        rivals = [each for each in old_names if kernel_name(each) == kernel_name(old)]
        if nearest is not None and _nearest(nearest, rivals) == old:
            new_name_of[old] = nearest
    return new_name_of


def rename_kernels(records: Iterable[Record], names: Mapping[str, str]) -> list[Record]:
    """Return records with some kernels under other names; each keeps its key."""
    new_records = []
    for record in records:
        name = names.get(record.kernel)
        if name is not None:
            kernel = replace(record.cell.kernel, name=name)
            record = replace(record, cell=replace(record.cell, kernel=kernel).with_key(record.key))
        new_records.append(record)
    return new_records


def _parameters(records: Iterable[Record]) -> dict[str, set[frozenset[str]]]:
    """Return the names of the parameters of each kernel's launches."""
    by_kernel: dict[str, set[frozenset[str]]] = {}
    for record in records:
        parameters = by_kernel.setdefault(record.kernel, set())
        if record.launch is not None:
            parameters.add(frozenset((*record.launch.args, *record.launch.omitted)))
    return by_kernel


def _nearest(name: str, others: Sequence[str]) -> str | None:
    """Return the name with the most shared parts of its module; None if two have equally many."""
    parts = _module_parts(name)
    ordered = sorted(others, key=lambda other: len(parts & _module_parts(other)), reverse=True)
    if not ordered:
        return None
    shared = [len(parts & _module_parts(other)) for other in ordered]
    if len(shared) > 1 and shared[0] == shared[1]:
        return None
    return ordered[0]


def _module_parts(name: str) -> set[str]:
    return set(name.partition(":")[0].split("."))
