"""Where the source of a kernel and of the host code that launches it lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from flacheck.model import Corpus, Cut, Kernel, Unrecorded
from flacheck.packages.package import Package
from flacheck.source.host_code import HostLaunch, launches_in_file, launches_in_package
from flacheck.source.kernel_code import KernelCode, code_of
from flacheck.source.modules import file_of
from flacheck.source.syntax import content
from flacheck.tables import shipped


def kernel_code(kernel: Kernel, packages: Mapping[str, Package]) -> KernelCode:
    """What the source of a kernel says; nothing of one whose source cannot be read."""
    origin = kernel.origin
    if isinstance(origin, Cut):
        return code_of(origin.source.encode(), origin.qualname)
    if isinstance(origin, Corpus):
        return code_of(content(_own_file(origin)), origin.name)
    package = packages.get(kernel.package or "")
    if package is None or isinstance(origin, Unrecorded) or origin.qualname is None:
        return KernelCode()
    file = file_of(Path(package.path), origin.module)
    if file is None:
        return KernelCode()
    return code_of(content(file), origin.qualname)


def host_launches(
    kernel: Kernel, parameters: tuple[str, ...], packages: Mapping[str, Package]
) -> Sequence[HostLaunch]:
    """Every place in a kernel's package, or in our own file of it, that launches it; none where
    that is not known.
    """
    origin = kernel.origin
    if isinstance(origin, Corpus):
        return launches_in_file(_own_file(origin), origin.name, parameters)
    package = packages.get(kernel.package or "")
    if package is None:
        return ()
    return launches_in_package(Path(package.path), kernel.name, parameters)


def _own_file(origin: Corpus) -> Path:
    return shipped("kernels") / f"{origin.family}.py"
