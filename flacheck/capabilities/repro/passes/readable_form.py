"""The readable form: usual names, one step a line. It is accepted even at a higher cost."""

import ast
import copy
from string import ascii_lowercase

from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.rewriting import rewrite
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.passes.search import Proposals

# Without the letter that looks like a 1.
_LETTERS = ascii_lowercase.replace("l", "")
_POINTERS = ("x_ptr", "y_ptr", "z_ptr", "w_ptr", "u_ptr", "v_ptr")
# The operations that matter to a reader: those that fail, and the loads of their inputs.
_STEPS = "tl.load tl.dot tl.sum tl.max tl.min tl.exp tl.trans tl.cumsum tl.associative_scan".split()


def reading(best: Specimen) -> Proposals:
    """Propose one step a line with usual names, then usual names alone.

    Equal steps share a variable if the failure stays. The last candidate renames only the kernel
    and its pointers, because a message may contain the name of a variable.
    """
    steps = [_stepwise(best, once=True), _stepwise(best, once=False)]
    forms = [
        *map(use_usual_names, steps),
        use_usual_names(best),
        use_usual_names(best, variables=False),
    ]
    for candidate in dict.fromkeys(forms):
        if (yield candidate):
            return


def _stepwise(best: Specimen, once: bool) -> Specimen:
    used_names = set(best.args)
    for statement in best.function.body:
        used_names.update(name.id for name in trees.names_in(statement))

    def steps_of(statement: ast.stmt) -> trees.Block:
        """Return statements of their own for nested loads, dots and reductions."""
        if isinstance(statement, trees.COMPOUND):
            return [statement]
        steps = _Steps(statement, used_names, once)
        last = steps.visit(statement)
        return [*steps.before, last]

    return rewrite(best, trees.expand_statements(best.copied_body(), steps_of))


class _Steps(trees.Extraction):
    """A transformer that moves nested operations into assignments, inner first.

    With `once` equal operations of a statement share a variable.
    """

    def __init__(self, statement: ast.stmt, used_names: set[str], once: bool) -> None:
        super().__init__(used_names)
        self._once = once
        self._variables: dict[str, str] = {}
        self._whole = None
        if isinstance(statement, (ast.Assign, ast.Expr)):
            self._whole = statement.value

    def visit_Call(self, node: ast.Call) -> ast.expr:
        is_whole = node is self._whole
        self.generic_visit(node)
        if is_whole or trees.callee_name(node) not in _STEPS:
            return node
        text = ast.unparse(node)
        if not self._once or text not in self._variables:
            self._variables[text] = self.new_name("step")
            self.before.append(trees.assign(self._variables[text], node))
        return trees.variable(self._variables[text])


def use_usual_names(specimen: Specimen, variables: bool = True) -> Specimen:
    """Return the kernel as `kernel`, with pointers `x_ptr` etc. and `variables` `a`, `b` etc."""
    function = specimen.function
    bound: dict[str, None] = {}
    for statement in function.body:
        for name in trees.names_in(statement):
            if isinstance(name.ctx, ast.Store):
                bound[name.id] = None
    reserved = {*specimen.args}
    for name in trees.names_in(function):
        if name.id not in bound:
            reserved.add(name.id)
    letters = [letter for letter in _LETTERS if letter not in reserved]
    names = dict(zip(specimen.pointers, _POINTERS))
    # With more variables than letters, variables keep their names.
    if variables and len(bound) <= len(letters):
        names |= zip(bound, letters)
    # A pointer and a variable may get the same name.
    if len(set(names.values())) != len(names):
        return specimen
    own = "kernel"
    if own in {*specimen.helpers, *specimen.constants}:
        own = specimen.name
    tree = copy.deepcopy(specimen.tree)
    new_function = tree.body[specimen.tree.body.index(function)]
    trees.Renaming(names).visit(new_function)
    assert isinstance(new_function, ast.FunctionDef)
    new_function.name = own
    args = {names.get(parameter, parameter): spec for parameter, spec in specimen.args.items()}
    new = specimen.with_(source=ast.unparse(tree), name=own, args=args)
    return rewrite(new, new.copied_body())
