"""A package, captured under each toolchain and on each target, with the launches that shipped matrices know of it.

A launch that a matrix declares was somebody's; one that the driver made up only fits the kernel. So the first comes
first. Where the package cannot be imported, its kernels are named with what their source says of their keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from flacheck import launches, matrix, packaged, planning
from flacheck.autotune import declared
from flacheck.autotune.examined import Tuned
from flacheck.autotune.sources import matrices, recorded
from flacheck.autotune.sources.base import Asked, Found, Gathered
from flacheck.capture.cards import card
from flacheck.capture.drive import drive
from flacheck.errors import EmptySelection, ToolchainError
from flacheck.expand import Source, check_kernels
from flacheck.launches import RecordedLaunch
from flacheck.matrix import Matrix
from flacheck.model import Attempt, Cell, Kernel, Launch, digest
from flacheck.toolchains import packages, provide
from flacheck.toolchains.base import Choice
from flacheck.toolchains.packages import Package


def gather(asked: Asked) -> Gathered:
    """The package's autotuned kernels that the glob names, under each toolchain on each target."""
    assert asked.package is not None
    resolver = planning.Resolver()
    specs = asked.selection.toolchains or ("installed",)
    names = dict.fromkeys(name for spec in specs for name in resolver(spec))
    package = packages.provide_package(asked.package, asked.progress)
    reported = _Reported(asked, package)
    found = [
        each
        for name in names
        for target in asked.selection.targets or packaged.DEFAULT_TARGETS
        for each in _found(reported, resolver, resolver.choices[name], card(target)["name"])
    ]
    if not found:
        raise EmptySelection(f"{asked.package}: no kernel that {asked.glob!r} names has an autotuner")
    return Gathered(found, resolver.choices, {package.identity: package}, resolver.warnings)


@dataclass(frozen=True)
class _Reported:
    """The question about one package, and what shipped matrices know of its kernels."""

    asked: Asked
    package: Package

    def known(self, kernel: str) -> Iterator[tuple[Matrix, list[Source]]]:
        """What shipped matrices launch the package's kernel with at this version."""
        spec = self.package.identity
        for read in map(matrix.find, matrix.names()):
            if any(fnmatchcase(spec, listed) for listed in read.packages):
                sources = planning.package_sources(read, spec, self.package)
                yield read, [source for source in sources if source.kernel.name == kernel]


def _found(reported: _Reported, resolver: planning.Resolver, choice: Choice, target: str) -> Iterator[Found]:
    asked, package = reported.asked, reported.package
    narrowed = replace(asked, selection=replace(asked.selection, toolchains=(choice.identity,), targets=(target,)))
    unusable = choice.reason or choice.knows(target)
    failed = None if unusable else _captured(narrowed, package, choice, target)
    if unusable or isinstance(failed, Attempt):
        yield from _unlaunched(asked, package, choice, target, failed if isinstance(failed, Attempt) else None)
        return
    entries = {name: seen for name, seen in recorded.by_kernel(failed or []).items() if asked.names(name)}
    for name, seen in entries.items():
        declared_launches = _from_matrices(reported, narrowed, resolver, name)
        own = list(recorded.examined(narrowed, seen, {package.identity: package}, resolver, (target,), True))
        yield from _merged(declared_launches, own)


def _captured(asked: Asked, package: Package, choice: Choice, target: str) -> list[RecordedLaunch] | Attempt | None:
    """What the package launches; the attempt that tells why it does not even import; None without the compiler."""
    try:
        toolchain = provide(choice, asked.progress)
    except ToolchainError:
        return None
    driven = drive(package, toolchain, card(target), asked.progress)
    if driven.import_error:
        return packaged.import_attempt(driven.import_error)
    entries = launches.read(driven.launches, ours=True).launches
    check_kernels([asked.glob], [entry.kernel for entry in entries])
    return [entry for entry in entries if entry.launch.configs]


def _from_matrices(reported: _Reported, asked: Asked, resolver: planning.Resolver, kernel: str) -> list[Tuned]:
    provided = {reported.package.identity: reported.package}
    return [
        tuned
        for read, sources in reported.known(kernel)
        if sources
        for tuned in matrices.examined(read, sources, asked.selection, resolver, provided)
    ]


def _merged(known: Sequence[Tuned], own: Sequence[Tuned]) -> Iterator[Found]:
    """A launch of a matrix in the place of the captured one, told what the capture saw of the kernel."""
    for each in own:
        place = (each.cell.toolchain, each.cell.target)
        better = next((other for other in known if (other.cell.toolchain, other.cell.target) == place), None)
        yield Found(replace(better, seen=(*each.seen, *better.seen)) if better else each)


def _unlaunched(
    asked: Asked, package: Package, choice: Choice, target: str, attempt: Attempt | None
) -> Iterator[Found]:
    """The package's autotuned kernels without a launch: a cell each, of the import that fails."""
    for name in _declared_kernels(asked, package):
        kernel = Kernel(name, package.identity, digest([package.digest, name]), {"import": name.partition(":")[0]})
        cell = Cell(kernel, choice.identity, target, Launch({}), stage="import")
        source = declared.of_module(Path(package.path), name)
        yield Found(Tuned(cell, {}, (), True, source), {cell.key: attempt} if attempt else {})


def _declared_kernels(asked: Asked, package: Package) -> Iterator[str]:
    root = Path(package.path)
    for top in package.modules:
        for file in sorted((root / top).rglob("*.py")):
            module = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            names = declared.names_in(file) if "autotune" in file.read_text(encoding="utf-8", errors="replace") else []
            yield from (name for each in names if asked.names(name := f"{module}:{each}"))
