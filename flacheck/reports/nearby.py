"""The packages that a user may want to scan, in sentences."""

from collections.abc import Iterator

from flacheck.errors import INSTALL_TORCH
from flacheck.evidence.analysis.order import count_noun
from flacheck.subjects.inputs.nearby import Surroundings


def sentences(here: Surroundings) -> Iterator[str]:
    """Yield the packages with kernels, and the commands that scan them."""
    packages = [f"{each.name} ({count_noun(each.kernels, 'kernel')})" for each in here.packages]
    gpu = f"A100 and H100 (no NVIDIA GPU was found here) and {here.here}"
    if here.gpu:
        gpu = f"this machine's {here.gpu} and {here.here}"
    yield f"packages with Triton kernels here: {', '.join(packages)}"
    yield f"to scan one for {gpu}, run"
    for command in here.commands():
        yield f"  {command}"
    if not here.has_torch:
        yield f"a package is captured with torch: {INSTALL_TORCH}"
    yield "no MATRIX and no --package were given: scanning flacheck's own kernels (quick)"
