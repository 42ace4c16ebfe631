"""What can be said of a candidate without a compiler: is it better, is it worth a question?"""

import ast
from functools import lru_cache
from math import inf, log2
from typing import Any

from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.type_inference import infer_kernel

# What each costs a reader, where a node of the syntax tree costs 2. Only the ratios matter: control
# flow and helpers cost more than the few lines that replace them, a constant more than its literal.
CONTROL, HELPER, ODD_ACCESS, LINE, PARAMETER, CONSTANT, NODE = 400, 300, 80, 40, 25, 30, 2
OPTION, ALIGNMENT, DTYPE = 60, 4, 6
USUAL_OPTIONS = {"num_warps": 4}
# fp16 is what most of Triton's own tests use.
DTYPES = ("fp32", "fp16", "bf16")
# What a kernel may name without binding it: Triton's modules, and Python's functions that its front
# end knows.
BUILTINS = set("tl triton range min max float int bool len print abs isinstance tuple".split())


# Every candidate is compared with the best so far, which stays the same for long.
@lru_cache(maxsize=256)
def cost(specimen: Specimen) -> tuple[int, str]:
    """Smaller is better; ties are decided by the text, so that no two specimens are equal."""
    statements = list(trees.all_statements(specimen.function.body))
    control = sum(isinstance(statement, trees.COMPOUND) for statement in statements)
    weight = (
        CONTROL * control
        + HELPER * len(specimen.helpers)
        + LINE * len(statements)
        + NODE * specimen.nodes
        + sum(map(_node, ast.walk(specimen.function)))
        + sum(map(_argument, specimen.args.values()))
        + sum(_option(name, value) for name, value in specimen.options.items())
        + OPTION * len(specimen.omitted_parameters)
    )
    return round(weight), specimen.key


def _node(node: ast.AST) -> float:
    """Block pointers, masks and large numbers are more to read than their nodes say."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _magnitude(node.value)
    if trees.callee_name(node) in ("tl.make_block_ptr", "tl.advance", "tl.make_tensor_descriptor"):
        return ODD_ACCESS
    if isinstance(node, ast.keyword) and node.arg in ("mask", "boundary_check", "other"):
        return ODD_ACCESS / 2
    return 0


def _magnitude(value: object) -> float:
    """Large numbers are more to read; 1 for what is no finite number."""
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
            # Unaligned is simpler: the compiler is told nothing of the pointer.
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
    """Whether names are bound before they are read, parameters have values, and shapes fit."""
    body = specimen.function.body
    # Every release compiles an empty kernel.
    if specimen.stage == "compile" and all(isinstance(s, ast.Pass) for s in body):
        return False
    parameters = set(trees.parameter_names(specimen.function))
    given = {*specimen.args, *specimen.omitted_parameters}
    if not parameters <= given or not set(specimen.args) <= parameters:
        return False
    known = BUILTINS | parameters
    for statement in specimen.tree.body:
        if isinstance(statement, ast.FunctionDef):
            known.add(statement.name)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            known |= {(a.asname or a.name).split(".")[0] for a in statement.names}
        else:
            known |= trees.writes(statement)
    return _defined(body, known) and not infer_kernel(specimen).faults


def _defined(body: trees.Block, known: set[str]) -> bool:
    """Walks in the order of execution, and adds what is bound to `known`."""
    for statement in body:
        if isinstance(statement, ast.For):
            defined = trees.reads(statement.iter) <= known
            known |= trees.writes(statement.target)
            defined = defined and _defined(statement.body, known)
        elif isinstance(statement, (ast.If, ast.While)):
            # Either side may bind what is read later: the compiler knows which one it takes.
            one, other = set(known), set(known)
            defined = trees.reads(statement.test) <= known and _defined(statement.body, one)
            defined = defined and _defined(statement.orelse, other)
            known |= one | other
        else:
            comprehensions = [n for n in ast.walk(statement) if isinstance(n, ast.comprehension)]
            own = {name.id for c in comprehensions for name in trees.names_in(c.target)}
            defined = trees.reads(statement) - own <= known
            known |= trees.writes(statement)
        if not defined:
            return False
    return True
