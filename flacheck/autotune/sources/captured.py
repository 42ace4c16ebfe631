"""A package, captured under each toolchain and on each target, with the launches that shipped
matrices know of it.

A launch that a matrix declares was somebody's; one that the driver made up only fits the kernel. So
the first comes first. Where the package cannot be imported, its kernels are named with what their
source says of their keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from flacheck.autotune.examined import Tuned
from flacheck.autotune.sources import matrices, recorded
from flacheck.autotune.sources.base import Asked, Gathered
from flacheck.capture.cards import card
from flacheck.capture.drive import drive
from flacheck.errors import EmptySelection, ToolchainError
from flacheck.inputs import captured, launches, matrix, planning
from flacheck.inputs.expand import Source
from flacheck.inputs.launches import RecordedLaunch
from flacheck.inputs.matrix import Matrix
from flacheck.model import Cell, Kernel, Launch, Stubbed, digest
from flacheck.packages import package as packages
from flacheck.packages.package import Package
from flacheck.source import autotuned
from flacheck.tables import targets
from flacheck.toolchains import Resolver, provide
from flacheck.toolchains.base import Choice


def gather(asked: Asked) -> Gathered:
    """The package's autotuned kernels that the glob names, under each toolchain on each target."""
    assert asked.package is not None
    resolver = Resolver()
    specs = asked.selection.toolchains or ("installed",)
    names = dict.fromkeys(name for spec in specs for name in resolver(spec))
    package = packages.provide_package(asked.package, asked.progress)
    reported = _Reported(
        asked, package, [name for name in _declared_kernels(package) if asked.names(name)]
    )
    found = [
        each
        for name in names
        for target in asked.selection.targets or captured.DEFAULT_TARGETS
        for each in _found(reported, resolver, resolver.choices[name], targets.find(target).name)
    ]
    if not found:
        raise EmptySelection(
            f"{asked.package}: no kernel that {asked.glob!r} names has an autotuner"
        )
    return Gathered(found, resolver.choices, {package.identity: package}, resolver.warnings)


@dataclass(frozen=True)
class _Reported:
    """The question about one package: its autotuned kernels that it names, and what shipped
    matrices know of them.
    """

    asked: Asked
    package: Package
    declared: Sequence[str]

    def known(self, kernel: str) -> Iterator[tuple[Matrix, list[Source]]]:
        """What shipped matrices launch the package's kernel with at this version."""
        spec = self.package.identity
        for read in map(matrix.find, matrix.names()):
            if any(fnmatchcase(spec, listed) for listed in read.packages):
                sources = planning.package_sources(read, spec, self.package)
                yield read, [source for source in sources if source.kernel.name == kernel]


def _found(reported: _Reported, resolver: Resolver, choice: Choice, target: str) -> Iterator[Tuned]:
    asked, package = reported.asked, reported.package
    narrowed = replace(
        asked, selection=replace(asked.selection, toolchains=(choice.identity,), targets=(target,))
    )
    entries = recorded.by_kernel(_captured(asked, package, choice, target))
    for name, seen in entries.items():
        if asked.names(name):
            own = recorded.examined(
                narrowed, seen, {package.identity: package}, resolver, (target,), True
            )
            yield from _merged(_from_matrices(reported, narrowed, resolver, name), list(own))
    yield from (
        _unlaunched(package, choice, target, name)
        for name in reported.declared
        if name not in entries
    )


def _captured(asked: Asked, package: Package, choice: Choice, target: str) -> list[RecordedLaunch]:
    """What the package's autotuners were asked; nothing without the compiler, or where the package
    does not import.
    """
    if choice.reason or choice.knows(target):
        return []
    try:
        toolchain = provide(choice, asked.progress)
    except ToolchainError:
        return []
    driven = drive(package, toolchain, card(target), asked.progress)
    if driven.import_error:
        last = driven.import_error.strip().splitlines()[-1]
        asked.progress(f"{package.identity} cannot be imported under {choice.identity}: {last}")
        return []
    return [
        entry
        for entry in launches.read(driven.launches, ours=True).launches
        if entry.launch.configs
    ]


def _from_matrices(
    reported: _Reported, asked: Asked, resolver: Resolver, kernel: str
) -> list[Tuned]:
    provided = {reported.package.identity: reported.package}
    return [
        tuned
        for read, sources in reported.known(kernel)
        if sources
        for tuned in matrices.examined(read, sources, asked.selection, resolver, provided)
    ]


def _merged(known: Sequence[Tuned], own: Sequence[Tuned]) -> Iterator[Tuned]:
    """A launch of a matrix in the place of the captured one, told what the capture saw of the
    kernel.
    """
    for each in own:
        place = (each.cell.toolchain, each.cell.target)
        better = next(
            (other for other in known if (other.cell.toolchain, other.cell.target) == place), None
        )
        yield replace(better, seen=(*each.seen, *better.seen)) if better else each


def _unlaunched(package: Package, choice: Choice, target: str, name: str) -> Tuned:
    """A kernel without a launch: whether its module can be imported is all that can be asked."""
    module, _, qualname = name.partition(":")
    origin = Stubbed(module, qualname)
    kernel = Kernel(name, package.identity, digest([package.digest, name]), origin)
    cell = Cell(kernel, choice.identity, target, Launch({}), stage="import")
    return Tuned(cell, {}, (), True, autotuned.of_module(Path(package.path), name))


def _declared_kernels(package: Package) -> Iterator[str]:
    """The autotuned kernels in a package's own modules."""
    root = Path(package.path)
    for top in package.modules:
        for file in sorted((root / top).rglob("*.py")):
            module = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(
                ".__init__"
            )
            yield from (f"{module}:{name}" for name in autotuned.names_in(file))
