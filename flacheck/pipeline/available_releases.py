"""Triton releases on this machine, which a run may compile under without a download."""

from collections.abc import Iterable, Mapping

from flacheck.analysis.order import by_version, split
from flacheck.errors import ToolchainError
from flacheck.model import Cell
from flacheck.toolchains import FAMILIES, Resolver, installed_toolchains, triton_releases
from flacheck.toolchains.base import Choice

_TRITON = "triton"


def cached_choices() -> Mapping[str, Choice]:
    """Return the Triton releases in the user's cache, oldest first."""
    resolver = Resolver()
    suffix = triton_releases.suffix()
    identities = set()
    for toolchain in installed_toolchains():
        if toolchain.path.name.endswith(suffix):
            identities.add(str(toolchain.manifest.get("identity")))
    for identity in sorted(identities, key=by_version):
        version = split(identity)[1]
        # A local build lacks a release number, and therefore neighbours.
        if version in triton_releases.known_releases():
            resolver(f"{_TRITON}=={version}")
    return resolver.choices


def newer_choices(cells: Iterable[Cell]) -> list[Choice]:
    """Return the available releases that may show whose failure a made-up launch's is.

    They are newer than the oldest release of the made-up launches, and the newest comes first.
    """
    versions = {cell.toolchain for cell in cells if cell.kernel.is_made_up}
    own = [version for version in versions if split(version)[0] == _TRITON]
    if not own:
        return []
    oldest = min(own, key=by_version)
    choices = dict(cached_choices())
    try:
        installed = FAMILIES[_TRITON].find_installed()
    except ToolchainError:
        pass
    else:
        if split(installed.identity)[1] in triton_releases.known_releases():
            choices.setdefault(installed.identity, installed)
    newer = [each for each in choices.values() if by_version(each.identity) > by_version(oldest)]
    return sorted(newer, key=lambda each: by_version(each.identity), reverse=True)
