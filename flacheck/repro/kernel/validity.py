"""What can be said of a specimen without a compiler: whether it is worth asking one."""

from __future__ import annotations

import ast

from flacheck.repro.kernel.inference import walked
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import Block, reads, writes

BUILTINS = {
    "tl",
    "triton",
    "range",
    "min",
    "max",
    "float",
    "int",
    "bool",
    "len",
    "print",
    "abs",
    "isinstance",
    "tuple",
}


def is_valid(specimen: Specimen) -> bool:
    """Whether every name is bound before it is read, every parameter has its value, and no shapes
    are at odds.
    """
    function = specimen.function
    parameters = [
        a.arg for a in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    ]
    given = set(specimen.args) | set(specimen.omitted)
    if specimen.stage == "compile" and all(
        isinstance(statement, ast.Pass) for statement in function.body
    ):
        return False
    if not set(parameters) <= given or not set(specimen.args) <= set(parameters):
        return False
    outside = set().union(BUILTINS, *map(_bound, specimen.tree.body))
    return _defined(function.body, outside | set(parameters)) and not walked(specimen).faults


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(a.asname or a.name).split(".")[0] for a in statement.names}
    return writes(statement)


def _defined(body: Block, known: set[str]) -> bool:
    """Walks in the order of execution; adds what is bound to `known`."""
    for statement in body:
        if isinstance(statement, ast.For):
            if not reads(statement.iter) <= known:
                return False
            known |= writes(statement.target)
            if not _defined(statement.body, known):
                return False
        elif isinstance(statement, (ast.If, ast.While)):
            if not reads(statement.test) <= known or not _both(statement, known):
                return False
        elif not _reads_plainly(statement) <= known:
            return False
        else:
            known |= writes(statement)
    return True


def _both(statement: ast.If | ast.While, known: set[str]) -> bool:
    one, other = set(known), set(known)
    fine = _defined(statement.body, one) and _defined(statement.orelse, other)
    known |= one | other
    return fine


def _reads_plainly(statement: ast.stmt) -> set[str]:
    """What is read, less the variables of comprehensions."""
    inner = {
        n.id
        for c in ast.walk(statement)
        if isinstance(c, ast.comprehension)
        for n in ast.walk(c.target)
        if isinstance(n, ast.Name)
    }
    return reads(statement) - inner
