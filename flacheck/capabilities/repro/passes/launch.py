"""Fewer, smaller and more usual compiler options, parameters and values."""

import ast
from collections.abc import Iterator, Mapping
from itertools import combinations

from flacheck.capabilities.repro.kernel.candidates import USUAL_OPTIONS
from flacheck.capabilities.repro.kernel.expression_types import NAMES
from flacheck.capabilities.repro.kernel.rewriting import (
    drop_unread_parameters,
    replace_nodes,
    rewrite,
)
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.syntax_trees import (
    DESCRIPTOR,
    callee_name,
    expression,
    substitute,
    variable,
)
from flacheck.capabilities.repro.passes.partial_evaluation import literal_of
from flacheck.capabilities.repro.passes.search import (
    Proposals,
    propose_until_accepted,
    propose_while_accepted,
)

_SMALLER_OPTIONS = {"num_warps": (4, 1, 2, 8), "num_stages": (1, 2, 3)}
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
# Most of Triton's own tests use these.
_DTYPES = ("fp16", "fp32")


def options(best: Specimen) -> Proposals:
    """Propose no option if the default fails too, else the smallest value."""
    for name, value in best.options.items():
        fewer = [dict(best.options)]
        del fewer[0][name]
        for smaller in _SMALLER_OPTIONS.get(name, ()):
            # The usual value is the default of most releases, so it was just proposed.
            is_usual = smaller == USUAL_OPTIONS.get(name)
            if smaller < value and not is_usual:
                fewer.append({**best.options, name: smaller})
        candidates = [best.with_(options=options) for options in fewer]
        best = (yield from propose_until_accepted(candidates)) or best


def launch(best: Specimen) -> Proposals:
    """Propose the smallest power of two for constants: equal ones together, then each."""
    # Sizes that must be equal can only shrink together.
    for together in (True, False):
        for names in _equal_constants(best, together):
            candidates = _smaller_values(best, names)
            best = (yield from propose_until_accepted(candidates)) or best


def _equal_constants(specimen: Specimen, together: bool) -> list[list[str]]:
    """Return the parameters with constants, equal ones in one list if `together`."""
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
        args = dict(specimen.args)
        for name in names:
            args[name] = {kind: new}
        yield specimen.with_(args=args)


def dtypes(best: Specimen) -> Proposals:
    """Propose one dtype for another."""
    for old in sorted(set(best.pointers.values())):
        candidates = [_with_dtype(best, old, new) for new in _DTYPES if new != old]
        best = (yield from propose_until_accepted(candidates)) or best


def _with_dtype(specimen: Specimen, old: str, new: str) -> Specimen:
    """Return the specimen with a dtype replaced in its arguments and in its text."""
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


def parameters(best: Specimen) -> Proposals:
    """Propose to merge pointers, drop alignments, and replace parameters by literals."""
    args = dict(best.args)
    for name, spec in args.items():
        if isinstance(spec, Mapping) and "align" in spec:
            # Without alignment, the launch needs no attributes.
            args[name] = {**spec, "align": 1}
    candidate = best.with_(args=args)
    if (yield candidate):
        best = candidate
    yield from fewer_parameters(best)


def fewer_parameters(best: Specimen) -> Proposals:
    """Propose to merge pointers and to replace parameters by literals."""
    yield from propose_while_accepted(best, _fewer)


def _fewer(specimen: Specimen) -> Iterator[Specimen]:
    yield drop_unread_parameters(specimen)
    for first, second in combinations(specimen.args, 2):
        if specimen.args[first] == specimen.args[second]:
            yield _with_value(specimen, second, variable(first))
    calls = map(callee_name, ast.walk(specimen.function))
    has_descriptor = DESCRIPTOR in calls
    for name, spec in specimen.args.items():
        # In the kernel a number of the launch may become 1 or stay.
        match spec:
            case {"int": number}:
                literals: list[ast.expr | None] = [ast.Constant(1), ast.Constant(number)]
                if has_descriptor:
                    # It may be the shape of a descriptor, which 1 would empty.
                    literals = literals[1:]
            case {"float": number}:
                literals = [ast.Constant(1.0), ast.Constant(number)]
            case _:
                literals = [literal_of(spec)]
        for literal in filter(None, literals):
            yield _with_value(specimen, name, literal)


def _with_value(specimen: Specimen, name: str, value: ast.expr) -> Specimen:
    """Return the specimen with an expression in place of a parameter."""
    args = dict(specimen.args)
    del args[name]
    body = substitute(specimen.copied_body(), {name: value})
    return rewrite(specimen, body, args)
