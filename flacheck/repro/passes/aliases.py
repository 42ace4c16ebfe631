"""Variables that only pass a value on: bound once and read once, or another name for a variable or
number.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterator

from flacheck.repro.kernel.editing import edited
from flacheck.repro.kernel.folding import folded
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import (
    COMPOUND,
    Block,
    Renaming,
    assigned,
    kept,
    statements,
    substituted,
)


class Aliases:
    """Each such variable replaced by what it stands for, where it stands."""

    name = "aliases"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        best = yield from self._once(best)
        if (yield all_inlined(best)):
            return
        while True:
            for candidate in _inlined(best):
                if (yield candidate):
                    best = candidate
                    break
            else:
                return

    def _once(self, best: Specimen) -> Generator[Specimen, bool, Specimen]:
        """Every variable bound once: then each name has one meaning."""
        candidate = single_assignment(best)
        return candidate if candidate.key != best.key and (yield candidate) else best


def single_assignment(specimen: Specimen) -> Specimen:
    """A straight kernel with a new name for each assignment; one with control flow as it is."""
    if any(isinstance(s, COMPOUND) for s in specimen.function.body):
        return specimen
    with edited(specimen) as kernel:
        kernel.body = list(_renamed(kernel.body))
        kernel.body = list(_forwarded(kernel.body))
    return kernel.specimen


def _renamed(body: Block) -> Iterator[ast.stmt]:
    current: dict[str, str] = {}
    count: dict[str, int] = {}
    for statement in body:
        name = assigned(statement)
        if isinstance(statement, ast.Assign) and name:
            value = Renaming(current).visit(statement.value)
            count[name] = count.get(name, 0) + 1
            current[name] = name if count[name] == 1 else f"{name}_{count[name]}"
            yield ast.Assign([ast.Name(current[name], ast.Store())], value)
        else:
            yield Renaming(current).visit(statement)


def _forwarded(body: Block) -> Iterator[ast.stmt]:
    """Without `b = a`."""
    known: dict[str, ast.expr] = {}
    for statement in body:
        changed = folded(substituted(statement, known))
        name = assigned(changed)
        if (
            isinstance(changed, ast.Assign)
            and name
            and isinstance(changed.value, (ast.Name, ast.Constant))
        ):
            known[name] = changed.value
        else:
            yield changed


def all_inlined(specimen: Specimen) -> Specimen:
    """Without any such variable."""
    while (fewer := next(_inlined(specimen), None)) is not None:
        specimen = fewer
    return specimen


def _inlined(specimen: Specimen) -> Iterator[Specimen]:
    """Without one variable that is bound once, its value where it is read: a name anywhere, an
    expression once.
    """
    body = list(statements(specimen.function.body))
    for at, statement in enumerate(body):
        name = assigned(statement)
        if isinstance(statement, ast.Assign) and name and _is_single(body, name, statement.value):
            with edited(specimen) as kernel:
                kernel.body = _substituted_at(kernel.body, at, name, statement.value)
            yield kernel.specimen


def _substituted_at(body: Block, at: int, name: str, value: ast.expr) -> Block:
    """Without the statement at a place, its value where its name is read."""
    ours = list(statements(body))[at]
    left = kept(body, lambda statement: statement is not ours)
    return folded(ast.Module([substituted(s, {name: value}) for s in left], [])).body


def _is_single(body: list[ast.stmt], name: str, value: ast.expr) -> bool:
    plain = [s for s in body if not isinstance(s, COMPOUND)]
    heads = [
        h
        for s in body
        if isinstance(s, COMPOUND)
        for h in ast.iter_child_nodes(s)
        if isinstance(h, ast.expr)
    ]
    names = [
        n for s in [*plain, *heads] for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == name
    ]
    bound = sum(isinstance(n.ctx, ast.Store) for n in names)
    return bound == 1 and (len(names) == 2 or isinstance(value, (ast.Name, ast.Constant)))
