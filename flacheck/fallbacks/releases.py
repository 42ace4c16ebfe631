"""Other releases on which a failing cell may compile as it is: those asked for first, then those
already here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from flacheck.analysis.order import by_version, split
from flacheck.engine.plan import Plan
from flacheck.toolchains import Resolver, installed_toolchains, triton_releases

FAMILY = "triton"


def with_those_here(plan: Plan) -> Plan:
    """The plan with the releases in the user's cache as further choices; nothing is downloaded for
    a fallback.
    """
    resolver = Resolver()
    for version in _cached():
        resolver(f"{FAMILY}=={version}")
    return replace(plan, choices={**resolver.choices, **plan.choices})


def nearest(toolchain: str, asked: Iterable[str], here: Iterable[str]) -> list[str]:
    """Toolchains by how many releases lie between, those asked for before the others; at one
    distance the newer first.

    Empty for a compiler that is no plain release: a local build has no neighbours.
    """
    known = triton_releases.known()
    wanted = [*dict.fromkeys(asked), *here]
    placed = {
        name: known.index(split(name)[1])
        for name in [toolchain, *wanted]
        if split(name)[1] in known
    }
    if toolchain not in placed:
        return []
    own, first = placed[toolchain], set(asked)
    # What was asked for is what the user has or plans to have.
    others = [name for name in dict.fromkeys(wanted) if name in placed and name != toolchain]
    return sorted(
        others, key=lambda name: (name not in first, abs(placed[name] - own), -placed[name])
    )


def distance(toolchain: str, other: str) -> int:
    """How many releases on."""
    known = triton_releases.known()
    return abs(known.index(split(toolchain)[1]) - known.index(split(other)[1]))


def _cached() -> Sequence[str]:
    fitting = (
        shelf
        for shelf in installed_toolchains()
        if shelf.path.name.endswith(triton_releases.suffix())
    )
    held = {str(shelf.manifest.get("identity")) for shelf in fitting}
    versions = [split(name)[1] for name in sorted(held, key=by_version)]
    # A local build has no release number and no neighbours.
    return [version for version in versions if version in triton_releases.known()]
