"""Python versions that a module compares its own with."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from flacheck.guest.pysource.functions import dotted_name
from flacheck.source import syntax

# How a module gets Python's version.
_READS = (
    "sys.version_info",
    "sys.hexversion",
    "platform.python_version",
    "platform.python_version_tuple",
)
_VERSION = re.compile(r"3\.\d{1,2}")
# Both hold from the bound on: `version >= bound` and `bound <= version`, and their opposites.
_FROM_BOUND = {True: (ast.Lt, ast.GtE), False: (ast.Gt, ast.LtE)}


@dataclass(frozen=True)
class PythonVersions:
    """The dependence of modules on Python's version.

    The modules behave alike on every Python that lies on the same side of all `bounds` (`3.11`),
    unless the dependence `is_open`: then they use the version in a way that shows no bounds.
    """

    bounds: frozenset[str] = frozenset()
    is_open: bool = False

    def join(self, other: "PythonVersions") -> "PythonVersions":
        """Return the dependence of both."""
        return PythonVersions(self.bounds | other.bounds, self.is_open or other.is_open)


def read(source: bytes) -> PythonVersions:
    """Return the dependence of a module on Python's version."""
    if not any(name.rpartition(".")[2].encode() in source for name in _READS):
        return PythonVersions()
    return _Reader(syntax.tree(source)).dependence()


class _Reader:
    """A module with the names that stand for Python's version in it."""

    def __init__(self, module: ast.Module) -> None:
        self._module = module
        self._values: dict[str, list[ast.expr]] = {}
        for node in ast.walk(module):
            assignment = _assignment(node)
            if assignment is not None:
                name, value = assignment
                self._values.setdefault(name, []).append(value)
        self._names: set[str] = set()
        for name, values in self._values.items():
            if any(map(_reads_version, values)):
                self._names.add(name)

    def dependence(self) -> PythonVersions:
        """Return the bounds of all comparisons with the version; open for another use of it."""
        bounds: set[str] = set()
        explained: set[int] = set()
        for node in ast.walk(self._module):
            if isinstance(node, ast.Compare) and self._is_version(node):
                own_bounds = self._bounds(node)
                if not own_bounds:
                    return PythonVersions(frozenset(bounds), is_open=True)
                bounds |= own_bounds
                explained.update(map(id, ast.walk(node)))
            elif isinstance(node, ast.JoinedStr):
                # A message, or a text that becomes a version by an assignment.
                explained.update(map(id, ast.walk(node)))
            assignment = _assignment(node)
            if assignment is not None and _reads_version(assignment[1]):
                explained.update(map(id, ast.walk(assignment[1])))
        is_open = False
        for node in ast.walk(self._module):
            if id(node) not in explained and self._uses(node):
                is_open = True
        return PythonVersions(frozenset(bounds), is_open)

    def _uses(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._names and isinstance(node.ctx, ast.Load)
        return dotted_name(node) in _READS

    def _is_version(self, compare: ast.Compare) -> bool:
        return any(self._uses(node) for node in ast.walk(compare))

    def _bounds(self, compare: ast.Compare) -> set[str]:
        """Return the versions of a comparison; none if it does not divide versions in two."""
        if len(compare.ops) != 1:
            return set()
        left, right = compare.left, compare.comparators[0]
        is_left = any(self._uses(node) for node in ast.walk(left))
        if not isinstance(compare.ops[0], _FROM_BOUND[is_left]):
            return set()
        bound = right if is_left else left
        return set(self._versions_in(bound))

    def _versions_in(self, expression: ast.expr) -> Iterator[str]:
        """Yield the versions in an expression, or in the values of a name."""
        expressions = [expression]
        if isinstance(expression, ast.Name):
            expressions = self._values.get(expression.id, [])
        for each in expressions:
            if isinstance(each, ast.Tuple):
                numbers = [str(node.value) for node in syntax.constants_in(each)]
                version = ".".join(numbers[:2])
                if _VERSION.fullmatch(version):
                    yield version
                continue
            for node in ast.walk(each):
                if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                    continue
                if _VERSION.fullmatch(node.value):
                    yield node.value


def _assignment(node: ast.AST) -> tuple[str, ast.expr] | None:
    """Return the name and value of an assignment to one plain name; None for any other node."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Name):
            return target.id, node.value
    return None


def _reads_version(expression: ast.expr) -> bool:
    return any(dotted_name(node) in _READS for node in ast.walk(expression))
