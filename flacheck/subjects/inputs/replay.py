"""The kernels from which recorded launches are compiled again.

A kernel is imported from its package beside torch, or else compiled as it was cut out. A cut
freezes the branches that the package took under the recorded release; an import takes the branches
of the present one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from flacheck.engine.package_builds import provide_package
from flacheck.engine.provider import torch_folder
from flacheck.errors import UsageError
from flacheck.model import Imported, Kernel, Launch, Stubbed, digest
from flacheck.model.kernel import Origin
from flacheck.source.packages.package import Package
from flacheck.subjects.inputs import launches
from flacheck.subjects.inputs.expand import Source
from flacheck.subjects.inputs.launches import RecordedLaunch

# The most kernels that an error names.
_MOST_NAMES = 4


def provide_packages(
    file: Path, entries: Sequence[RecordedLaunch], trust: bool
) -> dict[str, Package]:
    """Install the packages that a launches file names, which requires the user's `trust`.

    Raises UsageError without it if a kernel lacks a source of its own. Without torch only such
    kernels need their packages.
    """
    uncut = [entry for entry in entries if entry.text is None]
    if uncut and not trust:
        names = sorted({entry.kernel for entry in uncut})
        raise UsageError(
            f"{file}: {len(names)} kernels have no source ({', '.join(names[:_MOST_NAMES])}); "
            "--trust lets flacheck install and import the packages that the file names, --kernel "
            "chooses other kernels"
        )
    if not trust:
        return {}
    importing = entries if torch_folder() else uncut
    specs = {entry.package for entry in importing if entry.package}
    by_spec = {}
    for spec in sorted(specs):
        by_spec[spec] = provide_package(spec)
    return by_spec


def sources(
    entries: Sequence[RecordedLaunch], by_spec: Mapping[str, Package], or_cut: bool = False
) -> list[Source]:
    """Return the kernels to compile with their launches, heuristics resolved.

    Kernels are imported if possible, else compiled as cut out. With `or_cut`, a cut also replaces
    an import that fails in a worker, which is right for launches that were recorded under the
    release that they are compiled with.
    """
    beside_torch = torch_folder() is not None
    importable = []
    cut = []
    for entry in entries:
        if _is_importable(entry, by_spec, beside_torch):
            importable.append((entry, entry.without_decorators()))
        else:
            cut.append(entry)
    return [*launches.sources(cut), *_import_sources(importable, by_spec, or_cut)]


def decorated_sources(
    entries: Sequence[RecordedLaunch], by_spec: Mapping[str, Package]
) -> list[Source]:
    """Return the importable kernels with their decorators, as their host code launches them.

    The recorded results of heuristics are kept, because a worker lacks the data to compute them.
    """
    own = []
    for entry in entries:
        if entry.package in by_spec:
            own.append((entry, replace(entry.launch, heuristics=entry.heuristics)))
    return _import_sources(own, by_spec)


def _is_importable(
    entry: RecordedLaunch, by_spec: Mapping[str, Package], beside_torch: bool
) -> bool:
    """Return True for a kernel to import: beside torch, or because its source was not cut out.

    A kernel that is defined within a function cannot be imported by name.
    """
    if entry.package not in by_spec:
        return False
    return entry.text is None or (beside_torch and "<locals>" not in entry.kernel)


def _import_sources(
    entries: Iterable[tuple[RecordedLaunch, Launch]],
    by_spec: Mapping[str, Package],
    or_cut: bool = False,
) -> list[Source]:
    beside_torch = torch_folder() is not None
    pairs = []
    for entry, launch in entries:
        package = by_spec[entry.package or ""]
        pairs.append((_kernel(entry, package, beside_torch, or_cut), launch))
    return launches.group_launches(pairs)


def _kernel(entry: RecordedLaunch, package: Package, beside_torch: bool, or_cut: bool) -> Kernel:
    module, _, qualname = entry.kernel.partition(":")
    identity = digest([package.digest, entry.kernel])
    origin: Origin = Stubbed(module, qualname, entry.made_up)
    if beside_torch:
        cut = None
        if or_cut:
            cut = entry.text
        origin = Imported(module, qualname, entry.made_up, cut)
    return Kernel(entry.kernel, entry.package, identity, origin)
