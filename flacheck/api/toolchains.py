"""`flacheck.…_toolchains`: the compilers in the cache, each isolated in its own folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from flacheck import toolchains
from flacheck.api.arguments import texts
from flacheck.api.options.declaration import Texts
from flacheck.errors import IncompleteError
from flacheck.pipeline.events import OnEvent, Progress, ignore
from flacheck.toolchains import connections
from flacheck.toolchains.base import Toolchain
from flacheck.toolchains.cache import Shelf


@contextmanager
def package_index(*, offline: bool = False, refresh: bool = False) -> Iterator[None]:
    """Choose how the functions called inside `with` use package indexes.

    Args:
        offline: Read no index: use what is installed or in the cache.
        refresh: Read each index again instead of its listing of today.
    """
    with connections.of_indexes(offline=offline, refresh=refresh):
        yield


def list_toolchains() -> Sequence[Shelf]:
    """Return the compilers in the cache."""
    return list(toolchains.installed_toolchains())


def install_toolchains(specs: Texts, *, on_event: OnEvent | None = None) -> Iterator[Toolchain]:
    """Install compilers; yield each as soon as it is ready.

    Args:
        specs: Exact versions, specifiers or paths.
        on_event: Receives warnings.

    Raises:
        UsageError: If a version does not exist.
        IncompleteError: If a version cannot be installed here.
    """
    handle = on_event or ignore
    resolution = toolchains.resolve(texts(specs))
    for warning in resolution.warnings:
        handle(Progress(warning))
    total = len(resolution.choices)
    for number, choice in enumerate(resolution.choices, 1):
        if total > 1:
            share = 100 * (number - 1) // total
            handle(
                Progress(f"{choice.identity}: {number} of {total}, {share} % done", is_step=True)
            )
        # An exact version without a wheel for this Python.
        if choice.reason:
            raise IncompleteError(f"{choice.identity}: {choice.reason}")
        yield toolchains.provide(choice)


def remove_toolchains(names: Texts) -> Sequence[Shelf]:
    """Remove compilers from the cache; return what was removed.

    Args:
        names: `triton==3.2.0`, or `3.2.0` alone.

    Raises:
        UsageError: If a compiler is not in the cache.
    """
    return list(toolchains.remove(texts(names)))
