"""Variables that only pass a value on, replaced by what they stand for."""

import ast
from collections import Counter
from collections.abc import Generator, Iterator, Sequence

from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.constant_folding import fold_constants
from flacheck.capabilities.repro.kernel.rewriting import rewrite
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.passes.search import while_taken


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
    names: dict[str, str] = {}
    count: Counter[str] = Counter()
    known: dict[str, ast.expr] = {}
    body: trees.Block = []
    for statement in specimen.copied_body():
        plain = trees.assignment(statement)
        if plain is None:
            statement = trees.Renaming(names).visit(statement)
        else:
            value = trees.Renaming(names).visit(plain.value)
            count[plain.name] += 1
            names[plain.name] = plain.name
            if count[plain.name] > 1:
                names[plain.name] = f"{plain.name}_{count[plain.name]}"
            statement = trees.assign(names[plain.name], value)
        [statement] = fold_constants(trees.substitute([statement], known))
        plain = trees.assignment(statement)
        # `b = a` goes, and `a` stands for `b` from here on.
        if plain and isinstance(plain.value, (ast.Name, ast.Constant)):
            known[plain.name] = plain.value
        else:
            body.append(statement)
    return rewrite(specimen, body)


def _inlined(specimen: Specimen) -> Iterator[Specimen]:
    """Without one variable that is bound once, its value where it is read."""
    body = list(trees.all_statements(specimen.function.body))
    for at, statement in enumerate(body):
        plain = trees.assignment(statement)
        if plain and _is_single(body, plain):
            left = trees.without_statements(specimen.copied_body(), {at})
            substituted = trees.substitute(left, {plain.name: plain.value})
            yield rewrite(specimen, fold_constants(substituted))


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
