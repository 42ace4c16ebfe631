"""Kernels that are built, not cut: operations of a specimen with loads in place of their inputs."""

from __future__ import annotations

import ast
import copy
import itertools
from typing import Any

from flacheck.repro.kernel.rewriting import rewritten
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax_trees import Block
from flacheck.repro.kernel.value_graph import Value

# More dtypes than six meet in no kernel.
_POINTERS = "xyzwuv"


class NewKernel:
    """A kernel under construction: statements to be, one pointer a dtype, variables `c1`, `c2`…"""

    def __init__(self) -> None:
        self.body: Block = []
        self._pointers: dict[str, str] = {}
        self._numbers = itertools.count(1)

    def new_name(self) -> str:
        return f"c{next(self._numbers)}"

    def pointer(self, dtype: str) -> str:
        """The parameter that points to a dtype."""
        if dtype not in self._pointers:
            self._pointers[dtype] = _POINTERS[len(self._pointers)]
        return self._pointers[dtype]

    def specimen(self, before: Specimen) -> Specimen:
        """It in place of a specimen's kernel."""
        args = {name: {"dtype": dtype, "align": 16} for dtype, name in self._pointers.items()}
        return rewritten(before, self.body, args)


def applied(value: Value, inputs: dict[ast.AST, ast.expr]) -> ast.expr:
    """A value's operation with other expressions for its operands."""
    memo: dict[int, Any] = {id(operand): new for operand, new in inputs.items()}
    return copy.deepcopy(value.node, memo)
