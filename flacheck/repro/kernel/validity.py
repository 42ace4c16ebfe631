"""What can be said of a specimen without a compiler: whether it is worth asking one."""

from __future__ import annotations

import ast

from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax_trees import Block, names_in, parameter_names, reads, writes
from flacheck.repro.kernel.type_inference import walked

# What a kernel may name without binding it: Triton's modules, and Python's functions that its front
# end knows.
BUILTINS = set("tl triton range min max float int bool len print abs isinstance tuple".split())


def is_valid(specimen: Specimen) -> bool:
    """Whether names are bound before they are read, parameters have values, and shapes fit."""
    body = specimen.function.body
    # Every release compiles an empty kernel.
    if specimen.stage == "compile" and all(isinstance(s, ast.Pass) for s in body):
        return False
    parameters = set(parameter_names(specimen.function))
    given = {*specimen.args, *specimen.omitted}
    if not parameters <= given or not set(specimen.args) <= parameters:
        return False
    known = BUILTINS | parameters
    for statement in specimen.tree.body:
        if isinstance(statement, ast.FunctionDef):
            known.add(statement.name)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            known |= {(a.asname or a.name).split(".")[0] for a in statement.names}
        else:
            known |= writes(statement)
    return _defined(body, known) and not walked(specimen).faults


def _defined(body: Block, known: set[str]) -> bool:
    """Walks in the order of execution, and adds what is bound to `known`."""
    return all(_is_defined(statement, known) for statement in body)


def _is_defined(statement: ast.stmt, known: set[str]) -> bool:
    if isinstance(statement, ast.For):
        if not reads(statement.iter) <= known:
            return False
        known |= writes(statement.target)
        return _defined(statement.body, known)
    if isinstance(statement, (ast.If, ast.While)):
        if not reads(statement.test) <= known:
            return False
        # Either side may bind what is read later: the compiler knows which one it takes.
        one, other = set(known), set(known)
        defined = _defined(statement.body, one) and _defined(statement.orelse, other)
        known |= one | other
        return defined
    comprehensions = [n for n in ast.walk(statement) if isinstance(n, ast.comprehension)]
    own = {name.id for c in comprehensions for name in names_in(c.target)}
    if not reads(statement) - own <= known:
        return False
    known |= writes(statement)
    return True
