"""`flacheck.known`: published results of a package; nothing is compiled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flacheck.api.arguments import (
    split,
    texts,
    torch_requirements,
)
from flacheck.api.options.commands import KnownOptions
from flacheck.api.options.declaration import takes
from flacheck.api.results import library_of
from flacheck.capabilities.known_results.document import Known
from flacheck.capabilities.known_results.lookup import KnownRequest, look_up, releases_of_torch
from flacheck.errors import UsageError
from flacheck.evidence.measured.comparison import stored_measurements
from flacheck.evidence.published.evidence import stored_evidence
from flacheck.source.packages import package as packages
from flacheck.store import FILE, Store

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes(KnownOptions)
def known(package: str, **options: Unpack[KnownOptions]) -> Known:
    """Return what is published about a package: failing kernels, good releases, pins.

    Failures that the user's own store holds count, too.

    Args:
        package: `NAME` for all versions, `NAME==VERSION`, a range such as `NAME>=0.4`, or a matrix.
        **options: The options of `flacheck known`.

    Raises:
        UsageError: If nothing is published about it, or the results are damaged.
    """
    name = package
    versions = None
    if packages.is_range(package):
        plain_name, versions = packages.parse_range(package)
        name = f"{plain_name}{versions}"
    elif "==" in package:
        name = "==".join(packages.parse(package))
    elif set(package) & set("<>=!~/[]; "):
        raise UsageError(
            f"{package!r}: give NAME, NAME==VERSION or a range, as flash-linear-attention>=0.4"
        )
    releases = list(split(options["triton"]))
    torch_names = []
    for requirement in torch_requirements(texts(options["torch"])):
        torch_names.append(requirement.removeprefix("torch").removeprefix("=="))
        releases += releases_of_torch(requirement)
    request = KnownRequest(
        name,
        split(options["target"]),
        tuple(releases),
        ", ".join(torch_names),
        versions,
        split(options["op"]),
        split(options["kernel"]),
        split(options["dtype"]),
    )
    library = library_of(options["results"])
    folder = Path(options["store"])
    if not (folder / FILE).is_file():
        return look_up(library, request)
    with Store.open(folder, create=False) as open_store:
        beside = stored_evidence(open_store, request.is_about)
        return look_up(library, request, beside, stored_measurements(open_store))
