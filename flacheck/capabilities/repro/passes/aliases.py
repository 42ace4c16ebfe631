"""Inlining of variables."""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.constant_folding import fold_constants
from flacheck.capabilities.repro.kernel.rewriting import rewrite
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.passes.search import Proposals, propose_while_accepted


def aliases(best: Specimen) -> Proposals:
    """Propose to replace each variable that is read once by its value."""
    # Values can be moved only if every variable is bound once.
    candidate = single_assignment(best)
    if candidate.key != best.key and (yield candidate):
        best = candidate
    all_inline = best
    shorter = next(_inline(best), None)
    while shorter is not None:
        all_inline = shorter
        shorter = next(_inline(shorter), None)
    if not (yield all_inline):
        yield from propose_while_accepted(best, _inline)


def single_assignment(specimen: Specimen) -> Specimen:
    """Return a kernel without control flow with a new name for each assignment."""
    if any(isinstance(statement, trees.COMPOUND) for statement in specimen.function.body):
        return specimen
    names: dict[str, str] = {}
    count: Counter[str] = Counter()
    aliases_of: dict[str, ast.expr] = {}
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
        [statement] = fold_constants(trees.substitute([statement], aliases_of))
        plain = trees.assignment(statement)
        # `b = a` is removed, and `a` replaces `b` from here on.
        if plain and isinstance(plain.value, (ast.Name, ast.Constant)):
            aliases_of[plain.name] = plain.value
        else:
            body.append(statement)
    return rewrite(specimen, body)


def _inline(specimen: Specimen) -> Iterator[Specimen]:
    """Yield the kernel with one variable that is bound once replaced by its value."""
    body = list(trees.all_statements(specimen.function.body))
    for at, statement in enumerate(body):
        plain = trees.assignment(statement)
        # A descriptor is made once: in a loop, its place would be part of the failure.
        is_descriptor = plain and trees.callee_name(plain.value) == trees.DESCRIPTOR
        if plain and not is_descriptor and _is_single(body, plain):
            rest = trees.without_statements(specimen.copied_body(), {at})
            new_body = trees.substitute(rest, {plain.name: plain.value})
            yield rewrite(specimen, fold_constants(new_body))


def _is_single(body: Sequence[ast.stmt], plain: trees.Assignment) -> bool:
    """Return True for a variable with one assignment and one read, or with a simple value."""
    reads = writes = 0
    for statement in body:
        nodes: Sequence[ast.AST] = [statement]
        # The statements inside a compound one are in `body` themselves.
        if isinstance(statement, trees.COMPOUND):
            nodes = trees.child_expressions(statement)
        for node in nodes:
            for name in trees.names_in(node):
                if name.id != plain.name:
                    continue
                if isinstance(name.ctx, ast.Store):
                    writes += 1
                else:
                    reads += 1
    if writes != 1:
        return False
    return reads == 1 or isinstance(plain.value, (ast.Name, ast.Constant))
