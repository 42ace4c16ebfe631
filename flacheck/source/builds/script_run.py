"""One way through a build script: its statements are followed in order, and nothing is run.

A condition that depends on the machine has the outcome that the caller decides; the run records
conditions without a decision. A guard that only raises an error is skipped.
"""

import ast
import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flacheck.source.builds import script_values
from flacheck.source.builds.script_library import CONSTANTS, OF_AMD, PRESENT, Library
from flacheck.source.builds.script_values import (
    Extension,
    NotWorkedOut,
    TooLarge,
    UnknownValue,
    check_size,
    is_scalar,
)

_DEEPEST_CALL = 30
# The errors that Python raises for unsuitable operands, and this module for unknown ones.
_FAILURES = (
    *(NotWorkedOut, TypeError, ValueError, ArithmeticError, LookupError, AttributeError),
    *(OSError, re.error),
)
_EXITS = frozenset(("sys.exit", "exit", "quit", "os._exit"))
_SPECIFICATION = re.compile(r"0?\d{0,2}[ds]?")


class Stopped(Exception):
    """The script ends here with an error."""


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class StepBudget:
    """The steps that all runs of a script may still take."""

    def __init__(self, steps: int) -> None:
        self._rest = steps

    def spend(self, steps: int) -> None:
        """Take some steps; raise TooLarge if too few remain."""
        self._rest -= steps
        if self._rest < 0:
            raise TooLarge


class _Scope:
    """Names and their values, in a module, a function call or a comprehension."""

    def __init__(self, outer: "_Scope | None" = None) -> None:
        self.outer = outer
        self.values: dict[str, Any] = {}
        # Names that a `global` or `nonlocal` statement takes from outside.
        self.lent: set[str] = set()
        # The values that a generator has yielded.
        self.yields: list[Any] = []

    def holder(self, name: str) -> "_Scope | None":
        """Return the innermost scope that has a name."""
        scope: _Scope | None = self
        while scope is not None and (name not in scope.values or name in scope.lent):
            scope = scope.outer
        return scope

    def assign(self, name: str, value: Any) -> None:
        scope = self
        if name in self.lent:
            scope = self.holder(name) or self._outermost()
        scope.values[name] = value

    def _outermost(self) -> "_Scope":
        scope = self
        while scope.outer is not None:
            scope = scope.outer
        return scope


class _ScriptFunction:
    """A function of the script with the scope that it was defined in."""

    def __init__(self, node: ast.FunctionDef | ast.Lambda, scope: _Scope) -> None:
        self.node = node
        self.scope = scope


class ScriptWalk:
    """One way through a script.

    `decisions` has the outcome of conditions, by their text. After the walk, `extensions` has every
    extension of the script, and `undecided` each unknown condition without a decision, by its text,
    with its line and outcome.
    """

    def __init__(
        self,
        file: Path,
        root: Path,
        work: StepBudget,
        decisions: Mapping[str, bool],
        library: Library,
    ) -> None:
        self._file = file
        self._root = root
        self._work = work
        self._decisions = decisions
        self._library = library
        # The text of each unknown condition, empty for a condition on AMD's GPUs.
        self._texts: dict[ast.expr, str] = {}
        self._depth = 0
        self._environment: dict[str, Any] = {}
        self.line = 0
        self.extensions: list[Extension] = []
        self.undecided: dict[str, tuple[int, bool]] = {}
        self._module = _Scope()

    def follow(self, tree: ast.Module) -> None:
        """Follow a module from its first statement to its last.

        Raises Stopped if it ends with an error, TooLarge if it takes too much work.
        """
        scope = self._module
        scope.values["__file__"] = str(self._root / self._file.name)
        try:
            self._block(tree.body, scope)
            if not self.extensions:
                self._call_all(scope)
        except (_Return, _Break, _Continue):
            # Python rejects a module with such a statement outside of a function or loop.
            raise Stopped from None

    def value_of(self, node: ast.expr) -> Any:
        """Return the value of an expression by the module's names, after the walk."""
        return self._value(node, self._module)

    def truth_of(self, node: ast.expr) -> bool | None:
        """Return if an expression is true by the module's names; None if that is unknown."""
        return self._truth(self.value_of(node))

    def _call_all(self, scope: _Scope) -> None:
        """Call the functions of a module: a class of the script may call them while it builds."""
        for value in list(scope.values.values()):
            if isinstance(value, _ScriptFunction) and isinstance(value.node, ast.FunctionDef):
                self._run_function(value, [], {}, value.node)

    # Statements

    def _block(self, body: Sequence[ast.stmt], scope: _Scope) -> None:
        for node in body:
            self.line = node.lineno
            self._work.spend(1)
            follow = getattr(self, f"_do_{type(node).__name__}", None)
            if follow is not None:
                follow(node, scope)

    def _do_Expr(self, node: ast.Expr, scope: _Scope) -> None:
        self._value(node.value, scope)

    def _do_Assign(self, node: ast.Assign, scope: _Scope) -> None:
        value = self._value(node.value, scope)
        for target in node.targets:
            self._assign(target, value, scope)

    def _do_AnnAssign(self, node: ast.AnnAssign, scope: _Scope) -> None:
        if node.value is not None:
            self._assign(node.target, self._value(node.value, scope), scope)

    def _do_AugAssign(self, node: ast.AugAssign, scope: _Scope) -> None:
        before = self._value(node.target, scope)
        added = self._value(node.value, scope)
        if isinstance(before, list) and isinstance(node.op, ast.Add):
            # In place, because other names may refer to the same list.
            before += _items_or_unknown(added, node.value)
            check_size(before)
            return
        try:
            after = script_values.binary(node.op, before, added)
        except _FAILURES:
            after = UnknownValue(node)
        self._assign(node.target, after, scope)

    def _do_If(self, node: ast.If, scope: _Scope) -> None:
        usual = not _leaves_early(node.body)
        if _ends_script(node.body) or not self._is_true(node.test, scope, usual):
            self._block(node.orelse, scope)
        else:
            self._block(node.body, scope)

    def _do_For(self, node: ast.For, scope: _Scope) -> None:
        try:
            for item in self._items(self._value(node.iter, scope), node.iter):
                self._work.spend(1)
                self._assign(node.target, item, scope)
                try:
                    self._block(node.body, scope)
                except _Continue:
                    continue
        except _Break:
            return
        self._block(node.orelse, scope)

    def _do_While(self, node: ast.While, scope: _Scope) -> None:
        try:
            while True:
                truth = self._truth(self._value(node.test, scope))
                if truth is False:
                    break
                with contextlib.suppress(_Continue):
                    self._block(node.body, scope)
                if truth is None:
                    # The number of rounds depends on the machine; one shows what a round adds.
                    break
        except _Break:
            return
        self._block(node.orelse, scope)

    def _do_Try(self, node: ast.Try, scope: _Scope) -> None:
        try:
            self._block(node.body, scope)
        except Stopped:
            if not node.handlers:
                raise
            self._block(node.handlers[0].body, scope)
        else:
            self._block(node.orelse, scope)
        self._block(node.finalbody, scope)

    def _do_With(self, node: ast.With, scope: _Scope) -> None:
        for item in node.items:
            value = self._value(item.context_expr, scope)
            if item.optional_vars is not None:
                self._assign(item.optional_vars, value, scope)
        self._block(node.body, scope)

    def _do_Raise(self, node: ast.Raise, scope: _Scope) -> None:
        raise Stopped

    def _do_Return(self, node: ast.Return, scope: _Scope) -> None:
        value = None
        if node.value is not None:
            value = self._value(node.value, scope)
        raise _Return(value)

    def _do_Break(self, node: ast.Break, scope: _Scope) -> None:
        raise _Break

    def _do_Continue(self, node: ast.Continue, scope: _Scope) -> None:
        raise _Continue

    def _do_FunctionDef(self, node: ast.FunctionDef, scope: _Scope) -> None:
        scope.assign(node.name, _ScriptFunction(node, scope))

    def _do_ClassDef(self, node: ast.ClassDef, scope: _Scope) -> None:
        # Methods run when something is built; they are not followed.
        scope.assign(node.name, UnknownValue(node, node.name))

    def _do_Import(self, node: ast.Import, scope: _Scope) -> None:
        for alias in node.names:
            if alias.asname:
                scope.assign(alias.asname, UnknownValue(node, alias.name))
            else:
                top = alias.name.partition(".")[0]
                scope.assign(top, UnknownValue(node, top))

    def _do_ImportFrom(self, node: ast.ImportFrom, scope: _Scope) -> None:
        for alias in node.names:
            name = f"{node.module or ''}.{alias.name}"
            scope.assign(alias.asname or alias.name, self._outside(node, name))

    def _do_Global(self, node: ast.Global | ast.Nonlocal, scope: _Scope) -> None:
        scope.lent.update(node.names)

    _do_Nonlocal = _do_Global

    def _do_Delete(self, node: ast.Delete, scope: _Scope) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                scope.values.pop(target.id, None)
            elif isinstance(target, ast.Subscript):
                holder = self._value(target.value, scope)
                key = self._value(target.slice, scope)
                if isinstance(holder, dict) and is_scalar(key):
                    holder.pop(key, None)

    def _assign(self, target: ast.expr, value: Any, scope: _Scope) -> None:
        if isinstance(target, ast.Name):
            scope.assign(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value, scope)
        elif isinstance(target, ast.Subscript):
            self._put(target, value, scope)

    def _unpack(self, target: ast.Tuple | ast.List, value: Any, scope: _Scope) -> None:
        names = target.elts
        is_starred = any(isinstance(name, ast.Starred) for name in names)
        if isinstance(value, (list, tuple)) and len(value) == len(names) and not is_starred:
            for name, item in zip(names, value):
                self._assign(name, item, scope)
            return
        for name in names:
            if isinstance(name, ast.Starred):
                name = name.value
            self._assign(name, UnknownValue(target), scope)

    def _put(self, target: ast.Subscript, value: Any, scope: _Scope) -> None:
        holder = self._value(target.value, scope)
        key = self._value(target.slice, scope)
        if isinstance(holder, dict):
            if not is_scalar(key):
                key = UnknownValue(target)
            holder[key] = value
            check_size(holder)
        elif isinstance(holder, list):
            try:
                holder[key] = value
            except _FAILURES:
                holder.append(UnknownValue(target))

    # Conditions

    def _truth(self, value: Any) -> bool | None:
        """Return if a value is true; None if that is unknown."""
        if isinstance(value, UnknownValue):
            if value.last_name in PRESENT:
                return True
            return None
        if isinstance(value, (_ScriptFunction, Extension)):
            return True
        if value and isinstance(value, list):
            for item in value:
                # A value that stands for any number of items may stand for none.
                if not isinstance(item, UnknownValue) or not item.is_many:
                    return True
            return None
        return bool(value)

    def _is_true(self, test: ast.expr, scope: _Scope, usual: bool = True) -> bool:
        """Return the outcome of a condition: its value, the caller's decision, or the usual one.

        The usual outcome is recorded.
        """
        self._work.spend(1)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return not self._is_true(test.operand, scope, not usual)
        if isinstance(test, ast.BoolOp):
            return self._is_bool_op_true(test, scope, usual)
        truth = self._truth(self._value(test, scope))
        if truth is not None:
            return truth
        return self._decide(test, usual)

    def _is_bool_op_true(self, test: ast.BoolOp, scope: _Scope, usual: bool) -> bool:
        """Return the outcome of an `and` or `or`; one known operand can decide it."""
        decisive = isinstance(test.op, ast.Or)
        open_operands = []
        for operand in test.values:
            truth = self._truth(self._value(operand, scope))
            if truth is decisive:
                return decisive
            if truth is None:
                open_operands.append(operand)
        for operand in open_operands:
            if self._is_true(operand, scope, usual) is decisive:
                return decisive
        return not decisive

    def _decide(self, test: ast.expr, usual: bool) -> bool:
        """Return the outcome of an unknown condition; a condition on AMD's GPUs is false."""
        if test not in self._texts:
            self._texts[test] = ast.unparse(test)
            for node in ast.walk(test):
                name = getattr(node, "attr", getattr(node, "id", ""))
                if OF_AMD.search(name):
                    self._texts[test] = ""
        text = self._texts[test]
        if not text:
            return isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Is, ast.NotEq))
        if text in self._decisions:
            return self._decisions[text]
        # A condition has the same outcome in every place.
        return self.undecided.setdefault(text, (test.lineno, usual))[1]

    # Expressions

    def _value(self, node: ast.expr, scope: _Scope) -> Any:
        """Return the value of an expression, UnknownValue if it cannot be evaluated."""
        self._work.spend(1)
        evaluate = getattr(self, f"_of_{type(node).__name__}", None)
        if evaluate is None:
            return UnknownValue(node)
        try:
            return evaluate(node, scope)
        except _FAILURES:
            return UnknownValue(node)

    def _outside(self, node: ast.AST, name: str) -> Any:
        """Return the value of a name that is imported or built in."""
        if name == "os.environ":
            return self._environment
        if name in CONSTANTS:
            return CONSTANTS[name]
        return UnknownValue(node, name)

    def _of_Constant(self, node: ast.Constant, scope: _Scope) -> Any:
        if is_scalar(node.value):
            return check_size(node.value)
        raise NotWorkedOut

    def _of_Name(self, node: ast.Name, scope: _Scope) -> Any:
        holder = scope.holder(node.id)
        if holder is not None:
            value = holder.values[node.id]
            if isinstance(value, UnknownValue) and not value.name:
                return UnknownValue(node)
            return value
        return self._outside(node, node.id)

    def _of_Attribute(self, node: ast.Attribute, scope: _Scope) -> Any:
        value = self._value(node.value, scope)
        if isinstance(value, UnknownValue):
            if value.name:
                return self._outside(node, f"{value.name}.{node.attr}")
            raise NotWorkedOut
        if isinstance(value, Extension):
            return value.arguments.get(node.attr, UnknownValue(node))
        return script_values.attribute(value, node.attr)

    def _of_List(self, node: ast.List | ast.Tuple | ast.Set, scope: _Scope) -> list[Any]:
        items: list[Any] = []
        for element in node.elts:
            if not isinstance(element, ast.Starred):
                items.append(self._value(element, scope))
                continue
            value = self._value(element.value, scope)
            items += _items_or_unknown(value, element)
            check_size(items)
        return items

    _of_Tuple = _of_Set = _of_List

    def _of_Dict(self, node: ast.Dict, scope: _Scope) -> dict[Any, Any]:
        mapping: dict[Any, Any] = {}
        for key_node, value_node in zip(node.keys, node.values):
            value = self._value(value_node, scope)
            if key_node is None:
                if not isinstance(value, dict):
                    value = {UnknownValue(value_node): value}
                mapping.update(value)
                check_size(mapping)
                continue
            key = self._value(key_node, scope)
            if not is_scalar(key):
                key = UnknownValue(key_node)
            mapping[key] = value
        return mapping

    def _of_JoinedStr(self, node: ast.JoinedStr, scope: _Scope) -> str:
        parts = []
        for part in node.values:
            if not isinstance(part, ast.FormattedValue):
                parts.append(str(self._value(part, scope)))
                continue
            value = self._value(part.value, scope)
            specification = ""
            if part.format_spec is not None:
                specification = self._value(part.format_spec, scope)
            if not is_scalar(value) or not _SPECIFICATION.fullmatch(specification):
                raise NotWorkedOut
            parts.append(format(value, specification))
        return str(check_size("".join(parts)))

    def _of_NamedExpr(self, node: ast.NamedExpr, scope: _Scope) -> Any:
        value = self._value(node.value, scope)
        self._assign(node.target, value, scope)
        return value

    def _of_BinOp(self, node: ast.BinOp, scope: _Scope) -> Any:
        left = self._value(node.left, scope)
        right = self._value(node.right, scope)
        items = 0
        for side in (left, right):
            if isinstance(side, list):
                items += len(side)
        self._work.spend(items // 8)
        # An unknown operand stands in a list with its own place in the script.
        if isinstance(left, UnknownValue) and not left.name:
            left = UnknownValue(node.left)
        if isinstance(right, UnknownValue) and not right.name:
            right = UnknownValue(node.right)
        return script_values.binary(node.op, left, right)

    def _of_UnaryOp(self, node: ast.UnaryOp, scope: _Scope) -> Any:
        value = self._value(node.operand, scope)
        if isinstance(node.op, ast.Not):
            truth = self._truth(value)
            if truth is None:
                raise NotWorkedOut
            return not truth
        if isinstance(node.op, ast.USub) and isinstance(value, int):
            return -value
        raise NotWorkedOut

    def _of_BoolOp(self, node: ast.BoolOp, scope: _Scope) -> Any:
        decisive = isinstance(node.op, ast.Or)
        values = [self._value(operand, scope) for operand in node.values]
        is_sure = True
        for value in values:
            truth = self._truth(value)
            if truth is decisive and (is_sure or isinstance(value, bool)):
                return value
            is_sure = is_sure and truth is not None
        if is_sure:
            return values[-1]
        raise NotWorkedOut

    def _of_Compare(self, node: ast.Compare, scope: _Scope) -> bool:
        left = self._value(node.left, scope)
        for comparison, right_node in zip(node.ops, node.comparators):
            right = self._value(right_node, scope)
            if not self._compare(comparison, left, right):
                return False
            left = right
        return True

    def _compare(self, comparison: ast.cmpop, left: Any, right: Any) -> bool:
        if isinstance(left, UnknownValue) and left.last_name in PRESENT and right is None:
            return isinstance(comparison, (ast.IsNot, ast.NotEq))
        if isinstance(left, UnknownValue) or isinstance(right, UnknownValue):
            raise NotWorkedOut
        return script_values.compare(comparison, left, right)

    def _of_IfExp(self, node: ast.IfExp, scope: _Scope) -> Any:
        if self._is_true(node.test, scope):
            return self._value(node.body, scope)
        return self._value(node.orelse, scope)

    def _of_Subscript(self, node: ast.Subscript, scope: _Scope) -> Any:
        value = self._value(node.value, scope)
        if isinstance(node.slice, ast.Slice):
            if not isinstance(value, (list, tuple, str)):
                raise NotWorkedOut
            bounds: list[Any] = []
            for part in (node.slice.lower, node.slice.upper, node.slice.step):
                bounds.append(None if part is None else self._value(part, scope))
            return value[slice(*bounds)]
        key = self._value(node.slice, scope)
        if not is_scalar(key) or not isinstance(value, (list, tuple, str, dict)):
            raise NotWorkedOut
        return value[key]

    def _of_ListComp(self, node: ast.ListComp | ast.GeneratorExp, scope: _Scope) -> list[Any]:
        return [self._value(node.elt, inner) for inner in self._loops(node.generators, scope)]

    _of_GeneratorExp = _of_ListComp

    def _of_SetComp(self, node: ast.SetComp, scope: _Scope) -> list[Any]:
        items: dict[Any, None] = {}
        for inner in self._loops(node.generators, scope):
            item = self._value(node.elt, inner)
            if is_scalar(item):
                items[item] = None
        return list(items)

    def _of_DictComp(self, node: ast.DictComp, scope: _Scope) -> dict[Any, Any]:
        mapping: dict[Any, Any] = {}
        for inner in self._loops(node.generators, scope):
            # Python evaluates the key first.
            key = self._value(node.key, inner)
            value = self._value(node.value, inner)
            if not is_scalar(key):
                key = UnknownValue(node.key)
            mapping[key] = value
        return mapping

    def _loops(self, loops: Sequence[ast.comprehension], scope: _Scope) -> Iterator[_Scope]:
        """Yield the scope of each pass through the loops of a comprehension."""
        if not loops:
            yield scope
            return
        loop = loops[0]
        for item in self._items(self._value(loop.iter, scope), loop.iter):
            self._work.spend(1)
            inner = _Scope(scope)
            self._assign(loop.target, item, inner)
            if all(self._is_true(condition, inner) for condition in loop.ifs):
                yield from self._loops(loops[1:], inner)

    def _items(self, value: Any, node: ast.expr) -> list[Any]:
        """Return the items of a loop; an unknown value counts as one unknown item."""
        if isinstance(value, (list, tuple, dict, str)):
            return list(value)
        return [UnknownValue(node)]

    def _of_Yield(self, node: ast.Yield, scope: _Scope) -> None:
        if node.value is not None:
            scope.yields.append(self._value(node.value, scope))

    def _of_Lambda(self, node: ast.Lambda, scope: _Scope) -> _ScriptFunction:
        return _ScriptFunction(node, scope)

    # Calls

    def _of_Call(self, node: ast.Call, scope: _Scope) -> Any:
        if isinstance(node.func, ast.Attribute):
            owner = self._value(node.func.value, scope)
            if not isinstance(owner, UnknownValue):
                return self._method(node, owner, scope)
        callee = self._value(node.func, scope)
        args, keywords = self._arguments(node, scope)
        if isinstance(callee, _ScriptFunction):
            return self._run_function(callee, args, keywords, node)
        if not isinstance(callee, UnknownValue):
            raise NotWorkedOut
        if callee.name in _EXITS:
            raise Stopped
        if callee.last_name.endswith("Extension"):
            return self._extension(callee.last_name, args, keywords, node)
        if callee.name in ("os.getenv", "os.environb.get"):
            return script_values.method(self._environment, "get", args, keywords)
        if callee.name in ("map", "filter", "functools.partial"):
            return self._map_or_filter(callee.name, args, node)
        try:
            return self._library.call(callee.name, args, keywords)
        except _FAILURES:
            # A helper of another module may add to the list that is its argument.
            lists = [arg for arg in args if isinstance(arg, list)]
            is_helper = callee.name not in _KNOWN_CALLS and not self._library.has(callee.name)
            if lists and is_helper:
                return [*lists[0], UnknownValue(node, is_many=True)]
            raise

    def _arguments(self, node: ast.Call, scope: _Scope) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        for arg in node.args:
            if not isinstance(arg, ast.Starred):
                args.append(self._value(arg, scope))
                continue
            value = self._value(arg.value, scope)
            if not isinstance(value, (list, tuple)):
                value = [UnknownValue(arg)]
            args += value
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self._value(keyword.value, scope)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, dict):
                for key, item in value.items():
                    if isinstance(key, str):
                        keywords[key] = item
        return args, keywords

    def _method(self, node: ast.Call, owner: Any, scope: _Scope) -> Any:
        assert isinstance(node.func, ast.Attribute)
        args, keywords = self._arguments(node, scope)
        name = node.func.attr
        if isinstance(owner, (list, str, dict)):
            self._work.spend(len(owner) // 8)
        try:
            return script_values.method(owner, name, args, keywords)
        except NotWorkedOut:
            if isinstance(owner, str):
                return self._library.path_method(owner, name, args)
            if isinstance(owner, list) and name in ("insert", "remove", "pop", "append", "extend"):
                owner.append(UnknownValue(node))
            raise

    def _map_or_filter(self, name: str, args: list[Any], node: ast.Call) -> Any:
        """Return the result of `map` or `filter` on a list."""
        if len(args) != 2 or not isinstance(args[1], (list, tuple)) or name == "functools.partial":
            raise NotWorkedOut
        function, items = args
        if name == "filter" and function is None:
            return [item for item in items if self._truth(item) is not False]
        results = []
        for item in items:
            if isinstance(function, _ScriptFunction):
                results.append(self._run_function(function, [item], {}, node))
            elif isinstance(function, UnknownValue):
                results.append(self._library.call(function.name, [item], {}))
            else:
                raise NotWorkedOut
        if name == "map":
            return results
        selection = []
        for item, result in zip(items, results):
            if self._truth(result) is None:
                raise NotWorkedOut
            if result:
                selection.append(item)
        return selection

    def _run_function(
        self, function: _ScriptFunction, args: list[Any], keywords: dict[str, Any], call: ast.AST
    ) -> Any:
        """Follow a function of the script and return its result."""
        if self._depth == _DEEPEST_CALL:
            return UnknownValue(call)
        scope = _Scope(function.scope)
        self._bind(function.node.args, args, keywords, scope)
        line = self.line
        self._depth += 1
        try:
            if isinstance(function.node, ast.Lambda):
                return self._value(function.node.body, scope)
            self._block(function.node.body, scope)
        except _Return as returned:
            if not scope.yields:
                return returned.value
        finally:
            self._depth -= 1
            self.line = line
        if scope.yields:
            return scope.yields
        return None

    def _bind(
        self, parameters: ast.arguments, args: list[Any], keywords: dict[str, Any], scope: _Scope
    ) -> None:
        assert scope.outer is not None
        positional = [*parameters.posonlyargs, *parameters.args]
        first_default = len(positional) - len(parameters.defaults)
        rest = dict(keywords)
        for place, parameter in enumerate(positional):
            if place < len(args):
                value = args[place]
            elif parameter.arg in rest:
                value = rest.pop(parameter.arg)
            elif place >= first_default:
                value = self._value(parameters.defaults[place - first_default], scope.outer)
            else:
                value = UnknownValue(parameter)
            scope.values[parameter.arg] = value
        for parameter, default in zip(parameters.kwonlyargs, parameters.kw_defaults):
            value = UnknownValue(parameter)
            if parameter.arg in rest:
                value = rest.pop(parameter.arg)
            elif default is not None:
                value = self._value(default, scope.outer)
            scope.values[parameter.arg] = value
        if parameters.vararg:
            scope.values[parameters.vararg.arg] = args[len(positional) :]
        if parameters.kwarg:
            scope.values[parameters.kwarg.arg] = rest

    def _extension(
        self, kind: str, args: list[Any], keywords: dict[str, Any], call: ast.Call
    ) -> Extension:
        arguments = dict(zip(("name", "sources"), args))
        extension = Extension(kind, call.lineno, {**arguments, **keywords})
        self.extensions.append(extension)
        return extension


def _items_or_unknown(value: Any, node: ast.AST) -> Sequence[Any]:
    """Return the items of a list, or a placeholder for the items of an unknown value."""
    if isinstance(value, (list, tuple)):
        return value
    return [UnknownValue(node, is_many=True)]


def _leaves_early(body: Sequence[ast.stmt]) -> bool:
    """Return True for a block that skips the rest; a build usually goes on."""
    last = body[-1]
    if isinstance(last, ast.Return):
        return last.value is None or ast.unparse(last.value) in ("[]", "None", "False", "()")
    return isinstance(last, (ast.Continue, ast.Break))


def _ends_script(body: Sequence[ast.stmt]) -> bool:
    """Return True for a block that ends the script; the build of a scan skips it."""
    last = body[-1]
    if isinstance(last, ast.Raise):
        return True
    call = last.value if isinstance(last, ast.Expr) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func) in _EXITS


# Functions whose unknown result is not derived from a list among their arguments.
_KNOWN_CALLS = frozenset(
    """subprocess.run subprocess.check_output subprocess.check_call subprocess.call
    subprocess.Popen""".split()
)
