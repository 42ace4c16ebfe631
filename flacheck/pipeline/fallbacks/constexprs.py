"""The constexprs of a launch that a fallback may change, and who has to change them.

- `tunable`: the autotuner supplies it; only a `triton.Config` changes.
- `host constant`: a tile size that host code computes or receives; the host code changes.
- `unsafe`: a size of the data, a block that must hold a whole size, or a constant of unknown
  meaning. It stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from flacheck.evidence.analysis.observation import BLOCK
from flacheck.model import Cell, Corpus, Cut, Kernel, Unit, Unrecorded
from flacheck.source.host_code import (
    CALLER,
    COVERS,
    SIZE,
    HostLaunch,
    launches_in_file,
    launches_in_package,
)
from flacheck.source.kernel_code import KernelCode, code_of
from flacheck.source.modules import file_of
from flacheck.source.packages.package import Package
from flacheck.source.syntax import content
from flacheck.subjects.inputs.corpus import defining_file

TUNABLE, HOST, UNSAFE = "tunable", "host constant", "unsafe"
# All releases reject a dot with a smaller side.
DOT = 16


@dataclass(frozen=True)
class Constexpr:
    """An integer constexpr of a launch: its value, who may change it (`mark`) and `why`."""

    name: str
    value: int
    mark: str
    why: str


@dataclass(frozen=True)
class Constexprs:
    """The integer constexprs of a launch, and how they depend on each other."""

    by_name: Mapping[str, Constexpr]
    code: KernelCode
    hosts: tuple[HostLaunch, ...] = ()

    @property
    def values(self) -> dict[str, int]:
        """The value of each constexpr."""
        return {name: constant.value for name, constant in self.by_name.items()}

    @property
    def blocks(self) -> tuple[str, ...]:
        """The tile sizes, with every mark."""
        return tuple(name for name in self.by_name if name in self.code.blocks)

    def halve(self, name: str, size: int) -> list[int]:
        """Return a tile size halved repeatedly: powers of two, for dots at least 16."""
        if name not in self.code.blocks or size & (size - 1):
            return []
        smallest = DOT if self.code.dots else 1
        halves = []
        half = size // 2
        while half >= smallest:
            halves.append(half)
            half //= 2
        return halves

    def follow(self, args: Mapping[str, Any], use: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the other arguments that host code changes with `use`: `NC = cdiv(BT, BC)`.

        Return None if the host code cannot be evaluated, or if a division in the kernel
        (`BT // BC`) would leave a remainder.
        """
        before = _integers(args)
        changes = use.keys() & before.keys()
        after: dict[str, Any] = {}
        for name in sorted(self._sources.keys() & before.keys() - use.keys()):
            is_affected = False
            values = set()
            for host, sources in self._sources[name]:
                if changes & sources:
                    is_affected = True
                    values.add(_recompute(host, name, before, use))
            values.discard(None)
            if is_affected and len(values) != 1:
                return None
            for value in values:
                if value != before[name]:
                    after[name] = value
        if not self._divides(before, {**before, **use, **after}):
            return None
        return after

    def _divides(self, before: Mapping[str, int], now: Mapping[str, Any]) -> bool:
        """Return True if all divisions in the kernel that had no remainder still have none."""
        for dividend, divisor in self.code.divisions:
            if not before.get(divisor) or dividend not in before:
                continue
            if before[dividend] % before[divisor]:
                continue
            if not now[divisor] or now[dividend] % now[divisor]:
                return False
        return True

    @cached_property
    def _sources(self) -> dict[str, list[tuple[HostLaunch, set[str]]]]:
        """The launches of each argument, with the other arguments that its value there uses."""
        sources: dict[str, list[tuple[HostLaunch, set[str]]]] = {}
        for host in self.hosts:
            for name in host.arguments:
                uses = host.uses(name)
                others = set()
                for other, value in host.arguments.items():
                    if other != name and getattr(value, "id", None) in uses:
                        others.add(other)
                sources.setdefault(name, []).append((host, others))
        return sources


def constexprs(
    cell: Cell, packages: Mapping[str, Package], siblings: Iterable[Mapping[str, Any]] = ()
) -> Constexprs:
    """Return the integer constexprs of a cell.

    `siblings` are the arguments of the other launches of its kernel.
    """
    code = kernel_code(cell.kernel, packages)
    hosts = tuple(host_launches(cell.kernel, code.parameters, packages))
    tuned_names: set[str] = set()
    for config in cell.configs:
        tuned_names.update(config.get("kwargs", {}))
    others = [_integers(args) for args in siblings]
    by_name: dict[str, Constexpr] = {}
    if cell.launch is None:
        return Constexprs(by_name, code, hosts)
    for name, size in _integers(cell.launch.args, ("constexpr",)).items():
        mark, why = HOST, _refusal(name, cell, code, hosts) or ""
        if name in tuned_names:
            mark, why = TUNABLE, "in the autotuner's list"
        elif why:
            mark = UNSAFE
        elif not hosts:
            mark, why = _mark_without_host(name, code, others)
        elif name in code.sizes:
            why = "host code computes it, and it shapes data"
        else:
            why = "host code computes it"
        by_name[name] = Constexpr(name, size, mark, why)
    return Constexprs(by_name, code, hosts)


def _refusal(name: str, cell: Cell, code: KernelCode, hosts: Sequence[HostLaunch]) -> str | None:
    """Return why a constexpr must not change; None if nothing prevents a change."""
    if name in cell.shape:
        return "a size of the shape"
    if name not in code.blocks:
        return "not a side of a tile"
    kinds = {host.kind(name) for host in hosts if name in host.arguments}
    if hosts and not kinds:
        return "no host code is known to pass it"
    if SIZE in kinds:
        return "a size of the data"
    if COVERS in kinds:
        return "one block has to hold a whole size"
    if name not in code.indexed_blocks:
        return "the kernel has one block of it"
    # A `chunk_size` that a caller passes may be a head size: only the name can tell.
    if CALLER in kinds and not BLOCK.fullmatch(name):
        return "it may be a size of the data"
    return None


def _mark_without_host(
    name: str, code: KernelCode, siblings: Sequence[Mapping[str, int]]
) -> tuple[str, str]:
    """Return mark and reason without host code.

    A constexpr with the name of a block may change if it shapes no data and follows no size.
    """
    if not BLOCK.fullmatch(name) or name in code.sizes:
        return UNSAFE, "it may be a size of the data"
    rows = [row for row in siblings if name in row]
    distinct = {row[name] for row in rows}
    # A single value would seem to follow every size.
    if len(distinct) > 1:
        common = set(rows[0]).intersection(*rows)
        for other in common - {name}:
            if _follows(rows, name, other):
                return UNSAFE, "it follows a size in every recorded launch"
    return HOST, "named like a block; the host code is not known"


def _follows(rows: Sequence[Mapping[str, int]], name: str, other: str) -> bool:
    """Return True if `name` is always the other integer or its next power of two."""
    return all(row[other] <= row[name] < 2 * row[other] for row in rows)


def _integers(
    args: Mapping[str, Any], kinds: Sequence[str] = ("constexpr", "int")
) -> dict[str, int]:
    """Return the integers among the arguments of a launch."""
    integers = {}
    for name, spec in args.items():
        for kind in kinds:
            # In Python a bool is an int, but it is not a size.
            if isinstance(spec, Mapping) and type(spec.get(kind)) is int:
                integers[name] = spec[kind]
    return integers


def _recompute(
    host: HostLaunch, name: str, before: Mapping[str, int], use: Mapping[str, Any]
) -> int | None:
    """Return the value after a change, by the host expression that gave the recorded value."""
    own = getattr(host.arguments[name], "id", None)
    old_variables, new_variables = {}, {}
    for other, value in host.arguments.items():
        variable = getattr(value, "id", other)
        if other in before and variable != own:
            old_variables[variable] = before[other]
            new_variables[variable] = use.get(other, before[other])
    old_values = host.values(old_variables, name)
    new_values = host.values(new_variables, name)
    for old, new in zip(old_values, new_values):
        if old == before[name]:
            return new
    return None


def kernel_code(kernel: Kernel, packages: Mapping[str, Package]) -> KernelCode:
    """Return the facts in a kernel's source; an empty KernelCode if it cannot be read."""
    origin = kernel.origin
    if isinstance(origin, Cut):
        return code_of(origin.source.encode(), origin.qualname)
    if isinstance(origin, Corpus):
        return code_of(content(defining_file(origin.family, origin.name)), origin.name)
    package = packages.get(kernel.package or "")
    if package is None or isinstance(origin, (Unit, Unrecorded)) or origin.qualname is None:
        return KernelCode()
    file = file_of(Path(package.path), origin.module)
    if file is None:
        return KernelCode()
    return code_of(content(file), origin.qualname)


def host_launches(
    kernel: Kernel, parameters: tuple[str, ...], packages: Mapping[str, Package]
) -> Sequence[HostLaunch]:
    """Return every launch of a kernel in its package or in flacheck's own file, if there is one."""
    origin = kernel.origin
    if isinstance(origin, Corpus):
        file = defining_file(origin.family, origin.name)
        return launches_in_file(file, origin.name, parameters)
    package = packages.get(kernel.package or "")
    if package is None:
        return ()
    return launches_in_package(Path(package.path), kernel.name, parameters)
