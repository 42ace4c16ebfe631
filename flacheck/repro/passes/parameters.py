"""Fewer and plainer parameters: pointers of one dtype made one, alignment left unsaid, numbers
written down.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterator, Mapping
from itertools import combinations

from flacheck.repro.kernel.editing import edited
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import substituted
from flacheck.repro.passes.evaluation import literal_of
from flacheck.repro.passes.expressions import trimmed


class Parameters:
    """Merged, forgotten or replaced by their values."""

    name = "parameters"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        if (yield unaligned(best)):
            best = unaligned(best)
        while True:
            for candidate in _fewer(best):
                if (yield candidate):
                    best = candidate
                    break
            else:
                return


def unaligned(specimen: Specimen) -> Specimen:
    """Nothing is said of pointers' alignment: then the launch needs no attributes."""
    args = {
        name: {**spec, "align": 1} if isinstance(spec, Mapping) and "align" in spec else spec
        for name, spec in specimen.args.items()
    }
    return specimen.with_(args=args)


def _fewer(specimen: Specimen) -> Iterator[Specimen]:
    yield trimmed(specimen)
    for first, second in combinations(specimen.args, 2):
        if specimen.args[first] == specimen.args[second]:
            yield _merged(specimen, first, second)
    for name, spec in specimen.args.items():
        yield from _written(specimen, name, spec)


def _merged(specimen: Specimen, first: str, second: str) -> Specimen:
    with edited(specimen) as kernel:
        kernel.drop([second])
        kernel.body = [substituted(s, {second: ast.Name(first, ast.Load())}) for s in kernel.body]
    return kernel.specimen


def _written(specimen: Specimen, name: str, spec: object) -> Iterator[Specimen]:
    """A number of the launch as a literal in the kernel: itself, or 1."""
    values = [literal_of(spec)]
    if isinstance(spec, Mapping) and "int" in spec:
        values = [ast.Constant(1), ast.Constant(spec["int"])]
    elif isinstance(spec, Mapping) and "float" in spec:
        values = [ast.Constant(1.0), ast.Constant(spec["float"])]
    for value in values:
        if value is not None:
            with edited(specimen) as kernel:
                kernel.drop([name])
                kernel.body = [substituted(s, {name: value}) for s in kernel.body]
            yield kernel.specimen
