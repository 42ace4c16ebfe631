"""The subject of a reduction: a module that imports only triton, one kernel, and one launch."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from flacheck.capabilities.repro.kernel.expression_types import Types
from flacheck.capabilities.repro.kernel.syntax_trees import copied
from flacheck.model import Cell, Cut, Kernel, Launch, digest
from flacheck.source import syntax


def _without_types(_: Specimen) -> Types:
    """Return no types, for a specimen that no compiler reads."""
    return {}


@dataclass(frozen=True)
class Specimen:
    """A kernel with one launch.

    `source` is the module's text, `name` the kernel in it. `args` maps every parameter to its value
    in the form of a launch. `stage` is `compile`, `autotune` or `import`. `front_end` returns the
    types of a specimen's expressions.
    """

    source: str
    name: str
    args: Mapping[str, Any]
    target: str
    options: Mapping[str, Any] = field(default_factory=dict)
    stage: str = "compile"
    omitted_parameters: tuple[str, ...] = ()
    front_end: Callable[[Specimen], Types] = field(
        default=_without_types, compare=False, repr=False
    )

    def __hash__(self) -> int:
        # Arguments are dictionaries, which are not hashable.
        return hash(self.key)

    @cached_property
    def key(self) -> str:
        """The content hash: specimens with equal keys compile to equal records."""
        content = {
            "source": self.source,
            "name": self.name,
            # A list, because the order of the parameters matters.
            "args": list(self.args.items()),
            "target": self.target,
            "options": dict(self.options),
            "stage": self.stage,
            "omitted": list(self.omitted_parameters),
        }
        return digest(content)

    @cached_property
    def tree(self) -> ast.Module:
        """The module's syntax tree; do not change it."""
        return ast.parse(self.source)

    @cached_property
    def function(self) -> ast.FunctionDef:
        """The kernel's definition in `tree`; do not change it."""
        return next(function for function in self._functions if function.name == self.name)

    @cached_property
    def types(self) -> Types:
        """The types of the expressions in the kernel's body, by node of `tree`."""
        return self.front_end(self)

    @property
    def _functions(self) -> list[ast.FunctionDef]:
        return [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]

    @property
    def helpers(self) -> dict[str, ast.FunctionDef]:
        """The other functions of the module."""
        return {each.name: each for each in self._functions if each is not self.function}

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
        """The dtype of each pointer among the arguments."""
        dtypes = {}
        for name, spec in self.args.items():
            if isinstance(spec, Mapping) and "dtype" in spec:
                dtypes[name] = spec["dtype"]
        return dtypes

    def copied_body(self) -> list[ast.stmt]:
        """Return a copy of the kernel's statements, which may be changed."""
        body: list[ast.stmt] = copied(self.function.body)
        return body

    @cached_property
    def lines(self) -> int:
        """The number of lines of the bodies of kernel and helpers, one statement a line."""
        statements = [statement for each in self._functions for statement in each.body]
        return sum(len(ast.unparse(statement).splitlines()) for statement in statements)

    @cached_property
    def nodes(self) -> int:
        """The number of nodes of the module's syntax tree."""
        return sum(1 for _ in ast.walk(self.tree))

    def with_(self, **changes: Any) -> Specimen:
        return replace(self, **changes)

    def cell(self, toolchain: str, until: str | None = None) -> Cell:
        """Return the specimen as a cell for one release."""
        kernel = Kernel(self.name, None, self.key, Cut(self.source, self.name))
        launch = Launch(self.args, self.omitted_parameters)
        return Cell(
            kernel, toolchain, self.target, launch, self.options, stage=self.stage, until=until
        )
