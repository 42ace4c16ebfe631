"""flacheck's own kernels: the declarations of the files in `kernels/`, never imported.

A file of that folder is one family. Its module-level literals OPERATOR, SHAPES and KERNELS contain
each kernel's arguments, and its autotuner's configurations and keys; the decorators use the same
literals. A kernel that families share is declared in its own file, whose name begins with `_`; a
family names it with the arguments that are None. The module `units` reads the CUDA C++ kernels.
"""

from collections.abc import Iterator
from pathlib import Path

from flacheck.model import Corpus, Kernel, Launch
from flacheck.source.kernel_source import KernelSource
from flacheck.subjects.inputs import units
from flacheck.subjects.inputs.declarations import Declaration, check_kernel, check_shapes
from flacheck.subjects.inputs.expand import Source
from flacheck.tables import find_shipped_folder


def load(folder: Path | None = None) -> dict[str, Source]:
    """Return every kernel of a folder by name, `family.kernel`; flacheck's own by default.

    Raises MatrixError for a malformed file.
    """
    where = folder or find_shipped_folder("kernels")
    sources: list[Source] = []
    for file in sorted(where.glob("*.py")):
        if not file.name.startswith("_"):
            sources += read(file)
    sources += units.read(where)
    return {source.kernel.name: source for source in sources}


def defining_file(family: str, name: str) -> Path:
    """Return the file that defines a family's kernel: its own, or a shared one."""
    file = find_shipped_folder("kernels") / f"{family}.py"
    return KernelSource.of(file).definition(name)[0].file


def read(file: Path) -> Iterator[Source]:
    """Yield the kernels that one file declares, in its order."""
    text = KernelSource.of(file)
    operator = Declaration.of(text, "OPERATOR")
    shapes = Declaration.of(text, "SHAPES")
    kernels = Declaration.of(text, "KERNELS")
    hint = 'such as OPERATOR = "retention"'
    operator.require(isinstance(operator.value, str), (), "OPERATOR is not a string", hint)
    check_shapes(shapes)
    hint = "it maps a kernel's name to its declaration"
    kernels.require(isinstance(kernels.value, dict), (), "KERNELS is not a dict", hint)
    for name in kernels.value:
        entry = check_kernel(kernels, name, text, shapes.value)
        kernel = Kernel(
            name=f"{file.stem}.{name}",
            package=None,
            digest=text.digest(name),
            origin=Corpus(file.stem, name),
            operator=operator.value,
            form=entry["form"],
        )
        autotuner = {"configs": entry["configs"], "keys": entry["keys"]}
        launch = Launch.from_json({**entry["launch"], **autotuner})
        yield Source(kernel, (launch,), tuple(shapes.value))
