"""The sources of kernels with launches: one module a source, chosen by the suffix of a name.

A module of this folder has `SUFFIXES`, the suffixes of the files that it reads, and
`kernels(subject, selection)`.
"""

import pkgutil
from importlib import import_module
from pathlib import Path

from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.sources import matrices
from flacheck.subjects.inputs.subject import DEFAULT_MATRIX, Kernels, Subject, line_of


def kernels_of(subject: Subject, selection: Selection) -> Kernels:
    """Return the kernels of a subject with their launches; install their packages."""
    file, _ = line_of(subject.matrix or DEFAULT_MATRIX)
    read = matrices.kernels
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        source = import_module(f"{__name__}.{module.name}")
        if file.suffix in source.SUFFIXES:
            read = source.kernels
    return read(subject, selection)
