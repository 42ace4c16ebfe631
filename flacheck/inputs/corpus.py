"""flacheck's own kernels: what each file in `kernels/` declares, read with `ast`, never imported.

A file of that folder is one family. Its module-level literals OPERATOR, SHAPES and KERNELS say what
each kernel is launched with, what its autotuner tries and what that autotuner's keys are; the same
literals feed the decorators. The CUDA C++ kernels below it are read by `units`.
"""

from collections.abc import Iterator
from pathlib import Path

from flacheck.inputs import units
from flacheck.inputs.declarations import Declaration, check_kernel, check_shapes
from flacheck.inputs.expand import Source
from flacheck.model import Corpus, Kernel, Launch
from flacheck.source.kernel_source import KernelSource
from flacheck.tables import find_shipped_folder


def load(folder: Path | None = None) -> dict[str, Source]:
    """Every kernel of a folder (flacheck's own without one) by name, `family.kernel`; a bad file
    raises MatrixError."""
    where = folder or find_shipped_folder("kernels")
    files = [file for file in sorted(where.glob("*.py")) if not file.name.startswith("_")]
    kernels = [*(source for file in files for source in read(file)), *units.read(where)]
    return {source.kernel.name: source for source in kernels}


def read(file: Path) -> Iterator[Source]:
    """The kernels that one file declares, in its order."""
    text = KernelSource.of(file)
    operator, shapes = Declaration.of(text, "OPERATOR"), Declaration.of(text, "SHAPES")
    kernels = Declaration.of(text, "KERNELS")
    allowed = 'such as OPERATOR = "retention"'
    operator.require(isinstance(operator.value, str), (), "OPERATOR is no string", allowed)
    check_shapes(shapes)
    allowed = "it maps a kernel's name to what it is"
    kernels.require(isinstance(kernels.value, dict), (), "KERNELS is no dict", allowed)
    for name, declared in kernels.value.items():
        check_kernel(kernels, name, text.function(name), shapes.value)
        kernel = Kernel(
            name=f"{file.stem}.{name}",
            package=None,
            digest=text.digest(name),
            origin=Corpus(file.stem, name),
            operator=operator.value,
            form=declared["form"],
        )
        tuned = {"configs": declared["configs"], "keys": declared["keys"]}
        launch = Launch.from_json({**declared["launch"], **tuned})
        yield Source(kernel, (launch,), tuple(shapes.value))
