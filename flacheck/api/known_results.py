"""`flacheck.known`: published results of a package; nothing is compiled."""

from __future__ import annotations

from pathlib import Path

from flacheck.api.arguments import (
    STORE,
    PathLike,
    Several,
    Texts,
    split,
    texts,
    torch_requirements,
)
from flacheck.api.results import library_of
from flacheck.capabilities.known_results.document import Known
from flacheck.capabilities.known_results.lookup import KnownRequest, look_up, releases_of_torch
from flacheck.errors import UsageError
from flacheck.evidence.published.evidence import stored_evidence
from flacheck.source.packages import package as packages
from flacheck.store import FILE, Store


def known(
    package: str,
    *,
    target: Several = (),
    triton: Several = (),
    torch: Texts = (),
    results: PathLike | None = None,
    store: PathLike = STORE,
) -> Known:
    """Return what is published about a package: failing kernels, good releases, pins.

    Failures that the user's own store holds count, too.

    Args:
        package: `NAME` for all versions, `NAME==VERSION`, a range such as `NAME>=0.4`, or a matrix.
        target, triton: The GPUs and Triton releases, one value or several; all by default.
        torch: Torch releases, which stand for the Triton releases that they admit.
        results: A folder or URL of results instead of flacheck's own.
        store: The folder of the store.

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
    releases = list(split(triton))
    torch_names = []
    for requirement in torch_requirements(texts(torch)):
        torch_names.append(requirement.removeprefix("torch").removeprefix("=="))
        releases += releases_of_torch(requirement)
    request = KnownRequest(name, split(target), tuple(releases), ", ".join(torch_names), versions)
    library = library_of(results)
    folder = Path(store)
    if not (folder / FILE).is_file():
        return look_up(library, request)
    with Store.open(folder, create=False) as open_store:
        return look_up(library, request, stored_evidence(open_store, request.is_about))
