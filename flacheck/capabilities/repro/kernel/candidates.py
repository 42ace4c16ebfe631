"""The checks of a candidate without a compiler: its cost, and its validity."""

import ast
from functools import lru_cache
from math import inf, log2
from typing import Any

from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.guest.pysource.functions import parameter_names

# The cost of each part for a reader; a node of the syntax tree costs 2. Only the ratios matter:
# control flow and helpers cost more than the few lines that replace them, a constant more than its
# literal.
CONTROL, HELPER, ODD_ACCESS, LINE, PARAMETER, CONSTANT, NODE = 400, 300, 80, 40, 25, 30, 2
OPTION, ALIGNMENT, DTYPE = 60, 4, 6
USUAL_OPTIONS = {"num_warps": 4}
# Most of Triton's own tests use fp16.
DTYPES = ("fp32", "fp16", "bf16")
# Names that a kernel may use without binding them: Triton's modules, and the Python functions that
# its front end supports.
BUILTINS = set("tl triton range min max float int bool len print abs isinstance tuple".split())


# The cache helps because every candidate is compared with the best so far, which rarely changes.
@lru_cache(maxsize=256)
def cost(specimen: Specimen) -> tuple[int, str]:
    """Return the cost of a specimen; the key decides ties, so that no two specimens are equal."""
    weight: float = HELPER * len(specimen.helpers) + NODE * specimen.nodes
    for statement in trees.all_statements(specimen.function.body):
        weight += LINE
        if isinstance(statement, trees.COMPOUND):
            weight += CONTROL
    # One sum for all nodes: the order of additions decides about the last bit of a float.
    weight += sum(map(_node, ast.walk(specimen.function)))
    weight += sum(map(_argument, specimen.args.values()))
    for name, value in specimen.options.items():
        weight += _option(name, value)
    weight += OPTION * len(specimen.omitted_parameters)
    return round(weight), specimen.key


def _node(node: ast.AST) -> float:
    """Return the extra cost of block pointers, masks and large numbers."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _magnitude(node.value)
    if trees.callee_name(node) in ("tl.make_block_ptr", "tl.advance", "tl.make_tensor_descriptor"):
        return ODD_ACCESS
    if isinstance(node, ast.keyword) and node.arg in ("mask", "boundary_check", "other"):
        return ODD_ACCESS / 2
    return 0


def _magnitude(value: object) -> float:
    """Return the extra cost of a large number; 1 unless it is a finite number."""
    if isinstance(value, (int, float)) and abs(value) < inf:
        return log2(abs(value) + 1)
    return 1.0


def _argument(spec: Any) -> float:
    match spec:
        case {"constexpr": value}:
            return PARAMETER + CONSTANT + _magnitude(value)
        case {"dtype": dtype}:
            rank = len(DTYPES)
            if dtype in DTYPES:
                rank = DTYPES.index(dtype)
            # An unaligned pointer is simpler, because the launch needs no attribute for it.
            if spec.get("align", 16) % 16:
                return PARAMETER + DTYPE * rank
            return PARAMETER + DTYPE * rank + ALIGNMENT
        case {"int": number}:
            return PARAMETER + _magnitude(number)
    return PARAMETER


def _option(name: str, value: object) -> float:
    if not isinstance(value, (int, float)):
        return OPTION + 1
    return OPTION + abs(value - USUAL_OPTIONS.get(name, 1))


def is_valid(specimen: Specimen) -> bool:
    """Return True if names are bound before reads, and parameters have values."""
    body = specimen.function.body
    # Every release compiles an empty kernel.
    if specimen.stage == "compile" and all(isinstance(s, ast.Pass) for s in body):
        return False
    parameters = set(parameter_names(specimen.function))
    values = {*specimen.args, *specimen.omitted_parameters}
    if not parameters <= values or not set(specimen.args) <= parameters:
        return False
    names = BUILTINS | parameters
    for statement in specimen.tree.body:
        if isinstance(statement, ast.FunctionDef):
            names.add(statement.name)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                names.add((alias.asname or alias.name).split(".")[0])
        else:
            names |= trees.writes(statement)
    return _are_reads_bound(body, names)


def _are_reads_bound(body: trees.Block, names: set[str]) -> bool:
    """Return True if every read is of a bound name; add the names that the body binds."""
    for statement in body:
        if isinstance(statement, ast.For):
            is_bound = trees.reads(statement.iter) <= names
            names |= trees.writes(statement.target)
            is_bound = is_bound and _are_reads_bound(statement.body, names)
        elif isinstance(statement, (ast.If, ast.While)):
            # A later read may use a name from either side: the compiler takes only one of them.
            one, other = set(names), set(names)
            is_bound = trees.reads(statement.test) <= names
            is_bound = is_bound and _are_reads_bound(statement.body, one)
            is_bound = is_bound and _are_reads_bound(statement.orelse, other)
            names |= one | other
        else:
            own_names: set[str] = set()
            for node in ast.walk(statement):
                if isinstance(node, ast.comprehension):
                    own_names.update(name.id for name in trees.names_in(node.target))
            is_bound = trees.reads(statement) - own_names <= names
            names |= trees.writes(statement)
        if not is_bound:
            return False
    return True
