"""From what a recorded launch is compiled again: its package, imported beside torch, else its
source as it was cut out.

A cut freezes the branches that the package took under the release that it was recorded with; an
import takes them anew.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from flacheck.engine.provider import torch_folder
from flacheck.errors import UsageError
from flacheck.inputs import launches
from flacheck.inputs.expand import Source
from flacheck.inputs.launches import RecordedLaunch
from flacheck.model import Imported, Kernel, Launch, Stubbed, digest
from flacheck.model.kernel import Origin
from flacheck.packages import package as packages
from flacheck.packages.package import Package

# Kernels that an error names, of however many.
_NAMED = 4


def provide_packages(
    file: Path, recorded: Sequence[RecordedLaunch], trust: bool
) -> dict[str, Package]:
    """The packages that a launches file names, which takes the user's word (`trust`).

    Raises UsageError without it when a kernel has no source of its own. Without torch only such
    kernels need their packages.
    """
    uncut = [entry for entry in recorded if entry.text is None]
    if uncut and not trust:
        names = sorted({entry.kernel for entry in uncut})
        raise UsageError(
            f"{file}: {len(names)} kernels hold no source ({', '.join(names[:_NAMED])}); --trust "
            "lets flacheck install and import the packages that the file names, --kernel chooses "
            "other kernels"
        )
    if not trust:
        return {}
    needing = recorded if torch_folder() else uncut
    named = {entry.package for entry in needing if entry.package}
    return {spec: packages.provide_package(spec) for spec in sorted(named)}


def sources(
    recorded: Sequence[RecordedLaunch], provided: Mapping[str, Package], or_cut: bool = False
) -> list[Source]:
    """Kernels to compile with their launches, heuristics resolved: imported where that can be, else
    as cut out. With `or_cut` also where a worker cannot import them, which is right for launches
    that were recorded under the release that they are compiled with."""
    beside_torch = torch_folder() is not None
    by_import = [entry for entry in recorded if _importable(entry, provided, beside_torch)]
    ids = {entry.id for entry in by_import}
    cut = [entry for entry in recorded if entry.id not in ids]
    return [
        *launches.sources(cut),
        *_imported(by_import, provided, RecordedLaunch.without_decorators, or_cut),
    ]


def decorated_sources(
    recorded: Sequence[RecordedLaunch], provided: Mapping[str, Package]
) -> list[Source]:
    """Kernels with their decorators, which only an import has, as their host code launches them.
    What their heuristics made of the real tensors is held: a worker has no data to ask again."""
    within = [entry for entry in recorded if entry.package in provided]
    return _imported(
        within, provided, lambda entry: replace(entry.launch, heuristics=entry.heuristics)
    )


def _importable(entry: RecordedLaunch, provided: Mapping[str, Package], beside_torch: bool) -> bool:
    """Beside torch; a kernel defined within a function has no name to import. Without a cut there
    is no choice."""
    if entry.package not in provided:
        return False
    return entry.text is None or (beside_torch and "<locals>" not in entry.kernel)


def _imported(
    recorded: Sequence[RecordedLaunch],
    provided: Mapping[str, Package],
    launch_of: Callable[[RecordedLaunch], Launch],
    or_cut: bool = False,
) -> list[Source]:
    return launches.group_launches(
        (_kernel(entry, provided[entry.package or ""], or_cut), launch_of(entry))
        for entry in recorded
    )


def _kernel(entry: RecordedLaunch, package: Package, or_cut: bool) -> Kernel:
    module, _, qualname = entry.kernel.partition(":")
    identity = digest([package.digest, entry.kernel])
    origin: Origin = Stubbed(module, qualname, entry.made_up)
    if torch_folder():
        cut = None
        if or_cut:
            cut = entry.text
        origin = Imported(module, qualname, entry.made_up, cut)
    return Kernel(entry.kernel, entry.package, identity, origin)
