"""Which of a kernel's constexprs are tile sizes, and what ties them together."""

import ast
from dataclasses import dataclass
from functools import cache

from flacheck.source import syntax


@dataclass(frozen=True)
class KernelCode:
    """What a kernel's syntax tree says of its parameters.

    `blocks` are the sides of tiles (`tl.arange(0, X)`, a block pointer's block shape, `tl.zeros([X,
    …])`); `indexed_blocks` those of which there is more than one, told apart by an index (`i * X`,
    `tl.cdiv(…, X)`, `range(…, X)`); `sizes` those that shape data (a block pointer's shape and
    strides); `steering` those that decide a branch, a loop's bounds or a tile's side; `divisions`
    pairs (X, Y) for `X // Y`, `X % Y` and `tl.cdiv(X, Y)`; `dots` is whether it multiplies
    matrices, as is assumed of a kernel whose source cannot be read.
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
    """What a module's source says of one of its functions; nothing of one that it does not have."""
    name = qualname.rpartition(".")[2]
    # Where a name is defined anew, Python keeps the last.
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
    own = tuple(parameter.arg for parameter in syntax.parameters(function))
    blocks = notes.blocks.intersection(own)
    return KernelCode(
        parameters=own,
        blocks=frozenset(blocks),
        indexed_blocks=frozenset(notes.indexed_blocks & blocks),
        sizes=frozenset(notes.sizes.intersection(own)),
        steering=frozenset(notes.deciding.intersection(own) | blocks),
        divisions=frozenset((one, by) for one, by in notes.divisions if one in own and by in own),
        dots=notes.dots,
    )


class _Notes:
    """What the nodes of a kernel say of names, parameters or not."""

    def __init__(self) -> None:
        self.blocks: set[str] = set()
        self.indexed_blocks: set[str] = set()
        self.sizes: set[str] = set()
        self.deciding: set[str] = set()
        self.divisions: set[tuple[str, str]] = set()
        self.dots = False

    def add(self, node: ast.AST) -> None:
        """Take in one node, not what is below it."""
        match node:
            case ast.Call():
                self._call(node)
            case ast.BinOp(op=ast.Mult()):
                self.indexed_blocks.update(syntax.names_in([node.left, node.right]))
            case ast.BinOp(op=ast.FloorDiv() | ast.Mod()):
                self._division(node.left, node.right)
            case ast.If() | ast.IfExp() | ast.While():
                self.deciding |= syntax.names_below(node.test)

    def _call(self, call: ast.Call) -> None:
        match syntax.called_name(call):
            case "arange":
                # `tl.arange(0, X)`: the end is the size, for a range begins at 0.
                self.blocks.update(syntax.names_in(call.args[-1:]))
            case "make_block_ptr":
                # Its arguments in order: base, shape, strides, offsets, block_shape, order.
                self.blocks.update(
                    syntax.names_in(syntax.elements(syntax.argument(call, "block_shape", 4)))
                )
                for shaping in (
                    syntax.argument(call, "shape", 1),
                    syntax.argument(call, "strides", 2),
                ):
                    if shaping:
                        self.sizes |= syntax.names_below(shaping)
            case "zeros" | "full" | "broadcast_to" | "reshape" | "view":
                for given in call.args:
                    self.blocks.update(syntax.names_in(syntax.elements(given)))
            case "cdiv":
                self.indexed_blocks.update(syntax.names_in(call.args[1:]))
                self._division(*call.args[:2])
            case "range" | "static_range":
                self.indexed_blocks.update(syntax.names_in(call.args[2:]))
                for bound in call.args:
                    self.deciding |= syntax.names_below(bound)
            case name if name.startswith("dot"):
                self.dots = True

    def _division(self, *sides: ast.expr) -> None:
        names = tuple(syntax.names_in(sides))
        if len(names) == 2:
            self.divisions.add((names[0], names[1]))
