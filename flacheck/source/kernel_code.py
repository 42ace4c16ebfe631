"""The constexprs of a kernel that are tile sizes, and the relations between them."""

import ast
from dataclasses import dataclass
from functools import cache

from flacheck.guest.pysource.functions import names_of, parameter_names
from flacheck.source import syntax


@dataclass(frozen=True)
class KernelCode:
    """The roles of a kernel's parameters, read from its syntax tree.

    - `blocks`: the sides of tiles (`tl.arange(0, X)`, a block pointer's block shape, `tl.zeros([X,
      …])`)
    - `indexed_blocks`: the sides of tiles that an index counts (`i * X`, `tl.cdiv(…, X)`,
      `range(…, X)`)
    - `sizes`: the parameters that shape data (a block pointer's shape and strides)
    - `steering`: the parameters that decide a branch, a loop's bounds or a tile's side
    - `divisions`: pairs (X, Y) for `X // Y`, `X % Y` and `tl.cdiv(X, Y)`
    - `dots`: True if the kernel multiplies matrices, which is also assumed of a kernel whose source
      cannot be read
    """

    parameters: tuple[str, ...] = ()
    blocks: frozenset[str] = frozenset()
    indexed_blocks: frozenset[str] = frozenset()
    sizes: frozenset[str] = frozenset()
    steering: frozenset[str] = frozenset()
    divisions: frozenset[tuple[str, str]] = frozenset()
    dots: bool = True


@cache
def code_of(source: bytes, qualname: str) -> KernelCode:
    """Read the roles of a function's parameters; empty if the module does not have the function."""
    name = qualname.rpartition(".")[2]
    # When a name is defined again, Python keeps the last definition.
    function = None
    for node in ast.walk(syntax.tree(source)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            function = node
    if function is None:
        return KernelCode()
    notes = _Notes()
    for statement in function.body:
        for node in ast.walk(statement):
            notes.add(node)
    own = tuple(parameter_names(function))
    blocks = notes.blocks.intersection(own)
    divisions = [pair for pair in notes.divisions if set(pair) <= set(own)]
    return KernelCode(
        parameters=own,
        blocks=frozenset(blocks),
        indexed_blocks=frozenset(notes.indexed_blocks & blocks),
        sizes=frozenset(notes.sizes.intersection(own)),
        steering=frozenset(notes.deciding.intersection(own) | blocks),
        divisions=frozenset(divisions),
        dots=notes.dots,
    )


class _Notes:
    """Roles of the names in a kernel, parameters or not."""

    def __init__(self) -> None:
        self.blocks: set[str] = set()
        self.indexed_blocks: set[str] = set()
        self.sizes: set[str] = set()
        self.deciding: set[str] = set()
        self.divisions: set[tuple[str, str]] = set()
        self.dots = False

    def add(self, node: ast.AST) -> None:
        """Record the roles that one node gives to names; do not descend."""
        match node:
            case ast.Call():
                self._call(node)
            case ast.BinOp(op=ast.Mult()):
                self.indexed_blocks.update(syntax.names_in([node.left, node.right]))
            case ast.BinOp(op=ast.FloorDiv() | ast.Mod()):
                self._division(node.left, node.right)
            case ast.If() | ast.IfExp() | ast.While():
                self.deciding |= names_of(node.test)

    def _call(self, call: ast.Call) -> None:
        match syntax.called_name(call):
            case "arange":
                # The end of `tl.arange(0, X)` is its size, because a range begins at 0.
                self.blocks.update(syntax.names_in(call.args[-1:]))
            case "make_block_ptr":
                # Its arguments in order: base, shape, strides, offsets, block_shape, order.
                self._add_block(syntax.argument(call, "block_shape", 4))
                shape = syntax.argument(call, "shape", 1)
                strides = syntax.argument(call, "strides", 2)
                for node in (shape, strides):
                    if node:
                        self.sizes |= names_of(node)
            case "zeros" | "full" | "broadcast_to" | "reshape" | "view":
                for argument in call.args:
                    self._add_block(argument)
            case "cdiv":
                self.indexed_blocks.update(syntax.names_in(call.args[1:]))
                self._division(*call.args[:2])
            case "range" | "static_range":
                self.indexed_blocks.update(syntax.names_in(call.args[2:]))
                for bound in call.args:
                    self.deciding |= names_of(bound)
            case name if name.startswith("dot"):
                self.dots = True

    def _add_block(self, shape: ast.expr | None) -> None:
        sides = syntax.elements(shape)
        self.blocks.update(syntax.names_in(sides))

    def _division(self, *sides: ast.expr) -> None:
        names = tuple(syntax.names_in(sides))
        if len(names) == 2:
            self.divisions.add((names[0], names[1]))
