"""Our own kernels: what each file in `kernels/` declares, read with `ast` and never imported.

A file of that folder is one family. Its module-level literals OPERATOR, SHAPES and KERNELS say what
each kernel is launched with, what its autotuner tries and what that autotuner's keys are; the same
literals feed the decorators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flacheck.errors import FlacheckError
from flacheck.inputs.declarations import Declared, check_kernel, check_shapes
from flacheck.model import Kernel
from flacheck.source.kernel_source import KernelSource


@dataclass(frozen=True)
class CorpusKernel:
    """A kernel of ours with what it declares.

    `launch` is a template in the contract's form (`args`, `omitted`) in which `"{dtype}"` and
    `"{T}"` stand for the dtype and for an entry of a shape; `configs` and `keys` are its
    autotuner's, `shapes` its family's.
    """

    kernel: Kernel
    launch: Mapping[str, Any]
    configs: tuple[Mapping[str, Any], ...]
    keys: tuple[str, ...]
    shapes: tuple[Mapping[str, int], ...]


def folder() -> Path:
    """Where the kernels are: inside the package when installed from a wheel, beside it in a
    checkout.
    """
    here = Path(__file__).resolve().parent.parent
    for place in (here / "kernels", here.parent / "kernels"):
        if place.is_dir():
            return place
    raise FlacheckError(
        f"flacheck's own kernels are missing: no folder {here / 'kernels'}; install flacheck again"
    )


def load(place: Path | None = None) -> dict[str, CorpusKernel]:
    """Every kernel of a folder (ours without one) by its name, `family.kernel`; a bad file raises
    MatrixError.
    """
    files = sorted((place or folder()).glob("*.py"))
    return {k.kernel.name: k for file in files if not file.name.startswith("_") for k in read(file)}


def read(file: Path) -> Iterator[CorpusKernel]:
    """The kernels that one file declares, in its order."""
    source = KernelSource.of(file)
    operator, shapes = Declared.of(source, "OPERATOR"), Declared.of(source, "SHAPES")
    kernels = Declared.of(source, "KERNELS")
    operator.require(
        isinstance(operator.value, str),
        (),
        "OPERATOR is no string",
        'such as OPERATOR = "retention"',
    )
    check_shapes(shapes)
    kernels.require(
        isinstance(kernels.value, dict),
        (),
        "KERNELS is no dict",
        "it maps a kernel's name to what it is",
    )
    for name, declared in kernels.value.items():
        check_kernel(kernels, name, source.function(name), shapes.value)
        yield CorpusKernel(
            kernel=Kernel(
                name=f"{file.stem}.{name}",
                package=None,
                digest=source.digest(name),
                origin={"corpus": file.stem, "name": name},
                operator=operator.value,
                form=declared["form"],
            ),
            launch=declared["launch"],
            configs=tuple(declared["configs"]),
            keys=tuple(declared["keys"]),
            shapes=tuple(shapes.value),
        )
