"""Which of a launch's constexprs a fallback may change, and who has to change them.

- `tunable`: the autotuner supplies it; a `triton.Config` is all that changes.
- `host constant`: a tile size that host code computes or was given; the change has to be made
  there.
- `unsafe`: a size of the data, a block that has to hold all of one, or what nothing is known of. It
  stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from flacheck.analysis.observation import BLOCK
from flacheck.model import Cell, Corpus, Cut, Kernel, Unit, Unrecorded
from flacheck.packages.package import Package
from flacheck.source.host_code import (
    COVERS,
    GIVEN,
    SIZE,
    HostLaunch,
    launches_in_file,
    launches_in_package,
)
from flacheck.source.kernel_code import KernelCode, code_of
from flacheck.source.modules import file_of
from flacheck.source.syntax import content
from flacheck.tables import find_shipped_folder

TUNABLE, HOST, UNSAFE = "tunable", "host constant", "unsafe"
# No release takes a side of a dot that is smaller.
DOT = 16


@dataclass(frozen=True)
class Constexpr:
    """An integer constexpr of a launch: its value, what may be done to it (`mark`) and `why`."""

    name: str
    value: int
    mark: str
    why: str


@dataclass(frozen=True)
class Constexprs:
    """The integer constexprs of a launch, and what ties them to each other and to others."""

    by_name: Mapping[str, Constexpr]
    code: KernelCode
    hosts: tuple[HostLaunch, ...] = ()

    @property
    def blocks(self) -> tuple[str, ...]:
        """The tile sizes, whoever may change them."""
        return tuple(name for name in self.by_name if name in self.code.blocks)

    def halved(self, name: str, size: int) -> list[int]:
        """A tile size halved again and again: powers of two, for dots 16 and more."""
        if name not in self.code.blocks or size & (size - 1):
            return []
        halves = [size >> step for step in range(1, size.bit_length())]
        return [half for half in halves if half >= DOT or not self.code.dots]

    def follow(self, args: Mapping[str, Any], use: Mapping[str, Any]) -> dict[str, Any] | None:
        """What host code passes differently when `use` changes: `NC = cdiv(BT, BC)`; None where
        that cannot be read or the change breaks a division of the kernel's (`BT // BC`)."""
        before = _integers(args)
        changed = use.keys() & before.keys()
        after: dict[str, Any] = {}
        for name in sorted(self._made_of.keys() & before.keys() - use.keys()):
            hosts = [host for host, made_of in self._made_of[name] if changed & made_of]
            values = {_recomputed(host, name, before, use) for host in hosts} - {None}
            if hosts and len(values) != 1:
                return None
            after.update((name, value) for value in values if value != before[name])
        now = {**before, **use, **after}
        for one, by in self.code.divided:
            divided = before.get(by) and one in before and before[one] % before[by] == 0
            # What was divided without rest has to be so still.
            if divided and (not now[by] or now[one] % now[by]):
                return None
        return after

    @cached_property
    def _made_of(self) -> dict[str, list[tuple[HostLaunch, set[str]]]]:
        """For each argument the launches, with the other arguments its value is made of there."""
        made_of: dict[str, list[tuple[HostLaunch, set[str]]]] = {}
        for host in self.hosts:
            own = {name: getattr(passed, "id", None) for name, passed in host.passed.items()}
            for name in host.passed:
                uses = host.uses(name)
                others = {other for other, variable in own.items() if variable in uses}
                made_of.setdefault(name, []).append((host, others - {name}))
        return made_of


def constexprs(
    cell: Cell, packages: Mapping[str, Package], siblings: Iterable[Mapping[str, Any]] = ()
) -> Constexprs:
    """The integer constexprs of a cell; `siblings` are arguments of its kernel's other launches."""
    code = kernel_code(cell.kernel, packages)
    hosts = tuple(host_launches(cell.kernel, code.parameters, packages))
    tuned = {name for config in cell.configs for name in config.get("kwargs", {})}
    others = [_integers(args) for args in siblings]
    by_name = {}
    if cell.launch:
        for name, size in _integers(cell.launch.args, ("constexpr",)).items():
            mark, why = HOST, _refusal(name, cell, code, hosts) or ""
            if name in tuned:
                mark, why = TUNABLE, "in the autotuner's list"
            elif why:
                mark = UNSAFE
            elif not hosts:
                mark, why = _unhosted(name, code, others)
            elif name in code.sizes:
                why = "host code computes it, and it shapes data"
            else:
                why = "host code computes it"
            by_name[name] = Constexpr(name, size, mark, why)
    return Constexprs(by_name, code, hosts)


def _refusal(name: str, cell: Cell, code: KernelCode, hosts: Sequence[HostLaunch]) -> str | None:
    """Why a constexpr must stay as it is, None when nothing speaks against a change."""
    if name in cell.shape:
        return "a size of the shape"
    if name not in code.blocks:
        return "no side of a tile"
    kinds = {host.kind(name) for host in hosts if name in host.passed}
    if hosts and not kinds:
        return "no host code is seen to pass it"
    if SIZE in kinds:
        return "a size of the data"
    if COVERS in kinds:
        return "one block has to hold a whole size"
    if name not in code.tiled:
        return "the kernel has one block of it"
    # `chunk_size` that a caller passes may as well be a head size: only the name can tell.
    if GIVEN in kinds and not BLOCK.fullmatch(name):
        return "it may be a size of the data"
    return None


def _unhosted(
    name: str, code: KernelCode, siblings: Sequence[Mapping[str, int]]
) -> tuple[str, str]:
    """Without host code: a block by its name that shapes no data, follows no size, may change."""
    if not BLOCK.fullmatch(name) or name in code.sizes:
        return UNSAFE, "it may be a size of the data"
    rows = [row for row in siblings if name in row]
    # With one value any size would seem to be followed.
    if len({row[name] for row in rows}) > 1:
        for other in set.intersection(*(set(row) for row in rows)) - {name}:
            # The other integer, or its next power of two, is always this one.
            if all(row[other] <= row[name] < 2 * row[other] for row in rows):
                return UNSAFE, "it follows a size in every recorded launch"
    return HOST, "named like a block; the host code is not known"


def _integers(
    args: Mapping[str, Any], kinds: Sequence[str] = ("constexpr", "int")
) -> dict[str, int]:
    """The integers among the arguments of a launch."""
    integers = {}
    for name, spec in args.items():
        for kind in kinds:
            # A truth value is an int to Python, and no size.
            if isinstance(spec, Mapping) and type(spec.get(kind)) is int:
                integers[name] = spec[kind]
    return integers


def _recomputed(
    host: HostLaunch, name: str, before: Mapping[str, int], use: Mapping[str, Any]
) -> int | None:
    """What host code passes after a change, by the expression that gave the recorded value."""
    own = getattr(host.passed[name], "id", None)
    known, then = {}, {}
    for other, passed in host.passed.items():
        variable = getattr(passed, "id", other)
        if other in before and variable != own:
            known[variable] = before[other]
            then[variable] = use.get(other, before[other])
    for old, new in zip(host.values(known, name), host.values(then, name)):
        if old == before[name]:
            return new
    return None


def kernel_code(kernel: Kernel, packages: Mapping[str, Package]) -> KernelCode:
    """What the source of a kernel says; nothing of one whose source cannot be read."""
    origin = kernel.origin
    if isinstance(origin, Cut):
        return code_of(origin.source.encode(), origin.qualname)
    if isinstance(origin, Corpus):
        return code_of(content(find_shipped_folder("kernels") / f"{origin.family}.py"), origin.name)
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
    """Every launch of a kernel in its package or in our own file; none where that is not known."""
    origin = kernel.origin
    if isinstance(origin, Corpus):
        file = find_shipped_folder("kernels") / f"{origin.family}.py"
        return launches_in_file(file, origin.name, parameters)
    package = packages.get(kernel.package or "")
    if package is None:
        return ()
    return launches_in_package(Path(package.path), kernel.name, parameters)
