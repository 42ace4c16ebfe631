"""Values of a script that is evaluated without running it: constants, lists and mappings.

`UnknownValue` stands for all that depends on the machine or on another module. A path is a string.
A set is a list without repetitions. Operations take little time and memory: the sizes of operands
and results are limited, and everything else is `UnknownValue` to the caller.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from packaging.version import Version

# A build instantiates a template hundreds of times; more than this is a mistake.
MOST_ITEMS = 20_000
_LONGEST_TEXT = 100_000
_LARGEST_BITS = 256
_SCALARS = (str, int, float, bool, type(None), Version)


class TooLarge(Exception):
    """A value, or the work to evaluate it, that is larger than any build needs."""


class NotWorkedOut(Exception):
    """An operation whose result is unknown."""


@dataclass(frozen=True, eq=False)
class UnknownValue:
    """A value that cannot be evaluated, with its expression.

    `name` is its full name if it is imported or built in (`torch.version.cuda`). A value that
    `is_many` stands for any number of items of a list.
    """

    node: ast.AST
    name: str = ""
    is_many: bool = False

    @property
    def line(self) -> int:
        return getattr(self.node, "lineno", 0)

    @property
    def last_name(self) -> str:
        return self.name.rpartition(".")[2]

    def as_items(self) -> "UnknownValue":
        """Return a placeholder for the items of this value in a list."""
        return UnknownValue(self.node, self.name, is_many=True)

    def source(self) -> str:
        """Return the source of the expression."""
        return ast.unparse(self.node)


@dataclass(eq=False)
class Extension:
    """A call that makes an extension: its class, its line, and its arguments by name."""

    kind: str
    line: int
    arguments: dict[str, Any] = field(default_factory=dict)


def is_scalar(value: Any) -> bool:
    """Return True for values whose comparison and text are cheap."""
    return isinstance(value, _SCALARS)


def check_size(value: Any) -> Any:
    """Return the value; raise TooLarge for a list or a text that is larger than any build needs."""
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        raise TooLarge
    if isinstance(value, (list, tuple, dict)) and len(value) > MOST_ITEMS:
        raise TooLarge
    return value


def is_flat(value: Any) -> bool:
    """Return True for a scalar, or a list or tuple of scalars.

    Nested lists may share their parts and take exponential time to compare.
    """
    if isinstance(value, (list, tuple)):
        return all(is_scalar(item) for item in value)
    return is_scalar(value)


_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def compare(comparison: ast.cmpop, left: Any, right: Any) -> bool:
    """Return the outcome of a comparison of two values that are not UnknownValue."""
    if isinstance(comparison, (ast.In, ast.NotIn)):
        return _contains(right, left) is isinstance(comparison, ast.In)
    if isinstance(comparison, (ast.Is, ast.IsNot)):
        # Equal values are the same object for certain only if they are None or bool.
        if not any(each is None or isinstance(each, bool) for each in (left, right)):
            raise NotWorkedOut
    elif not (is_flat(left) and is_flat(right)):
        raise NotWorkedOut
    return bool(_COMPARISONS[type(comparison)](left, right))


def _contains(holder: Any, item: Any) -> bool:
    if isinstance(holder, str) and isinstance(item, str):
        return item in holder
    if isinstance(holder, dict) and is_scalar(item):
        if item in holder:
            return True
        is_complete = not any(isinstance(key, UnknownValue) for key in holder)
    elif isinstance(holder, (list, tuple)) and is_scalar(item):
        if any(is_scalar(each) and each == item for each in holder):
            return True
        is_complete = all(is_scalar(each) for each in holder)
    else:
        raise NotWorkedOut
    if not is_complete:
        raise NotWorkedOut
    return False


def binary(operation: ast.operator, left: Any, right: Any) -> Any:
    """Return the result of a binary operation.

    Raises NotWorkedOut if it is unknown, TooLarge, and Python's errors for its operands.
    """
    match operation, left, right:
        case ast.Add(), list() | tuple(), list() | tuple():
            return check_size([*left, *right])
        case ast.Add(), list() | tuple(), UnknownValue():
            return [*left, right.as_items()]
        case ast.Add(), UnknownValue(), list() | tuple():
            return [left.as_items(), *right]
        case ast.Add(), str(), str():
            return check_size(left + right)
        case ast.Div(), str(), str():
            return check_size(join(left, right))
        case ((ast.Sub() | ast.BitAnd() | ast.BitOr()), list(), list()):
            return _set_operation(operation, left, right)
        case ast.Mod(), str(), _:
            return _percent(left, right)
        case ast.Mult(), list() | str(), int():
            if len(left) * right > MOST_ITEMS:
                raise TooLarge
            return left * right
    if type(left) is not int or type(right) is not int:
        raise NotWorkedOut
    if isinstance(operation, ast.Add):
        return left + right
    bits = max(left.bit_length(), right.bit_length())
    if type(operation) not in _ARITHMETIC or bits > _LARGEST_BITS:
        raise NotWorkedOut
    return _ARITHMETIC[type(operation)](left, right)


def _set_operation(operation: ast.operator, left: list[Any], right: list[Any]) -> list[Any]:
    if not (is_flat(left) and is_flat(right)):
        raise NotWorkedOut
    if isinstance(operation, ast.BitOr):
        return list(dict.fromkeys([*left, *right]))
    others = set(right)
    is_intersection = isinstance(operation, ast.BitAnd)
    return [item for item in left if (item in others) is is_intersection]


def _percent(text: str, arguments: Any) -> str:
    values = tuple(arguments) if isinstance(arguments, (list, tuple)) else (arguments,)
    # A width could require gigabytes.
    directives = re.findall(r"%.", text)
    if not set(directives) <= {"%s", "%d", "%i", "%%"} or not is_flat(values):
        raise NotWorkedOut
    return str(check_size(text % values))


def join(*parts: str) -> str:
    """Return path components joined, the last absolute one first, as `os.path.join` does."""
    return str(PurePosixPath(*parts))


_PATH_PARTS = ("name", "stem", "suffix", "parent")
_VERSION_PARTS = ("major", "minor", "micro", "release")


def attribute(value: Any, name: str) -> Any:
    """Return an attribute of a path or of a version; raise NotWorkedOut for any other."""
    if isinstance(value, str) and name in _PATH_PARTS:
        part = getattr(PurePosixPath(value), name)
        return str(part)
    if isinstance(value, Version) and name in _VERSION_PARTS:
        return getattr(value, name)
    raise NotWorkedOut


_TEXT_METHODS = frozenset(
    """lower upper strip lstrip rstrip startswith endswith replace split rsplit splitlines
    partition rpartition removeprefix removesuffix title capitalize isdigit count find""".split()
)
_PLAIN_FIELD = re.compile(r"\{\w*\}|\{\{|\}\}|[^{}]")


def method(owner: Any, name: str, args: list[Any], keywords: dict[str, Any]) -> Any:
    """Call a method of a text, list or mapping: return its result, and change the owner.

    Raises NotWorkedOut if the result is unknown, TooLarge, and Python's own errors.
    """
    if isinstance(owner, str):
        return _text_method(owner, name, args, keywords)
    if isinstance(owner, list):
        return _list_method(owner, name, args)
    if isinstance(owner, dict):
        return _mapping_method(owner, name, args, keywords)
    raise NotWorkedOut


def _text_method(owner: str, name: str, args: list[Any], keywords: dict[str, Any]) -> Any:
    if name == "join" and len(args) == 1 and isinstance(args[0], (list, tuple)):
        if not all(isinstance(item, str) for item in args[0]):
            raise NotWorkedOut
        if sum(map(len, args[0])) + len(owner) * len(args[0]) > _LONGEST_TEXT:
            raise TooLarge
        return owner.join(args[0])
    values = [*args, *keywords.values()]
    if not all(is_flat(value) for value in values):
        raise NotWorkedOut
    if name == "format":
        if "".join(_PLAIN_FIELD.findall(owner)) != owner:
            raise NotWorkedOut
        return check_size(owner.format(*args, **keywords))
    if name not in _TEXT_METHODS:
        raise NotWorkedOut
    if name == "replace" and len(owner) * len(str(args[1])) > _LONGEST_TEXT:
        raise TooLarge
    result = getattr(owner, name)(*map(_as_tuple, args), **keywords)
    return check_size(result)


def _as_tuple(value: Any) -> Any:
    # `startswith` does not accept a list.
    if isinstance(value, list):
        return tuple(value)
    return value


def _list_method(owner: list[Any], name: str, args: list[Any]) -> Any:
    match name, args:
        case (("append" | "add"), [item]):
            owner.append(item)
            check_size(owner)
        case (("extend" | "update"), [UnknownValue() as items]):
            owner.append(items.as_items())
        case (("extend" | "update"), [(list() | tuple()) as items]):
            owner.extend(items)
            check_size(owner)
        case "insert", [int() as place, item]:
            owner.insert(place, item)
            check_size(owner)
        case (("remove" | "discard"), [item]) if is_scalar(item):
            for place, each in enumerate(owner):
                if is_scalar(each) and each == item:
                    del owner[place]
                    break
        case "pop", []:
            return owner.pop()
        case "pop", [int() as place]:
            return owner.pop(place)
        case "clear", []:
            owner.clear()
        case "copy", []:
            return list(owner)
        case "sort", [] if is_flat(owner):
            owner.sort()
        case (("index" | "count"), [item]) if is_scalar(item) and is_flat(owner):
            return getattr(owner, name)(item)
        case _:
            raise NotWorkedOut
    return None


def _mapping_method(
    owner: dict[Any, Any], name: str, args: list[Any], keywords: dict[str, Any]
) -> Any:
    match name, args:
        case "get", [key, *default] if is_scalar(key):
            return owner.get(key, default[0] if default else None)
        case "setdefault", [key, value] if is_scalar(key):
            return owner.setdefault(key, value)
        case "pop", [key, *default] if is_scalar(key):
            return owner.pop(key, *default)
        case "update", [dict() as more]:
            owner.update(more)
        case "update", [UnknownValue() as more]:
            owner[more] = more
        case "update", []:
            pass
        case "keys", []:
            return list(owner)
        case "values", []:
            return list(owner.values())
        case "items", []:
            return [list(pair) for pair in owner.items()]
        case "copy", []:
            return dict(owner)
        case _:
            raise NotWorkedOut
    owner.update(keywords)
    check_size(owner)
    return None
