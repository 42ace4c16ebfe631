"""A specimen taken apart for a change and put together again: the kernel's body and parameters,
what it calls.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import Block, Renaming, without_dead
from flacheck.source.kernel_source import free_names

_HEAD = "import triton\nimport triton.language as tl\n"


class Kernel:
    """A copy of a specimen's tree under change; `specimen` is what came of it, once the change is
    done.
    """

    def __init__(self, specimen: Specimen) -> None:
        self._before = specimen
        self._tree = copy.deepcopy(specimen.tree)
        self._function = next(
            s for s in self._tree.body if isinstance(s, ast.FunctionDef) and s.name == specimen.name
        )
        self.args: dict[str, Any] = dict(specimen.args)
        self.body: Block = self._function.body
        self.decorators: list[ast.expr] = self._function.decorator_list
        self.specimen = specimen

    @property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """The other functions of the module."""
        return {
            s.name: s
            for s in self._tree.body
            if isinstance(s, ast.FunctionDef) and s is not self._function
        }

    def constants(self) -> dict[str, ast.expr]:
        """The module's constants by name."""
        found = {}
        for statement in self._tree.body:
            value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
            targets = (
                statement.targets
                if isinstance(statement, ast.Assign)
                else [getattr(statement, "target", None)]
            )
            if value is not None and isinstance(targets[0], ast.Name):
                found[targets[0].id] = value
        return found

    def drop(self, names: Iterable[str]) -> None:
        """Take parameters away."""
        for name in names:
            self.args.pop(name, None)

    def replace(self, body: Block, args: Mapping[str, Any] | None = None) -> None:
        self.body = body
        self.args = dict(self.args if args is None else args)

    def rename(self, names: Mapping[str, str], own: str) -> None:
        """Give variables and parameters other names, and the kernel `own` unless that is taken."""
        taken = set(self.functions) | set(self.constants())
        Renaming(names).visit(self._function)
        self._function.name = own if own not in taken else self._function.name

    def finish(self) -> None:
        """Write the module again, with only what the kernel still uses."""
        self._function.body = without_dead(self.body) or [ast.Pass()]
        self._sign()
        used = self._used()
        imports = [s for s in self._tree.body if isinstance(s, (ast.Import, ast.ImportFrom))]
        others = [s for s in self._tree.body if s in used and s not in imports]
        extra = [
            s
            for s in imports
            if isinstance(s, ast.Import) and s.names[0].name not in ("triton", "triton.language")
        ]
        module = ast.fix_missing_locations(ast.Module([*extra, *others], []))
        parts = [ast.unparse(statement).strip() for statement in module.body]
        source = _HEAD + "\n\n" + "\n\n\n".join(parts) + "\n"
        self.specimen = self._before.with_(source=source, args=self.args, name=self._function.name)

    def _sign(self) -> None:
        """The parameters that are left, in their order, new ones before the constants; no option
        names a lost one.
        """
        arguments = self._function.args
        there = {a.arg: a for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
        given = {*self.args, *self._before.omitted}
        names = [
            *(name for name in there if name in given),
            *(name for name in self.args if name not in there),
        ]
        kept = [there.get(name) or ast.arg(name) for name in names]
        self._function.args = ast.arguments(
            posonlyargs=[], args=kept, kwonlyargs=[], kw_defaults=[], defaults=[]
        )
        self._function.decorator_list = [self._decorator(d) for d in self.decorators]

    def _decorator(self, node: ast.expr) -> ast.expr:
        """`@triton.jit(do_not_specialize=[…])` without parameters that are gone."""
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "triton.jit":
            return node
        keywords = []
        for keyword in node.keywords:
            if isinstance(keyword.value, (ast.List, ast.Tuple)):
                named = [
                    e
                    for e in keyword.value.elts
                    if not isinstance(e, ast.Constant) or e.value in self.args
                ]
                keyword.value.elts = named
                if not named:
                    continue
            keywords.append(keyword)
        return ast.Call(node.func, node.args, keywords) if keywords else node.func

    def _used(self) -> set[ast.stmt]:
        bound: dict[str, ast.stmt] = {}
        for statement in self._tree.body:
            for node in ast.walk(statement) if not isinstance(statement, ast.FunctionDef) else ():
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    bound[node.id] = statement
            if isinstance(statement, ast.FunctionDef):
                bound[statement.name] = statement
        used: set[ast.stmt] = {self._function}
        waiting: list[ast.stmt] = [self._function]
        while waiting:
            for name in free_names(waiting.pop()) & set(bound):
                if bound[name] not in used:
                    used.add(bound[name])
                    waiting.append(bound[name])
        return used


@contextmanager
def edited(specimen: Specimen) -> Iterator[Kernel]:
    """`with edited(specimen) as kernel:` change `kernel.body`, `kernel.args`; then
    `kernel.specimen` is the result.
    """
    kernel = Kernel(specimen)
    yield kernel
    kernel.finish()
