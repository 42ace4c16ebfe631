"""Which of a launch's constexprs a fallback may change, and who has to change them.

- `tunable`: the autotuner supplies it; a `triton.Config` is all that changes.
- `host constant`: a tile size that host code computes or was given; the change has to be made
  there.
- `unsafe`: a size of the data, a block that has to hold all of one, or what nothing is known of. It
  stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flacheck.analysis.observed import BLOCK
from flacheck.fallbacks.code import host_launches, kernel_code
from flacheck.model import Cell
from flacheck.packages.package import Package
from flacheck.source.host_code import COVERS, GIVEN, SIZE, HostLaunch
from flacheck.source.kernel_code import KernelCode

TUNABLE, HOST, UNSAFE = "tunable", "host constant", "unsafe"
# Below 16 no side of a dot is taken by any release.
DOT = 16


@dataclass(frozen=True)
class Constant:
    """An integer constexpr of a launch: its value, what may be done to it (`mark`) and `why`, one
    of a few words.
    """

    name: str
    value: int
    mark: str
    why: str


@dataclass(frozen=True)
class Constants:
    """All integer constexprs of a launch, with what ties them to each other and to its other
    arguments.
    """

    by_name: Mapping[str, Constant]
    code: KernelCode
    hosts: tuple[HostLaunch, ...] = ()

    @property
    def blocks(self) -> tuple[str, ...]:
        """The tile sizes, whoever may change them."""
        return tuple(name for name in self.by_name if name in self.code.blocks)

    def halved(self, name: str, size: int) -> list[int]:
        """A tile size halved again and again, within the kernel's shape rules: powers of two, 16
        and more for dots.
        """
        if name not in self.code.blocks or size & (size - 1):
            return []
        least = DOT if self.code.dots else 1
        return [size >> step for step in range(1, size.bit_length()) if size >> step >= least]

    def follow(self, args: Mapping[str, Any], use: Mapping[str, Any]) -> dict[str, Any] | None:
        """What host code passes differently when `use` changes: `NC = cdiv(BT, BC)`; None where
        that cannot be read or the change breaks a division of the kernel's (`BT // BC`).
        """
        before = {name: held for name, spec in args.items() if (held := _number(spec)) is not None}
        changed = use.keys() & before.keys()
        after: dict[str, Any] = {}
        for name in sorted(before.keys() - use.keys()) if changed else ():
            hosts = [host for host, made_of in self._made_of.get(name, ()) if changed & made_of]
            made = {_recomputed(host, name, before, use) for host in hosts} - {None}
            if hosts and len(made) != 1:
                return None
            if made and (new := made.pop()) != before[name]:
                after[name] = new
        return after if self._divides(before, {**before, **use, **after}) else None

    @cached_property
    def _made_of(self) -> dict[str, list[tuple[HostLaunch, set[str]]]]:
        """For each argument the launching places, with the other arguments that its value is made
        of there.
        """
        found: dict[str, list[tuple[HostLaunch, set[str]]]] = {}
        for host in self.hosts:
            for name in host.passed:
                uses = host.uses(name)
                others = {
                    other
                    for other, passed in host.passed.items()
                    if getattr(passed, "id", None) in uses
                }
                found.setdefault(name, []).append((host, others - {name}))
        return found

    def _divides(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Whether what was divided without rest still is."""
        pairs = [(one, by) for one, by in self.code.divided if before.get(by) and one in before]
        return all(
            after[by] and after[one] % after[by] == 0
            for one, by in pairs
            if before[one] % before[by] == 0
        )


def constants(
    cell: Cell, packages: Mapping[str, Package], siblings: Iterable[Mapping[str, Any]] = ()
) -> Constants:
    """The integer constexprs of a cell's launch; `siblings` are the arguments of other launches of
    its kernel.
    """
    code = kernel_code(cell.kernel, packages)
    hosts = tuple(host_launches(cell.kernel, code.parameters, packages))
    tuned = {name for config in cell.configs for name in config.get("kwargs", {})}
    others = list(siblings)
    found = {}
    for name, spec in (cell.launch.args if cell.launch else {}).items():
        size = _constexpr(spec)
        if size is not None:
            found[name] = Constant(name, size, *_judged(name, cell, tuned, code, hosts, others))
    return Constants(found, code, hosts)


def _judged(
    name: str,
    cell: Cell,
    tuned: set[str],
    code: KernelCode,
    hosts: Sequence[HostLaunch],
    siblings: Sequence[Mapping[str, Any]],
) -> tuple[str, str]:
    if name in tuned:
        return TUNABLE, "in the autotuner's list"
    if name in cell.shape:
        return UNSAFE, "a size of the shape"
    if name not in code.blocks:
        return UNSAFE, "no side of a tile"
    kinds = {host.kind(name) for host in hosts if name in host.passed}
    if hosts and not kinds:
        return UNSAFE, "no host code is seen to pass it"
    if SIZE in kinds:
        return UNSAFE, "a size of the data"
    if COVERS in kinds:
        return UNSAFE, "one block has to hold a whole size"
    if name not in code.tiled:
        return UNSAFE, "the kernel has one block of it"
    if GIVEN in kinds and not BLOCK.fullmatch(name):
        return UNSAFE, "it may be a size of the data"
    return (HOST, _layout(name, code)) if hosts else _unhosted(name, code, siblings)


def _layout(name: str, code: KernelCode) -> str:
    return (
        "host code computes it, and it shapes data"
        if name in code.sizes
        else "host code computes it"
    )


def _unhosted(
    name: str, code: KernelCode, siblings: Sequence[Mapping[str, Any]]
) -> tuple[str, str]:
    """Without the host code: what is named like a block, shapes no data and follows no size in any
    recorded launch.
    """
    if not BLOCK.fullmatch(name) or name in code.sizes:
        return UNSAFE, "it may be a size of the data"
    if _follows_a_size(name, siblings):
        return UNSAFE, "it follows a size in every recorded launch"
    return HOST, "named like a block; the host code is not known"


def _follows_a_size(name: str, siblings: Sequence[Mapping[str, Any]]) -> bool:
    """Whether another integer, or its next power of two, is always this one, where this one has
    several values.
    """
    rows = [
        {other: held for other, spec in args.items() if (held := _number(spec)) is not None}
        for args in siblings
    ]
    rows = [row for row in rows if name in row]
    if len({row[name] for row in rows}) < 2:
        return False
    others = set.intersection(*(set(row) for row in rows)) - {name}
    return any(all(row[other] <= row[name] < 2 * row[other] for row in rows) for other in others)


def _constexpr(spec: Any) -> int | None:
    held = spec.get("constexpr") if isinstance(spec, Mapping) else None
    return held if type(held) is int else None


def _number(spec: Any) -> int | None:
    held = _constexpr(spec)
    plain = spec.get("int") if isinstance(spec, Mapping) else None
    return held if held is not None else (plain if type(plain) is int else None)


def _recomputed(
    host: HostLaunch, name: str, before: Mapping[str, int], use: Mapping[str, Any]
) -> int | None:
    """The value that host code passes after a change, from the expression that gave the recorded
    one.
    """
    names = {
        getattr(passed, "id", other): other
        for other, passed in host.passed.items()
        if other in before
    }
    own = getattr(host.passed[name], "id", None)
    known = {local: before[other] for local, other in names.items() if local != own}
    then = {local: use.get(other, before[other]) for local, other in names.items() if local != own}
    pairs = list(zip(host.values(known, name), host.values(then, name)))
    return next((new for old, new in pairs if old == before[name]), None)
