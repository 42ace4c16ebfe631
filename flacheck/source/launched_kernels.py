"""The kernels that a module defines, the names that it launches, and what its names stand for."""

import ast
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from flacheck.guest.pysource.functions import last_name, parameter_names
from flacheck.source import syntax

_COMPREHENSION = (ast.For, ast.AsyncFor, ast.comprehension)
_BINDING = (ast.Assign, ast.AnnAssign, ast.NamedExpr, *_COMPREHENSION, ast.Return)
_DISPLAY = (ast.Dict, ast.List, ast.Tuple)
# Most nodes of a tree have no node below them that launches or binds a name.
_LEAF = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop, ast.alias)


@dataclass
class LaunchedKernels:
    """The kernels, launches and aliases of a module.

    `kernels` are qualified names, `outer.kernel` for one within a function or a class. `launches`
    pairs (top-level function or class, name), where the name is qualified if it is a kernel of the
    module in its scope. `aliases` are the names that a variable, an attribute, a parameter or the
    result of a function may stand for: `tuned = triton.autotune(…)(kernel)`.
    """

    kernels: set[str] = field(default_factory=set)
    launches: dict[tuple[str, str], None] = field(default_factory=dict)
    aliases: dict[str, dict[str, None]] = field(default_factory=dict)
    # The qualified names of the functions that are no kernels by a decorator.
    _functions: set[str] = field(default_factory=set)
    # Parameters by the names of functions, and of classes that are called.
    _parameters: dict[str, list[str]] = field(default_factory=dict)

    @staticmethod
    def of(module: ast.Module) -> "LaunchedKernels":
        """Read a module by one walk, which stays out of kernels: a package has a million nodes."""
        found = LaunchedKernels()
        host = list(found._walk(module))
        for node, scope in host:
            if isinstance(node, ast.Call) and syntax.is_jit(node.func):
                # `kernel = triton.jit(function)`.
                wrapped = {
                    _qualify(name, scope, found._functions) for name in syntax.names_in(node.args)
                }
                found.kernels |= wrapped & found._functions
        calls = [node.func for node, _ in host if isinstance(node, ast.Call)]
        called = set(syntax.names_in(calls))
        for node, scope in host:
            found._add_launch(node, scope, called)
        launched = {name.rpartition(".")[2] for _, name in found.launches}
        for node, scope in host:
            found._add_aliases(node, scope, launched)
        return found

    def _walk(self, module: ast.Module) -> Iterator[tuple[ast.AST, str]]:
        """Yield calls, subscripts and bindings outside kernels by scope; note the definitions."""
        todo: list[tuple[ast.AST, str]] = [(module, "")]
        while todo:
            parent, scope = todo.pop()
            for node in ast.iter_child_nodes(parent):
                if isinstance(node, _LEAF):
                    continue
                inside = scope
                if isinstance(node, syntax.DEFINITION):
                    inside = f"{scope}.{node.name}" if scope else node.name
                    if syntax.is_kernel(node):
                        self.kernels.add(inside)
                        continue
                if isinstance(node, syntax.FUNCTION):
                    self._functions.add(inside)
                    self._add_parameters(node, scope)
                todo.append((node, inside))
                if isinstance(node, (ast.Call, ast.Subscript, *_BINDING)):
                    yield node, scope

    def _add_parameters(self, function: syntax.Function, scope: str) -> None:
        names = parameter_names(function)
        self._parameters[function.name] = names
        if function.name == "__init__":
            self._parameters[scope.rpartition(".")[2]] = names[1:]

    def _add_launch(self, node: ast.AST, scope: str, called: set[str]) -> None:
        """Note the names that a node launches; `called` are the module's called variables."""
        names = list(syntax.launched_names(node))
        match node:
            case ast.Subscript(value, ctx=ast.Load()) if not isinstance(value, _DISPLAY):
                # `return kernel[grid]` is launched elsewhere; `{"relu": relu}[name]` is a lookup.
                names += [each for each in self._qualified(value, scope) if each in self.kernels]
            case ast.Assign([ast.Name(variable)], ast.Subscript(value)) if variable in called:
                # `launch = kernel[grid]` and `launch(x)`.
                names += syntax.possible_names(value)
        for name in names:
            qualified = _qualify(name, scope, self.kernels)
            self.launches[scope.partition(".")[0] or "<module>", qualified] = None

    def _add_aliases(self, node: ast.AST, scope: str, launched: set[str]) -> None:
        """Note what a node's names may stand for; of parameters only those that are launched."""
        if isinstance(node, ast.Assign):
            self._bind(node.targets, node.value, scope)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            self._bind([node.target], node.value, scope)
        elif isinstance(node, _COMPREHENSION):
            self._bind([node.target], node.iter, scope)
        elif isinstance(node, ast.Return) and node.value is not None:
            self._alias(scope.rpartition(".")[2], node.value, scope)
        elif isinstance(node, ast.Call):
            names = self._parameters.get(syntax.called_name(node), ())
            arguments = dict(zip(names, node.args))
            for keyword in node.keywords:
                arguments[keyword.arg or ""] = keyword.value
            for name in arguments.keys() & launched:
                self._alias(name, arguments[name], scope)

    def _bind(self, targets: Iterable[ast.expr], value: ast.expr, scope: str) -> None:
        for target in targets:
            if isinstance(target, (ast.Tuple, ast.List)):
                self._bind(target.elts, value, scope)
            else:
                # `TABLE["name"] = kernel` changes what `TABLE` holds.
                named = target.value if isinstance(target, ast.Subscript) else target
                self._alias(last_name(named), value, scope)

    def _alias(self, name: str, value: ast.expr, scope: str) -> None:
        for each in self._qualified(value, scope):
            self.aliases.setdefault(name, {})[each] = None

    def _qualified(self, node: ast.AST, scope: str) -> Iterator[str]:
        for name in syntax.possible_names(node):
            yield _qualify(name, scope, self.kernels)


def _qualify(name: str, scope: str, definitions: Container[str]) -> str:
    """Return the qualified name of the definition that a name means in a scope, else the name."""
    plain = name.removeprefix("self.").removeprefix("cls.")
    while scope:
        if f"{scope}.{plain}" in definitions:
            return f"{scope}.{plain}"
        scope = scope.rpartition(".")[0]
    return name
