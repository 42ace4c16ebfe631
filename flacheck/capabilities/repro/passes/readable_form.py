"""The form that is read: usual names, one step a line. Taken whatever the order says."""

import ast
import copy
from collections.abc import Generator
from string import ascii_lowercase

from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.rewriting import rewrite
from flacheck.capabilities.repro.kernel.specimen import Specimen

_POINTERS = ("x_ptr", "y_ptr", "z_ptr", "w_ptr", "u_ptr", "v_ptr")
# What a reader looks for: the operations that fail, and the loads that feed them.
_STEPS = "tl.load tl.dot tl.sum tl.max tl.min tl.exp tl.trans tl.cumsum tl.associative_scan".split()


def reading(best: Specimen) -> Generator[Specimen, bool, None]:
    """One step a line with usual names, what is written twice taken once where the failure stays;
    else the names alone; else those of the kernel and its pointers, for a message may name a
    variable."""
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
    taken = {*best.args, *(n.id for s in best.function.body for n in trees.names_in(s))}

    def steps_of(statement: ast.stmt) -> trees.Block:
        """Loads, dots and reductions inside other expressions get statements of their own."""
        if isinstance(statement, trees.COMPOUND):
            return [statement]
        steps = _Steps(statement, taken, once)
        last = steps.visit(statement)
        return [*steps.before, last]

    return rewrite(best, trees.expand_statements(best.copied_body(), steps_of))


class _Steps(trees.Extraction):
    """Names what is nested, inner first; equal steps of one statement share a name if they are to
    be taken `once`."""

    def __init__(self, statement: ast.stmt, taken: set[str], once: bool) -> None:
        super().__init__(taken)
        self._once = once
        self._named: dict[str, str] = {}
        self._whole = None
        if isinstance(statement, (ast.Assign, ast.Expr)):
            self._whole = statement.value

    def visit_Call(self, node: ast.Call) -> ast.expr:
        whole = node is self._whole
        self.generic_visit(node)
        if whole or trees.callee_name(node) not in _STEPS:
            return node
        text = ast.unparse(node)
        if not self._once or text not in self._named:
            self._named[text] = self.new_name("step")
            self.before.append(trees.assign(self._named[text], node))
        return trees.variable(self._named[text])


def use_usual_names(specimen: Specimen, variables: bool = True) -> Specimen:
    """The kernel called `kernel`, pointers `x_ptr`…, `variables` `a`, `b`… as they are bound."""
    function = specimen.function
    within = [name for statement in function.body for name in trees.names_in(statement)]
    bound = dict.fromkeys(name.id for name in within if isinstance(name.ctx, ast.Store))
    others = {name.id for name in trees.names_in(function)} - set(bound)
    letters = [letter for letter in ascii_lowercase if letter not in {*specimen.args, *others}]
    names = dict(zip(specimen.pointers, _POINTERS))
    # Where letters run out, variables keep their names.
    if variables and len(bound) <= len(letters):
        names |= zip(bound, letters)
    # A pointer may be called what a variable would be.
    if len(set(names.values())) != len(names):
        return specimen
    own = "kernel"
    if own in {*specimen.helpers, *specimen.constants}:
        own = specimen.name
    tree = copy.deepcopy(specimen.tree)
    renamed_function = tree.body[specimen.tree.body.index(function)]
    trees.Renaming(names).visit(renamed_function)
    assert isinstance(renamed_function, ast.FunctionDef)
    renamed_function.name = own
    args = {names.get(name, name): spec for name, spec in specimen.args.items()}
    renamed = specimen.with_(source=ast.unparse(tree), name=own, args=args)
    return rewrite(renamed, renamed.copied_body())
