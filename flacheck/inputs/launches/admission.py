"""Which source from a file may be compiled: a whitelist over its syntax tree.

Compiling a kernel runs its module, and Triton calls whatever a kernel's body names, so both are
held to what kernels need: triton imports, jit functions, literal constants, names of the language.
Everything else is refused.
"""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from flacheck.errors import UsageError
from flacheck.inputs.launches import assembly
from flacheck.inputs.launches.language import MEMBERS, NAMES

# Python's types, by which Triton decides what a number without a dtype is.
_PLAIN_TYPES = ("bool", "int", "float")
_TYPE_TEXT = re.compile(r"[*a-z0-9]{1,16}")
_CODING = re.compile(r"^[ \t\f]*#.*?coding[:=]")
_CONTROL = re.compile(r"[^\n\t\x20-\x7e\xa0-\u2027\u2030-\ufefe\uff00-\U0010ffff]")
# Characters. Parsing costs time and memory, and no kernel comes near this length.
_LONGEST = 1_000_000
_FLAGS = ("do_not_specialize", "do_not_specialize_on_alignment", "noinline")
# Syntax that kernels are made of. What is left out can define, import, delete or hide a name.
_NODES = tuple(
    getattr(ast, name)
    for name in """
    Expr Assign AugAssign AnnAssign If For While Return Pass Break Continue Assert With
    withitem Name Attribute Call keyword Constant BinOp operator UnaryOp unaryop BoolOp
    boolop Compare cmpop IfExp Subscript Slice Tuple List Starred JoinedStr FormattedValue
    ListComp GeneratorExp comprehension expr_context
    """.split()
)
_BUILTINS = frozenset(
    "abs bool float int isinstance len list max min print range tuple zip".split()
)
# Its text goes to an assembler, so it is only called where that text can be read.
_ASSEMBLY = "inline_asm_elementwise"
# What Triton itself hands to builtins: its builder and its code generator.
_INTERNAL = frozenset(["_builder", "_generator", "_semantic"])


class Refused(UsageError):
    """Source with something in it that no kernel needs."""

    def __init__(self, line: int | None, what: str) -> None:
        super().__init__(f"source line {line or 1}: {what}")


@lru_cache(1024)
def check_source(source: str) -> None:
    """Raises Refused, naming line and cause, unless the source is a module of kernels and nothing
    else.

    Remembers what it admitted: the captures of several cards hold the same sources.
    """
    _check_text(source)
    try:
        tree = ast.parse(source)
        _Module().check(tree)
    except SyntaxError as error:
        raise Refused(error.lineno, f"no Python: {error.msg}") from error
    except (RecursionError, MemoryError, ValueError) as error:
        raise Refused(None, f"cannot be read: {error}") from error


def _check_text(source: str) -> None:
    """The text must mean to every reader what it means here."""
    if len(source) > _LONGEST:
        raise Refused(None, f"longer than {_LONGEST} characters")
    odd = _CONTROL.search(source)
    if odd:
        raise Refused(source.count("\n", 0, odd.start()) + 1, f"character {odd[0]!r}")
    for number, line in enumerate(source.split("\n", 2)[:2], 1):
        if _CODING.match(line):
            raise Refused(number, "an encoding declaration")


class _Module:
    """The module level: what each name stands for, in the order in which it is bound."""

    def __init__(self) -> None:
        self._modules: dict[str, str] = {}
        self._names: set[str] = set()
        # The strings that a constant may be: a name may be bound more than once.
        self._texts: dict[str, list[str]] = {}

    def check(self, tree: ast.Module) -> None:
        functions = [s for s in tree.body if isinstance(s, ast.FunctionDef)]
        for statement in tree.body:
            self._statement(statement)
        for function in functions:
            _Body(function, self._modules, self._names, self._texts).check()

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Import):
            self._import(node)
        elif isinstance(node, ast.ImportFrom):
            self._import_from(node)
        elif isinstance(node, ast.FunctionDef):
            self._function(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            self._assign(node)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            raise Refused(node.lineno, f"{_kind(node)} at module level")

    def _bind(self, node: ast.stmt, name: str, module: str | None = None) -> None:
        if name.startswith("__") or name in _BUILTINS or self._modules.get(name, module) != module:
            raise Refused(node.lineno, f"the name {name} cannot be bound")
        if module:
            self._modules[name] = module
        else:
            self._names.add(name)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name not in NAMES:
                raise Refused(
                    node.lineno,
                    f"import of {alias.name}; only triton and its language may be imported",
                )
            self._bind(node, alias.asname or "triton", alias.name if alias.asname else "triton")

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or module not in NAMES:
            raise Refused(
                node.lineno, f"import from {'.' * node.level}{module}; only triton may be imported"
            )
        for alias in node.names:
            path, name = f"{module}.{alias.name}", alias.asname or alias.name
            if path in NAMES:
                self._bind(node, name, path)
            else:
                _check_end(node, module, alias.name)
                _check_no_assembly(node, [alias.name])
                self._bind(node, name)

    def _assign(self, node: ast.Assign | ast.AnnAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if len(targets) != 1 or not isinstance(targets[0], ast.Name):
            raise Refused(node.lineno, "an assignment to something else than one name")
        if isinstance(node, ast.AnnAssign):
            self._annotation(node.annotation)
        if node.value is None:
            raise Refused(node.lineno, "a declaration without a value")
        self._constant(node.value)
        self._bind(node, targets[0].id)
        text = _literal_text(node.value)
        if text is not None:
            self._texts.setdefault(targets[0].id, []).append(text)

    def _constant(self, node: ast.expr) -> None:
        """A literal, `tl.constexpr(…)` or `float("inf")` of one, or a name of the language."""
        if isinstance(node, ast.Attribute):
            self._path(node)
        elif isinstance(node, (ast.Tuple, ast.List)):
            for item in node.elts:
                self._constant(item)
        elif isinstance(node, ast.UnaryOp):
            self._constant(node.operand)
        elif isinstance(node, ast.Call):
            self._constant_call(node)
        elif not isinstance(node, ast.Constant):
            raise Refused(node.lineno, f"{_kind(node)} where a literal is wanted")

    def _constant_call(self, node: ast.Call) -> None:
        if node.keywords or len(node.args) != 1:
            raise Refused(node.lineno, "a call at module level")
        if (
            isinstance(node.func, ast.Name)
            and node.func.id == "float"
            and isinstance(node.args[0], ast.Constant)
        ):
            return
        if not isinstance(node.func, ast.Attribute) or node.func.attr != "constexpr":
            raise Refused(node.lineno, "a call at module level")
        self._path(node.func)
        self._constant(node.args[0])

    def _path(self, node: ast.Attribute) -> None:
        root, names = _chain(node)
        if not isinstance(root, ast.Name) or root.id not in self._modules:
            raise Refused(node.lineno, "an attribute of something else than a triton module")
        _check_no_assembly(node, names)
        _check_path(node, self._modules[root.id], names)

    def _annotation(self, node: ast.expr | None) -> None:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and _TYPE_TEXT.fullmatch(node.value)
        ):
            return
        if isinstance(node, ast.Attribute):
            self._path(node)
        elif node is not None and not self._is_type(node):
            raise Refused(node.lineno, f"{_kind(node)} as an annotation")

    def _is_type(self, node: ast.expr) -> bool:
        """A name of the module, or one of Python's own types."""
        return isinstance(node, ast.Name) and (node.id in self._names or node.id in _PLAIN_TYPES)

    def _function(self, node: ast.FunctionDef) -> None:
        if len(node.decorator_list) != 1:
            raise Refused(node.lineno, f"{node.name} must have one decorator, triton.jit")
        self._decorator(node.decorator_list[0])
        arguments = node.args
        if arguments.kwarg:
            raise Refused(node.lineno, f"{node.name} takes keyword arguments of any name")
        for parameter in _parameters(node):
            _check_not_internal(node, parameter.arg)
            self._annotation(parameter.annotation)
        self._annotation(node.returns)
        for default in [*arguments.defaults, *filter(None, arguments.kw_defaults)]:
            self._constant(default)
        self._bind(node, node.name)

    def _decorator(self, node: ast.expr) -> None:
        call = node if isinstance(node, ast.Call) else None
        name = call.func if call else node
        root, names = _chain(name) if isinstance(name, ast.Attribute) else (name, [])
        known = isinstance(root, ast.Name) and self._modules.get(root.id) == "triton"
        if not known or names not in (["jit"], ["constexpr_function"]):
            raise Refused(node.lineno, f"decorator {ast.unparse(node)}; only triton.jit is known")
        if call and (
            call.args
            or not all(keyword.arg in _FLAGS and _plain(keyword.value) for keyword in call.keywords)
        ):
            raise Refused(
                node.lineno, f"decorator {ast.unparse(node)} with other than known literals"
            )


class _Body:
    """A function's body: Triton evaluates every name and attribute, and calls what it finds."""

    def __init__(
        self,
        function: ast.FunctionDef,
        modules: dict[str, str],
        names: set[str],
        texts: dict[str, list[str]],
    ) -> None:
        self._function, self._modules, self._names = function, modules, names
        self._texts = texts
        self._parameters = {parameter.arg for parameter in _parameters(function)}
        self._local = set(self._parameters)
        self._local |= {
            n.id
            for n in ast.walk(function)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }

    def check(self) -> None:
        for name in self._local:
            if name in self._modules or name in self._names or name.startswith("__"):
                raise Refused(self._function.lineno, f"{name} hides what the module means by it")
        for statement in self._function.body:
            self._visit(statement)

    def _visit(self, node: ast.AST) -> None:
        if not isinstance(node, _NODES):
            raise Refused(
                getattr(node, "lineno", self._function.lineno), f"{_kind(node)} in a kernel"
            )
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            raise Refused(node.lineno, f"an assignment to {ast.unparse(node)}")
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                _check_not_internal(node, keyword.arg)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Name):
            self._name(node)
        elif isinstance(node, ast.Call) and self._calls_assembler(node):
            return self._assembly(node)
        elif isinstance(node, ast.Call) and not self._callable(node.func):
            raise Refused(node.lineno, "a call of something computed")
        for child in ast.iter_child_nodes(node):
            self._visit(child)
        return None

    def _calls_assembler(self, node: ast.Call) -> bool:
        if not isinstance(node.func, ast.Attribute) or node.func.attr != _ASSEMBLY:
            return False
        root, _ = _chain(node.func)
        return isinstance(root, ast.Name) and root.id in self._modules

    def _assembly(self, node: ast.Call) -> None:
        """A call with inline assembly, whose text must stand in the source as it is."""
        assert isinstance(node.func, ast.Attribute)
        root, names = _chain(node.func)
        assert isinstance(root, ast.Name)
        _check_path(node, self._modules[root.id], names)
        spread = any(isinstance(each, ast.Starred) for each in node.args)
        if spread or any(keyword.arg is None for keyword in node.keywords):
            raise Refused(node.lineno, "inline assembly with arguments that are spread")
        written = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "asm")]
        if not written:
            raise Refused(node.lineno, "inline assembly without its text")
        for text in (text for each in written for text in self._assembly_texts(each)):
            odd = assembly.problem(text)
            if odd:
                raise Refused(node.lineno, f"{odd} in inline assembly")
        for child in (*node.args, *(keyword.value for keyword in node.keywords)):
            self._visit(child)

    def _assembly_texts(self, node: ast.expr) -> list[str]:
        """Every text that an expression may be; Refused for one that is computed."""
        text = _literal_text(node)
        if text is not None:
            return [text]
        if isinstance(node, ast.IfExp):
            return self._assembly_texts(node.body) + self._assembly_texts(node.orelse)
        if isinstance(node, ast.Name) and node.id not in self._local and node.id in self._texts:
            return self._texts[node.id]
        if isinstance(node, ast.Name) and node.id in self._local - self._parameters:
            return self._local_texts(node)
        raise Refused(node.lineno, "inline assembly whose text is computed")

    def _local_texts(self, name: ast.Name) -> list[str]:
        """What a local name may be when all that is ever assigned to it is written out."""
        bound = 0
        texts = []
        for node in ast.walk(self._function):
            if isinstance(node, ast.Name) and node.id == name.id:
                bound += not isinstance(node.ctx, ast.Load)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                text = _literal_text(node.value)
                named = [target.id for target in targets if isinstance(target, ast.Name)]
                if text is not None and named == [name.id]:
                    texts.append(text)
        if len(texts) != bound:
            raise Refused(name.lineno, f"inline assembly whose text, {name.id}, is computed")
        return texts

    def _callable(self, node: ast.expr) -> bool:
        """A name, a path, or an entry of a parameter by its number: a launch may hand over a tuple
        of functions."""
        if not isinstance(node, ast.Subscript):
            return isinstance(node, (ast.Name, ast.Attribute))
        numbered = isinstance(node.slice, ast.Constant) and type(node.slice.value) is int
        return numbered and isinstance(node.value, ast.Name) and node.value.id in self._parameters

    def _name(self, node: ast.Name) -> None:
        if node.id in self._modules:
            raise Refused(node.lineno, f"the module {node.id} as a value")
        if node.id not in self._local | self._names | _BUILTINS:
            raise Refused(node.lineno, f"the name {node.id}, which nothing in the source defines")

    def _attribute(self, node: ast.Attribute) -> None:
        root, names = _chain(node)
        if isinstance(root, ast.Name) and root.id in self._modules:
            _check_no_assembly(node, names)
            return _check_path(node, self._modules[root.id], names)
        if isinstance(root, ast.Name) and root.id not in self._local:
            raise Refused(node.lineno, f"an attribute of {root.id}")
        for name in names:
            _check_member(node, name)
        return self._visit(root)


def _check_path(node: ast.AST, module: str, names: list[str]) -> None:
    """A way from a triton module to a name of the language, and to members of that."""
    rest = list(names)
    while rest and f"{module}.{rest[0]}" in NAMES:
        module = f"{module}.{rest.pop(0)}"
    if not rest:
        raise Refused(getattr(node, "lineno", None), f"the module {module} as a value")
    _check_end(node, module, rest[0])
    for name in rest[1:]:
        _check_member(node, name)


def _check_end(node: ast.AST, module: str, name: str) -> None:
    if name not in NAMES[module]:
        raise Refused(getattr(node, "lineno", None), f"{module}.{name} is no name of the language")


def _check_no_assembly(node: ast.AST, names: list[str]) -> None:
    """A launch may hand a kernel whatever name the module has, so the assembler gets no name."""
    if _ASSEMBLY in names:
        raise Refused(getattr(node, "lineno", None), f"{_ASSEMBLY} other than called")


def _check_not_internal(node: ast.AST, name: str | None) -> None:
    """Triton passes its compiler to a function that has a parameter of such a name."""
    if name in _INTERNAL:
        raise Refused(getattr(node, "lineno", None), f"an argument called {name}")


def _literal_text(node: ast.expr | None) -> str | None:
    """The string that an expression is, also within `tl.constexpr(…)`."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "constexpr":
            return _literal_text(node.args[0])
        return None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def _check_member(node: ast.AST, name: str) -> None:
    if name not in MEMBERS:
        raise Refused(getattr(node, "lineno", None), f"the attribute .{name}")


def _chain(node: ast.Attribute) -> tuple[ast.expr, list[str]]:
    """What a dotted path starts from, and the names along it."""
    names: list[str] = []
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        names.insert(0, root.attr)
        root = root.value
    return root, names


def _parameters(function: ast.FunctionDef) -> Iterator[ast.arg]:
    return (node for node in ast.walk(function.args) if isinstance(node, ast.arg))


def _plain(node: ast.expr) -> bool:
    """Numbers and identifiers: Triton looks for `def` in the text from the decorator on, strings
    included."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(map(_plain, node.elts))
    if not isinstance(node, ast.Constant):
        return False
    return isinstance(node.value, int) or (
        isinstance(node.value, str) and node.value.isidentifier()
    )


def _kind(node: ast.AST) -> str:
    return type(node).__name__
