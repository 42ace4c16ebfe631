"""`setup.py`: the extensions that a script would build, read without running it.

Names, lists, paths, f-strings and comprehensions over known lists are worked out; what depends on
the machine is left out, and of two assignments the last one counts.
"""

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flacheck.errors import MatrixError
from flacheck.source.builds.arguments import SUFFIXES, BuildUnit, relative, taken_apart
from flacheck.source.values import UNKNOWN

# What torch's CUDAExtension gives nvcc before the project's own flags
# (torch.utils.cpp_extension, COMMON_NVCC_FLAGS).
_DEFINES_OF_TORCH = (
    "__CUDA_NO_HALF_OPERATORS__",
    "__CUDA_NO_HALF_CONVERSIONS__",
    "__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "__CUDA_NO_HALF2_OPERATORS__",
)
_STANDARD_OF_TORCH = "c++17"
_OF_TORCH = ("CUDAExtension", "CppExtension")
# Values of a comprehension that are worked out: instantiations of a template by the hundred are
# usual, more are a mistake.
_MOST_VALUES = 20_000

Known = Mapping[str, Any]


def read(file: Path, root: Path) -> Sequence[BuildUnit]:
    """The units of all extensions that the script names."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, SyntaxError, ValueError, RecursionError) as error:
        raise MatrixError(str(file), None, f"cannot be read: {error}") from None
    script = _Script(tree, root)
    units: dict[str, BuildUnit] = {}
    for node in _for_nvidia(tree):
        if isinstance(node, ast.Call) and _name(node.func).endswith("Extension"):
            for unit in script.units(node):
                units.setdefault(unit.file, unit)
    return list(units.values())


def _for_nvidia(tree: ast.AST) -> Iterator[ast.AST]:
    """A tree's nodes in the order of the source, without what a script does only for AMD's GPUs."""
    yield tree
    left = list(ast.iter_child_nodes(tree))
    if isinstance(tree, ast.If) and _is_of_amd(tree.test):
        left = list(tree.orelse)
    for node in left:
        yield from _for_nvidia(node)


def _is_of_amd(test: ast.expr) -> bool:
    is_denied = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    names = (_name(node).upper() for node in ast.walk(test))
    return not is_denied and any("HIP" in name or "ROCM" in name for name in names)


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return getattr(node, "id", "")


class _Script:
    """What the names of a script are worth."""

    def __init__(self, tree: ast.Module, root: Path) -> None:
        self._root = root
        self._assigned: dict[str, list[ast.expr]] = {}
        self._added: dict[str, list[ast.expr]] = {}
        self._busy: set[str] = set()
        for node in _for_nvidia(tree):
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self._assigned.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self._added.setdefault(node.target.id, []).append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of_name = isinstance(node.func.value, ast.Name) and len(node.args) == 1
            if of_name and node.func.attr in ("append", "extend"):
                added: ast.expr = node.args[0]
                if node.func.attr == "append":
                    added = ast.List([added], ast.Load())
                self._added.setdefault(_name(node.func.value), []).append(added)

    def units(self, call: ast.Call) -> Iterator[BuildUnit]:
        """The units of one extension."""
        given = {word.arg: word.value for word in call.keywords if word.arg}
        for name, value in zip(("name", "sources"), call.args):
            given.setdefault(name, value)
        kind = _name(call.func)
        of_torch = kind in _OF_TORCH
        arguments = self._value(given.get("extra_compile_args"), {})
        by_compiler = arguments if isinstance(arguments, dict) else {}
        common = [f"-I{folder}" for folder in self._texts(given.get("include_dirs"))]
        common += list(self._macros(given.get("define_macros")))
        module = self._value(given.get("name"), {})
        if of_torch and isinstance(module, str):
            common.append(f"-DTORCH_EXTENSION_NAME={module.rpartition('.')[2]}")
        for source in self._texts(given.get("sources")):
            if not source.endswith(SUFFIXES):
                continue
            compiler = "nvcc" if source.endswith(".cu") else "cxx"
            own = arguments if isinstance(arguments, list) else by_compiler.get(compiler, [])
            words = [word for word in own if isinstance(word, str)] if own else []
            if of_torch and compiler == "nvcc":
                words.append("--expt-relaxed-constexpr")
            unit = taken_apart([*common, *words], self._root, self._root)
            if of_torch and compiler == "nvcc":
                # The compiler takes the last word on a macro: a project may undefine them.
                unit = replace(unit, flags=(*(f"-D{n}" for n in _DEFINES_OF_TORCH), *unit.flags))
            if compiler == "cxx":
                # The host compiler's own flags are not nvcc's.
                kept = tuple(flag for flag in unit.flags if flag.startswith(("-O", "-U", "-g")))
                unit = replace(unit, flags=kept)
            standard = unit.standard or (_STANDARD_OF_TORCH if of_torch else None)
            file = relative(source, self._root, self._root)
            yield replace(unit, file=file, standard=standard, of_torch=of_torch)

    def _texts(self, node: ast.expr | None) -> list[str]:
        value = self._value(node, {})
        if not isinstance(value, list):
            return []
        return [item for item in value if isinstance(item, str)]

    def _macros(self, node: ast.expr | None) -> Iterator[str]:
        value = self._value(node, {})
        for item in value if isinstance(value, list) else []:
            if isinstance(item, (list, tuple)) and item and isinstance(item[0], str):
                held = item[1] if len(item) > 1 else None
                yield f"-D{item[0]}" if held in (None, UNKNOWN) else f"-D{item[0]}={held}"

    def _value(self, node: ast.expr | None, known: Known) -> Any:
        """What an expression is worth, UNKNOWN where nobody can say; unknown items of a list are
        left out."""
        if node is None:
            return UNKNOWN
        worth = getattr(self, f"_of_{type(node).__name__}", None)
        if worth is None:
            return UNKNOWN
        return worth(node, known)

    def _of_Constant(self, node: ast.Constant, known: Known) -> Any:
        return node.value

    def _of_Name(self, node: ast.Name, known: Known) -> Any:
        if node.id in known:
            return known[node.id]
        if node.id == "__file__":
            return str(self._root / "setup.py")
        # A name whose value is made from itself.
        if node.id in self._busy:
            return UNKNOWN
        self._busy.add(node.id)
        try:
            values = [self._value(value, known) for value in self._assigned.get(node.id, ())]
            held = [value for value in values if value is not UNKNOWN]
            value = held[-1] if held else UNKNOWN
            if isinstance(value, list):
                more = [self._value(added, known) for added in self._added.get(node.id, ())]
                value = value + [x for part in more if isinstance(part, list) for x in part]
            return value
        finally:
            self._busy.discard(node.id)

    def _of_List(self, node: ast.List | ast.Tuple | ast.Set, known: Known) -> Any:
        items: list[Any] = []
        for each in node.elts:
            if isinstance(each, ast.Starred):
                value = self._value(each.value, known)
                items += value if isinstance(value, list) else []
            else:
                items.append(self._value(each, known))
        return [item for item in items if item is not UNKNOWN]

    _of_Tuple = _of_Set = _of_List

    def _of_Dict(self, node: ast.Dict, known: Known) -> Any:
        pairs = zip(node.keys, node.values)
        plain = {self._value(key, known): self._value(value, known) for key, value in pairs if key}
        return {key: value for key, value in plain.items() if isinstance(key, str)}

    def _of_JoinedStr(self, node: ast.JoinedStr, known: Known) -> Any:
        parts = []
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            value = self._value(inner, known)
            if value is UNKNOWN:
                return UNKNOWN
            parts.append(str(value))
        return "".join(parts)

    def _of_BinOp(self, node: ast.BinOp, known: Known) -> Any:
        left, right = self._value(node.left, known), self._value(node.right, known)
        if isinstance(node.op, ast.Div) and isinstance(left, str) and isinstance(right, str):
            return f"{left}/{right}"
        if not isinstance(node.op, ast.Add):
            return UNKNOWN
        if isinstance(left, list) or isinstance(right, list):
            return [x for part in (left, right) if isinstance(part, list) for x in part]
        if isinstance(left, str) and isinstance(right, str):
            return left + right
        return UNKNOWN

    def _of_IfExp(self, node: ast.IfExp, known: Known) -> Any:
        value = self._value(node.body, known)
        if value is UNKNOWN:
            value = self._value(node.orelse, known)
        return value

    def _of_ListComp(self, node: ast.ListComp | ast.GeneratorExp, known: Known) -> Any:
        scopes: list[dict[str, Any]] = [dict(known)]
        for loop in node.generators:
            longer: list[dict[str, Any]] = []
            for scope in scopes:
                items = self._value(loop.iter, scope)
                for item in items if isinstance(items, list) else []:
                    bound = _bound(loop.target, item)
                    if bound is not None and len(longer) < _MOST_VALUES:
                        longer.append({**scope, **bound})
            scopes = longer
        values = (self._value(node.elt, scope) for scope in scopes)
        return [value for value in values if value is not UNKNOWN]

    _of_GeneratorExp = _of_ListComp

    def _of_Call(self, node: ast.Call, known: Known) -> Any:
        name = _name(node.func)
        args = [self._value(arg, known) for arg in node.args]
        if name in ("abspath", "realpath", "Path", "str", "fspath", "resolve", "list", "sorted"):
            return args[0] if args else self._of_method(node, known)
        if name == "dirname" and args and isinstance(args[0], str):
            return str(Path(args[0]).parent)
        if name == "join" and len(args) > 1 and all(isinstance(arg, str) for arg in args):
            return "/".join(args)
        if name in ("getenv", "get") and len(args) > 1:
            # Nobody sets the variables that builds look at.
            return args[1]
        if name == "product":
            return _product(args)
        if name in ("glob", "rglob", "iglob") and args and isinstance(args[-1], str):
            return self._matching(node, args[-1], known)
        # A helper that takes a list of flags gives one back.
        lists = [arg for arg in args if isinstance(arg, list)]
        return lists[0] if lists else UNKNOWN

    def _of_method(self, node: ast.Call, known: Known) -> Any:
        if isinstance(node.func, ast.Attribute):
            return self._value(node.func.value, known)
        return UNKNOWN

    def _of_Attribute(self, node: ast.Attribute, known: Known) -> Any:
        value = self._value(node.value, known)
        if node.attr == "parent" and isinstance(value, str):
            return str(Path(value).parent)
        return UNKNOWN

    def _matching(self, node: ast.Call, pattern: str, known: Known) -> list[str]:
        """The project's files that a pattern names."""
        base = self._root
        of_path = self._of_method(node, known)
        if isinstance(of_path, str):
            base = self._root / of_path
        whole = relative(pattern, base, self._root)
        if whole.startswith(("/", "..")):
            return []
        if _name(node.func) == "rglob":
            whole = relative(f"**/{pattern}", base, self._root)
        return sorted(str(path.relative_to(self._root)) for path in self._root.glob(whole))


def _bound(target: ast.expr, item: Any) -> dict[str, Any] | None:
    if isinstance(target, ast.Name):
        return {target.id: item}
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(item, (list, tuple)):
        names = [_name(each) for each in target.elts]
        if len(names) == len(item):
            return dict(zip(names, item))
    return None


def _product(args: Sequence[Any]) -> Any:
    if not all(isinstance(arg, list) for arg in args):
        return UNKNOWN
    return [list(values) for values in itertools.islice(itertools.product(*args), _MOST_VALUES)]
