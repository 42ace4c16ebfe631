"""Variables that only pass a value on: bound once and read once, or another name for a variable or
number."""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterator, Sequence

from flacheck.repro.kernel import syntax_trees as trees
from flacheck.repro.kernel.constant_folding import folded
from flacheck.repro.kernel.rewriting import rewritten
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.passes.search import while_taken


def aliases(best: Specimen) -> Generator[Specimen, bool, None]:
    """Each such variable replaced by what it stands for, where it stands."""
    # With every variable bound once, each name has one meaning.
    candidate = single_assignment(best)
    if candidate.key != best.key and (yield candidate):
        best = candidate
    straight = best
    while (fewer := next(_inlined(straight), None)) is not None:
        straight = fewer
    if not (yield straight):
        yield from while_taken(best, _inlined)


def single_assignment(specimen: Specimen) -> Specimen:
    """A straight kernel with a new name for each assignment; one with control flow as it is."""
    if any(isinstance(statement, trees.COMPOUND) for statement in specimen.function.body):
        return specimen
    return rewritten(specimen, _forwarded(_renamed(specimen.copied_body())))


def _renamed(body: trees.Block) -> trees.Block:
    current: dict[str, str] = {}
    count: dict[str, int] = {}
    result: trees.Block = []
    for statement in body:
        plain = trees.assignment(statement)
        if plain is None:
            result.append(trees.Renaming(current).visit(statement))
            continue
        name = plain.name
        value = trees.Renaming(current).visit(plain.value)
        count[name] = count.get(name, 0) + 1
        current[name] = name
        if count[name] > 1:
            current[name] = f"{name}_{count[name]}"
        result.append(trees.assign(current[name], value))
    return result


def _forwarded(body: trees.Block) -> trees.Block:
    """Without `b = a`."""
    known: dict[str, ast.expr] = {}
    result: trees.Block = []
    for statement in body:
        [changed] = folded(trees.substituted([statement], known))
        plain = trees.assignment(changed)
        if plain and isinstance(plain.value, (ast.Name, ast.Constant)):
            known[plain.name] = plain.value
        else:
            result.append(changed)
    return result


def _inlined(specimen: Specimen) -> Iterator[Specimen]:
    """Without one variable that is bound once, its value where it is read."""
    body = list(trees.all_statements(specimen.function.body))
    for at, statement in enumerate(body):
        plain = trees.assignment(statement)
        if plain and _is_single(body, plain):
            left = trees.without_statements(specimen.copied_body(), {at})
            substituted = trees.substituted(left, {plain.name: plain.value})
            yield rewritten(specimen, folded(substituted))


def _is_single(body: Sequence[ast.stmt], plain: trees.Assignment) -> bool:
    names: list[ast.Name] = []
    for statement in body:
        evaluated: Sequence[ast.AST] = [statement]
        # The statements below it are in `body` themselves.
        if isinstance(statement, trees.COMPOUND):
            evaluated = trees.child_expressions(statement)
        for node in evaluated:
            names += [name for name in trees.names_in(node) if name.id == plain.name]
    if sum(isinstance(name.ctx, ast.Store) for name in names) != 1:
        return False
    return len(names) == 2 or isinstance(plain.value, (ast.Name, ast.Constant))
