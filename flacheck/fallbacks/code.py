"""Where the source of a kernel and of the host code that launches it lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from flacheck.inputs import corpus
from flacheck.model import Kernel
from flacheck.packages.package import Package
from flacheck.source import host_code
from flacheck.source import kernel_code as kernel_source
from flacheck.source.host_code import HostLaunch
from flacheck.source.kernel_code import KernelCode
from flacheck.source.modules import file_of
from flacheck.source.syntax import content


def kernel_code(kernel: Kernel, packages: Mapping[str, Package]) -> KernelCode:
    """What the source of a kernel says; nothing of one whose source cannot be read."""
    origin = kernel.origin
    if "source" in origin:
        return kernel_source.kernel_code(str(origin["source"]).encode(), str(origin["qualname"]))
    if "corpus" in origin:
        return kernel_source.kernel_code(content(_own_file(kernel)), str(origin["name"]))
    package = packages.get(kernel.package or "")
    if package is None or "qualname" not in origin:
        return KernelCode()
    file = file_of(Path(package.path), str(origin.get("module") or origin["import"]))
    if file is None:
        return KernelCode()
    return kernel_source.kernel_code(content(file), str(origin["qualname"]))


def host_launches(
    kernel: Kernel, parameters: tuple[str, ...], packages: Mapping[str, Package]
) -> Sequence[HostLaunch]:
    """Every place in a kernel's package, or in our own file of it, that launches it; none where
    that is not known.
    """
    if "corpus" in kernel.origin:
        name = str(kernel.origin["name"])
        return host_code.launches_in_file(_own_file(kernel), name, parameters)
    package = packages.get(kernel.package or "")
    if package is None:
        return ()
    return host_code.launches_in_package(Path(package.path), kernel.name, parameters)


def _own_file(kernel: Kernel) -> Path:
    return corpus.folder() / f"{kernel.origin['corpus']}.py"
