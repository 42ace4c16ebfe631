"""Compiler options, parameters and their values toward the fewest, smallest and most usual."""

import ast
from collections.abc import Generator, Iterator, Mapping
from itertools import combinations

from flacheck.capabilities.repro.kernel.block_types import NAMES
from flacheck.capabilities.repro.kernel.candidates import USUAL_OPTIONS
from flacheck.capabilities.repro.kernel.rewriting import (
    drop_unread_parameters,
    replace_nodes,
    rewrite,
)
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.syntax_trees import expression, substitute, variable
from flacheck.capabilities.repro.passes.partial_evaluation import literal_of
from flacheck.capabilities.repro.passes.search import first_taken, while_taken

_SMALLER_OPTIONS = {"num_warps": (4, 1, 2, 8), "num_stages": (1, 2, 3)}
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
# They are in every test of Triton's.
_DTYPES = ("fp16", "fp32")


def options(best: Specimen) -> Generator[Specimen, bool, None]:
    """No option at all where the default fails too, else the smallest value."""
    for name, value in best.options.items():
        fewer = [{key: other for key, other in best.options.items() if key != name}]
        for smaller in _SMALLER_OPTIONS.get(name, ()):
            # The usual value is the default of most releases, and was just asked.
            if smaller < value and smaller != USUAL_OPTIONS.get(name):
                fewer.append({**best.options, name: smaller})
        candidates = [best.with_(options=options) for options in fewer]
        best = (yield from first_taken(candidates)) or best


def launch(best: Specimen) -> Generator[Specimen, bool, None]:
    """Constant arguments: the smallest power of two, for equal numbers together, then for each."""
    # Sizes that must be equal can only shrink together; others need not.
    for together in (True, False):
        for names in _alike(best, together):
            best = (yield from first_taken(_smaller_values(best, names))) or best


def _alike(specimen: Specimen, together: bool) -> list[list[str]]:
    """Parameters of equal constants, in one list."""
    groups: dict[str, list[str]] = {}
    for name, spec in specimen.args.items():
        if isinstance(spec, Mapping) and set(spec) & {"constexpr", "int"}:
            key = repr(spec) if together else name
            groups.setdefault(key, []).append(name)
    return list(groups.values())


def _smaller_values(specimen: Specimen, names: list[str]) -> Iterator[Specimen]:
    [(kind, value)] = specimen.args[names[0]].items()
    smaller: list[object] = []
    if value is True:
        smaller = [False]
    elif type(value) is int:
        smaller = [size for size in SIZES if size < value]
    for new in smaller:
        yield specimen.with_(args={**specimen.args, **{name: {kind: new} for name in names}})


def dtypes(best: Specimen) -> Generator[Specimen, bool, None]:
    """One dtype for another."""
    for old in sorted(set(best.pointers.values())):
        candidates = [_retyped(best, old, new) for new in _DTYPES if new != old]
        best = (yield from first_taken(candidates)) or best


def _retyped(specimen: Specimen, old: str, new: str) -> Specimen:
    """The specimen with a dtype replaced in its arguments and in its text."""
    before = f"tl.{NAMES.get(old, old)}"
    args = dict(specimen.args)
    for name, dtype in specimen.pointers.items():
        if dtype == old:
            args[name] = {**args[name], "dtype": new}
    changes: dict[ast.AST, ast.AST] = {}
    for node in ast.walk(specimen.function):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == before:
            changes[node] = expression(f"tl.{NAMES[new]}")
    return replace_nodes(specimen, changes, args)


def parameters(best: Specimen) -> Generator[Specimen, bool, None]:
    """Pointers of one dtype made one, alignment left unsaid, numbers written down."""
    args = dict(best.args)
    for name, spec in args.items():
        if isinstance(spec, Mapping) and "align" in spec:
            # Where nothing is said of alignment, the launch needs no attributes.
            args[name] = {**spec, "align": 1}
    unaligned = best.with_(args=args)
    if (yield unaligned):
        best = unaligned
    yield from while_taken(best, _fewer)


def _fewer(specimen: Specimen) -> Iterator[Specimen]:
    yield drop_unread_parameters(specimen)
    for first, second in combinations(specimen.args, 2):
        if specimen.args[first] == specimen.args[second]:
            yield _written(specimen, second, variable(first))
    for name, spec in specimen.args.items():
        # What may stand for a number of the launch in the kernel: 1, or itself.
        match spec:
            case {"int": number}:
                literals: list[ast.expr | None] = [ast.Constant(1), ast.Constant(number)]
            case {"float": number}:
                literals = [ast.Constant(1.0), ast.Constant(number)]
            case _:
                literals = [literal_of(spec)]
        for literal in filter(None, literals):
            yield _written(specimen, name, literal)


def _written(specimen: Specimen, name: str, value: ast.expr) -> Specimen:
    """The specimen without a parameter, with an expression in its place."""
    args = {other: spec for other, spec in specimen.args.items() if other != name}
    return rewrite(specimen, substitute(specimen.copied_body(), {name: value}), args)
