"""Values that a shell offers for an argument: names that exist here. Nothing is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flacheck.api.options.declaration import STORE, PathLike
from flacheck.model import Verdict
from flacheck.store import Store


def kernels(store: PathLike = STORE) -> Iterator[str]:
    """Yield the names of flacheck's own kernels, then of those with a stored record."""
    from flacheck.subjects.inputs import corpus

    yield from corpus.load()
    if _has_store(store):
        with Store.open(store, create=False) as open_store:
            yield from dict.fromkeys(record.kernel for record in open_store.latest())


def failing_cells(store: PathLike = STORE) -> Iterator[tuple[str, str]]:
    """Yield the short key of each failing cell, with its kernel, release and target."""
    if not _has_store(store):
        return
    with Store.open(store, create=False) as open_store:
        for record in open_store.latest():
            if record.verdict is Verdict.FAILS:
                where = f"{record.kernel} {record.toolchain} {record.target} {record.code}"
                yield record.key[:12], where


def runs(store: PathLike = STORE) -> Iterator[tuple[str, str]]:
    """Yield the id of each stored run, with the time of its start."""
    if not _has_store(store):
        return
    with Store.open(store, create=False) as open_store:
        for run in open_store.runs():
            yield run.id, run.started[:19]


def targets() -> Iterator[tuple[str, str]]:
    """Yield each target with its GPU."""
    from flacheck.tables.targets import TARGETS

    for name, row in TARGETS.items():
        yield name, row.gpu


def dtypes() -> Iterator[str]:
    """Yield the names of dtypes."""
    from flacheck.model.launch import DTYPES

    yield from DTYPES


def matrices() -> Iterator[str]:
    """Yield the names of the matrices that ship with flacheck."""
    from flacheck.subjects.inputs import matrix

    yield from matrix.names()


def releases() -> Iterator[str]:
    """Yield the releases of Triton that this flacheck lists, and `installed`."""
    from flacheck.toolchains.triton_releases import known_releases

    yield "installed"
    yield from known_releases()


def torch_releases() -> Iterator[tuple[str, str]]:
    """Yield the releases of torch in the table of pins, with the Triton of each."""
    from flacheck.toolchains.torch_pins import pins

    for torch, triton in pins().items():
        yield torch, f"triton {triton}"


def toolchains() -> Iterator[str]:
    """Yield the compilers in the cache."""
    from flacheck.toolchains import installed_toolchains

    for shelf in installed_toolchains():
        yield str(shelf.manifest.get("identity", shelf.path.name))


def packages() -> Iterator[tuple[str, str]]:
    """Yield the packages with Triton kernels that are installed here, as NAME==VERSION."""
    from flacheck.subjects.inputs import nearby

    here = nearby.look(Path.cwd())
    for package in here.packages if here else ():
        yield package.spec, f"{package.kernels} kernels"


def codes() -> Iterator[tuple[str, str]]:
    """Yield each failure code with its title."""
    from flacheck.rules import RULES

    for code, rule in sorted(RULES.items()):
        yield code, rule.title


def stages() -> Iterator[str]:
    """Yield the names of compiler stages."""
    from flacheck import toolchains

    yield from toolchains.stages()


def schemas() -> Iterator[str]:
    """Yield the names of the JSON Schemas."""
    from flacheck.api.lists import list_schemas

    yield from list_schemas()


def _has_store(store: PathLike) -> bool:
    return (Path(store) / "flacheck.sqlite").is_file()
