"""Bare expressions in place of a kernel: the front end refuses a call whatever surrounds it."""

import ast
from collections.abc import Iterator, Sequence
from functools import partial

from flacheck.capabilities.repro.kernel import plain_addresses
from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.candidates import is_valid
from flacheck.capabilities.repro.kernel.expression_types import NAMES, Tensor
from flacheck.capabilities.repro.kernel.rewriting import drop_unread_parameters, rewrite
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.value_graph import parts
from flacheck.capabilities.repro.passes.search import (
    TOGETHER,
    ProposalsAndProbes,
    propose_in_batches,
)
from flacheck.guest.pysource.functions import dotted_name


def bare_expressions(best: Specimen) -> ProposalsAndProbes:
    """Propose each expression as the whole kernel, its operands zeros or parameters."""
    yield from propose_in_batches(_distinct(best), partial(_kernel_of, best), TOGETHER)


def _distinct(specimen: Specimen) -> Iterator[ast.expr]:
    """Yield the distinct expressions that stand alone, the smallest first."""
    expressions: dict[str, ast.expr] = {}
    for node in ast.walk(ast.Module(specimen.function.body, [])):
        # A name of the language may be missing, such as `tl.libdevice`.
        is_name = str(dotted_name(node)).startswith(("tl.", "triton."))
        is_operation = isinstance(node, (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare))
        if isinstance(node, ast.expr) and (is_operation or is_name):
            inputs: dict[int, ast.AST] = {}
            for part in parts(node):
                inputs |= _inputs(part, specimen)
            expression = trees.copied(node, inputs)
            expressions.setdefault(ast.unparse(expression), expression)
    for text in sorted(expressions, key=len):
        if is_valid(_kernel_of(specimen, [expressions[text]])):
            yield expressions[text]


def _inputs(node: ast.expr, specimen: Specimen) -> dict[int, ast.AST]:
    """Return zeros or plain addresses for the tensors in an operand, by identity."""
    kind = specimen.types.get(node)
    is_parameter = isinstance(node, ast.Name) and node.id in specimen.args
    if is_parameter:
        return {}
    if isinstance(kind, Tensor) and not kind.pointer:
        dtype, shape = NAMES[kind.dtype], list(kind.shape)
        return {id(node): trees.expression(f"tl.zeros({shape}, dtype=tl.{dtype})")}
    if isinstance(kind, Tensor):
        for name, dtype in specimen.pointers.items():
            if dtype == kind.dtype[1:]:
                return {id(node): plain_addresses.address(name, kind.shape)}
    inputs: dict[int, ast.AST] = {}
    for part in parts(node):
        inputs |= _inputs(part, specimen)
    return inputs


def _kernel_of(before: Specimen, expressions: Sequence[ast.expr]) -> Specimen:
    """Return the specimen with these expressions as its statements."""
    body: trees.Block = [ast.Expr(trees.copied(expression)) for expression in expressions]
    return drop_unread_parameters(rewrite(before, body))
