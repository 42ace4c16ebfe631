"""Matrices: those that ship with flacheck, by name, and YAML files."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from flacheck.engine.package_builds import provide_package
from flacheck.errors import EmptySelection
from flacheck.model import Kernel, Launch, Stubbed, digest
from flacheck.source.packages.package import Package
from flacheck.subjects.inputs import corpus, matrix
from flacheck.subjects.inputs.expand import Selection, Source, check_kernels
from flacheck.subjects.inputs.matrix import DeclaredLaunch, Matrix
from flacheck.subjects.inputs.subject import DEFAULT_MATRIX, Kernels, Subject

SUFFIXES = (".yaml", ".yml")


def kernels(subject: Subject, selection: Selection) -> Kernels:
    """Return the kernels of a matrix with their launches: flacheck's own and those of packages."""
    read = matrix.find(subject.matrix or DEFAULT_MATRIX)
    if selection.ops:
        raise EmptySelection(
            f"matrix {read.name}: its launches are declared, so no call path leads to them and --op"
            " selects none; use --kernel, or name a package or a launches file"
        )
    by_spec = {spec: provide_package(spec) for spec in _package_specs(read, selection)}
    return Kernels(read, sources_of(read, by_spec), by_spec)


def _package_specs(read: Matrix, selection: Selection) -> Sequence[str]:
    """Return the matrix's packages; none if the selection has only flacheck's own kernels."""
    own = corpus.load()
    check_kernels(selection.kernels, [*own, *read.launches])
    if not selection.kernels:
        return read.packages
    for kernel in read.launches:
        if ":" in kernel and selection.names(kernel):
            return read.packages
    return ()


def sources_of(read: Matrix, by_spec: Mapping[str, Package]) -> list[Source]:
    """Return a matrix's kernels with their launches, flacheck's own and the packages'."""
    sources = _own_sources(read)
    for spec, package in by_spec.items():
        sources += package_sources(read, spec, package)
    return sources


def _own_sources(read: Matrix) -> list[Source]:
    """Return flacheck's own kernels; a matrix's launches replace those of the declaration."""
    sources = []
    for name, source in corpus.load().items():
        if name in read.launches:
            (own,) = source.launches
            launches = [_complete(each, own) for each in read.launches[name]]
            sources.append(replace(source, launches=tuple(launches)))
        elif _includes_corpus(read):
            sources.append(source)
    return sources


def _complete(each: DeclaredLaunch, own: Launch) -> Launch:
    """Return a matrix's launch of flacheck's own kernel, completed by its declaration."""
    launch = each.launch
    return Launch(
        launch.args,
        launch.omitted or own.omitted,
        launch.configs or own.configs,
        launch.keys or own.keys,
    )


def _includes_corpus(read: Matrix) -> bool:
    """Return True for a matrix without own launches, or one that names flacheck's kernels."""
    if not read.launches:
        return True
    for block in read.blocks:
        for glob in block.axes.get("kernel", ()):
            if "." in glob and ":" not in glob:
                return True
    return False


def package_sources(read: Matrix, spec: str, package: Package) -> list[Source]:
    """Return a package's kernels with the launches that a matrix declares for it."""
    sources = []
    for name, declarations in read.launches.items():
        launches = [each.launch for each in declarations if fnmatchcase(spec, each.package)]
        if ":" not in name or not launches:
            continue
        module, _, qualname = name.partition(":")
        operator, form = read.forms.get(name, (None, None))
        identity = digest([package.digest, name])
        kernel = Kernel(name, spec, identity, Stubbed(module, qualname), operator, form)
        sources.append(Source(kernel, tuple(launches)))
    return sources
