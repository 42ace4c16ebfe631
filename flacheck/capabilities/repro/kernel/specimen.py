"""What is reduced: a module that imports only triton, one kernel of it, and one launch."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from flacheck.model import Cell, Cut, Kernel, Launch, digest
from flacheck.source import syntax


@dataclass(frozen=True)
class Specimen:
    """A kernel with one launch. `source` is the module's text, `name` the kernel in it, `args` maps
    every parameter to its value as a launch says it; `stage` is `compile`, `autotune` or `import`.
    """

    source: str
    name: str
    args: Mapping[str, Any]
    target: str
    options: Mapping[str, Any] = field(default_factory=dict)
    stage: str = "compile"
    omitted_parameters: tuple[str, ...] = ()

    def __hash__(self) -> int:
        # Arguments are dictionaries, which have no hash of their own.
        return hash(self.key)

    @cached_property
    def key(self) -> str:
        """Content hash: two specimens of one key are the same question to a compiler."""
        question = {
            "source": self.source,
            "name": self.name,
            # A list, for the order of the parameters is part of the question.
            "args": list(self.args.items()),
            "target": self.target,
            "options": dict(self.options),
            "stage": self.stage,
            "omitted": list(self.omitted_parameters),
        }
        return digest(question)

    @cached_property
    def tree(self) -> ast.Module:
        """The module's syntax tree, not to be changed."""
        return ast.parse(self.source)

    @cached_property
    def function(self) -> ast.FunctionDef:
        """The kernel's definition in `tree`, not to be changed."""
        functions = [s for s in self.tree.body if isinstance(s, ast.FunctionDef)]
        return next(f for f in functions if f.name == self.name)

    @property
    def helpers(self) -> dict[str, ast.FunctionDef]:
        """The other functions of the module."""
        functions = [s for s in self.tree.body if isinstance(s, ast.FunctionDef)]
        return {f.name: f for f in functions if f is not self.function}

    @property
    def constants(self) -> dict[str, ast.expr]:
        """The module's constants by name."""
        constants = {}
        for statement in self.tree.body:
            value = getattr(statement, "value", None)
            for target in syntax.targets(statement)[:1]:
                if isinstance(target, ast.Name) and value is not None:
                    constants[target.id] = value
        return constants

    @property
    def pointers(self) -> dict[str, str]:
        """The dtype that each pointer among the arguments leads to."""
        return {
            name: spec["dtype"]
            for name, spec in self.args.items()
            if isinstance(spec, Mapping) and "dtype" in spec
        }

    def copied_body(self) -> list[ast.stmt]:
        """The kernel's statements, to be changed freely."""
        return copy.deepcopy(self.function.body)

    @cached_property
    def lines(self) -> int:
        """Lines of the kernel's body, one statement a line."""
        return sum(len(ast.unparse(statement).splitlines()) for statement in self.function.body)

    @cached_property
    def nodes(self) -> int:
        """Nodes of the whole module's syntax tree."""
        return sum(1 for _ in ast.walk(self.tree))

    def with_(self, **changes: Any) -> Specimen:
        return replace(self, **changes)

    def cell(self, toolchain: str, until: str | None = None) -> Cell:
        """The specimen as a cell for one release."""
        kernel = Kernel(self.name, None, self.key, Cut(self.source, self.name))
        launch = Launch(self.args, self.omitted_parameters)
        return Cell(
            kernel, toolchain, self.target, launch, self.options, stage=self.stage, until=until
        )
