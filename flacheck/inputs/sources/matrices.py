"""Matrices: those that ship with flacheck, by name, and YAML files."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from flacheck.errors import EmptySelection
from flacheck.inputs import corpus, matrix
from flacheck.inputs.expand import Selection, Source, check_kernels
from flacheck.inputs.matrix import DeclaredLaunch, Matrix
from flacheck.inputs.subject import DEFAULT_MATRIX, Kernels, Subject
from flacheck.model import Kernel, Launch, Stubbed, digest
from flacheck.packages import package as packages
from flacheck.packages.package import Package

SUFFIXES = (".yaml", ".yml")


def kernels(subject: Subject, selection: Selection) -> Kernels:
    """The kernels of a matrix, flacheck's own and its packages', with their launches."""
    read = matrix.find(subject.matrix or DEFAULT_MATRIX)
    if selection.ops:
        raise EmptySelection(
            f"matrix {read.name}: its launches are declared, so no call path leads to them and --op"
            " selects none; use --kernel, or name a package or a launches file"
        )
    provided = {spec: packages.provide_package(spec) for spec in _needed(read, selection)}
    return Kernels(read, sources_of(read, provided), provided)


def _needed(read: Matrix, selection: Selection) -> Sequence[str]:
    """The matrix's packages, unless the selection only asks for kernels of flacheck's own."""
    own = corpus.load()
    check_kernels(selection.kernels, [*own, *read.launches])
    of_packages = [kernel for kernel in read.launches if ":" in kernel]
    if not selection.kernels or any(selection.names(kernel) for kernel in of_packages):
        return read.packages
    return ()


def sources_of(read: Matrix, provided: Mapping[str, Package]) -> list[Source]:
    """A matrix's kernels, flacheck's own and the packages', with their launches."""
    sources = _own_sources(read)
    for spec, package in provided.items():
        sources += package_sources(read, spec, package)
    return sources


def _own_sources(read: Matrix) -> list[Source]:
    """flacheck's own kernels with what they declare; a matrix's launches of one stand in for its
    own."""
    sources = []
    for name, source in corpus.load().items():
        if name in read.launches:
            (declared,) = source.launches
            instead = tuple(_completed(each, declared) for each in read.launches[name])
            sources.append(replace(source, launches=instead))
        elif _asks_for_corpus(read):
            sources.append(source)
    return sources


def _completed(each: DeclaredLaunch, declared: Launch) -> Launch:
    """A matrix's launch of one of flacheck's own kernels, with what only the kernel declares."""
    launch = each.launch
    return Launch(
        launch.args,
        launch.omitted or declared.omitted,
        launch.configs or declared.configs,
        launch.keys or declared.keys,
    )


def _asks_for_corpus(read: Matrix) -> bool:
    """A matrix that brings launches of its own is about those, unless it names kernels of
    flacheck's own."""
    globs = [glob for block in read.blocks for glob in block.axes.get("kernel", ())]
    return not read.launches or any("." in glob and ":" not in glob for glob in globs)


def package_sources(read: Matrix, spec: str, package: Package) -> list[Source]:
    """A package's kernels with the launches that a matrix declares for it."""
    sources = []
    for name, listed in read.launches.items():
        launches = tuple(each.launch for each in listed if fnmatchcase(spec, each.package))
        if ":" not in name or not launches:
            continue
        module, _, qualname = name.partition(":")
        operator, form = read.forms.get(name, (None, None))
        identity = digest([package.digest, name])
        kernel = Kernel(name, spec, identity, Stubbed(module, qualname), operator, form)
        sources.append(Source(kernel, launches))
    return sources
