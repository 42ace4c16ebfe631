"""From what a recorded launch is compiled again: its package, imported beside torch, else its
source as it was cut out.

A cut freezes the branches that the package took under the release that it was recorded with; an
import takes them anew.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from flacheck.errors import UsageError
from flacheck.inputs import launches
from flacheck.inputs.expand import Source
from flacheck.inputs.launches import RecordedLaunch
from flacheck.model import Json, Kernel, canonical, digest
from flacheck.packages import package as packages
from flacheck.packages.package import Package
from flacheck.toolchains.base import Progress


def torch_folder() -> str | None:
    """Where the torch beside flacheck lies, None where there is none; it is not imported for this."""
    found = importlib.util.find_spec("torch")
    return str(Path(found.origin).parent.parent) if found and found.origin else None


def provided(
    file: Path, recorded: Sequence[RecordedLaunch], trust: bool, progress: Progress
) -> dict[str, Package]:
    """The packages that a launches file names, which takes the user's word (`trust`).

    Raises UsageError without it when a kernel has no source of its own. Without torch only such
    kernels need theirs.
    """
    uncut = [entry for entry in recorded if entry.text is None]
    if uncut and not trust:
        names = sorted({entry.kernel for entry in uncut})
        raise UsageError(
            f"{file}: {len(names)} kernels hold no source ({', '.join(names[:4])}); --trust lets flacheck install and "
            "import the packages that the file names, --kernel chooses others"
        )
    if not trust:
        return {}
    wanted = recorded if torch_folder() else uncut
    named = {entry.package for entry in wanted if entry.package}
    return {spec: packages.provide_package(spec, progress) for spec in sorted(named)}


def sources(recorded: Sequence[RecordedLaunch], provided: Mapping[str, Package]) -> list[Source]:
    """Kernels to compile with their launches, heuristics resolved: imported where that can be, else
    as cut out.
    """
    by_import = [entry for entry in recorded if _importable(entry, provided)]
    chosen = {entry.id for entry in by_import}
    cut = [entry for entry in recorded if entry.id not in chosen]
    return [*launches.sources(cut), *_imported(by_import, provided, RecordedLaunch.template)]


def decorated(recorded: Sequence[RecordedLaunch], provided: Mapping[str, Package]) -> list[Source]:
    """Kernels with their decorators, which only an import has, as their host code launches them."""
    within = [entry for entry in recorded if entry.package in provided]
    return _imported(within, provided, lambda entry: entry.launch.to_json())


def _importable(entry: RecordedLaunch, provided: Mapping[str, Package]) -> bool:
    """Beside torch; a kernel defined within a function has no name to import. Without a cut there
    is no choice.
    """
    if entry.package not in provided:
        return False
    return entry.text is None or (torch_folder() is not None and "<locals>" not in entry.kernel)


def _imported(
    recorded: Sequence[RecordedLaunch],
    provided: Mapping[str, Package],
    template: Callable[[RecordedLaunch], Json],
) -> list[Source]:
    how = "import" if torch_folder() else "module"
    kernels: dict[str, Kernel] = {}
    templates: dict[str, dict[str, Json]] = {}
    for entry in recorded:
        package = provided[entry.package or ""]
        module, _, qualname = entry.kernel.partition(":")
        identity = digest([package.digest, entry.kernel])
        origin: Json = {how: module, "qualname": qualname, **launches.trusted(entry)}
        kernels.setdefault(identity, Kernel(entry.kernel, entry.package, identity, origin))
        launch = template(entry)
        templates.setdefault(identity, {}).setdefault(canonical(launch), launch)
    return [
        Source(kernel, tuple(templates[identity].values())) for identity, kernel in kernels.items()
    ]
