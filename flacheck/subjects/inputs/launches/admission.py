"""A check of a source from a file before it is compiled: a whitelist over its syntax tree.

Compiling a kernel runs its module, and Triton calls whatever a kernel's body names. Both may
contain only what kernels need: triton imports, jit functions, literal constants and names of the
language. Everything else is refused.
"""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from flacheck.errors import UsageError
from flacheck.subjects.inputs.launches import assembly
from flacheck.subjects.inputs.launches.language import MEMBERS, NAMES

# Python's types, from which Triton derives the dtype of a plain number.
_PLAIN_TYPES = ("bool", "int", "float")
_TYPE_TEXT = re.compile(r"[*a-z0-9]{1,16}")
_CODING = re.compile(r"^[ \t\f]*#.*?coding[:=]")
_CONTROL = re.compile(r"[^\n\t\x20-\x7e\xa0-\u2027\u2030-\ufefe\uff00-\U0010ffff]")
# Characters. Parsing takes time and memory, and kernels are much shorter.
_LONGEST = 1_000_000
_FLAGS = ("do_not_specialize", "do_not_specialize_on_alignment", "noinline")
# The syntax of kernels. Other syntax can define, import, delete or hide a name.
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
# It passes its text to an assembler, so it may be called only with a readable text.
_ASSEMBLY = "inline_asm_elementwise"
# Arguments that Triton passes to builtins: its builder and its code generator.
_INTERNAL = frozenset(["_builder", "_generator", "_semantic"])


class Refused(UsageError):
    """A source that contains something that kernels do not need."""

    def __init__(self, line: int | None, what: str) -> None:
        super().__init__(f"source line {line or 1}: {what}")


@lru_cache(1024)
def check_source(source: str) -> None:
    """Raise Refused with line and cause unless the source is a module of kernels only.

    Results are cached, because the captures of several cards contain the same sources.
    """
    _check_text(source)
    try:
        tree = ast.parse(source)
        _Module().check(tree)
    except SyntaxError as error:
        raise Refused(error.lineno, f"not Python: {error.msg}") from error
    except (RecursionError, MemoryError, ValueError) as error:
        raise Refused(None, f"cannot be read: {error}") from error


def _check_text(source: str) -> None:
    """Require a text that every reader interprets in the same way."""
    if len(source) > _LONGEST:
        raise Refused(None, f"longer than {_LONGEST} characters")
    odd = _CONTROL.search(source)
    if odd:
        raise Refused(source.count("\n", 0, odd.start()) + 1, f"character {odd[0]!r}")
    for number, line in enumerate(source.split("\n", 2)[:2], 1):
        if _CODING.match(line):
            raise Refused(number, "an encoding declaration")


class _Module:
    """The module level: the meaning of each name, in the order of the statements."""

    def __init__(self) -> None:
        self._modules: dict[str, str] = {}
        self._names: set[str] = set()
        # The possible strings of a constant: a name may be bound more than once.
        self._texts: dict[str, list[str]] = {}

    def check(self, tree: ast.Module) -> None:
        functions = []
        for statement in tree.body:
            self._statement(statement)
            if isinstance(statement, ast.FunctionDef):
                functions.append(statement)
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
            if alias.asname:
                self._bind(node, alias.asname, alias.name)
            else:
                self._bind(node, "triton", "triton")

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or module not in NAMES:
            raise Refused(
                node.lineno, f"import from {'.' * node.level}{module}; only triton may be imported"
            )
        for alias in node.names:
            path = f"{module}.{alias.name}"
            name = alias.asname or alias.name
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
        """Check a literal, `tl.constexpr(…)` or `float("inf")`, or a name of the language."""
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
            raise Refused(node.lineno, f"{_kind(node)} where a literal is expected")

    def _constant_call(self, node: ast.Call) -> None:
        if node.keywords or len(node.args) != 1:
            raise Refused(node.lineno, "a call at module level")
        (argument,) = node.args
        match node.func:
            case ast.Name("float") if isinstance(argument, ast.Constant):
                return
            case ast.Attribute(attr="constexpr"):
                self._path(node.func)
                self._constant(argument)
            case _:
                raise Refused(node.lineno, "a call at module level")

    def _path(self, node: ast.Attribute) -> None:
        root, names = _chain(node)
        if not isinstance(root, ast.Name) or root.id not in self._modules:
            raise Refused(node.lineno, "an attribute of something else than a triton module")
        _check_no_assembly(node, names)
        _check_path(node, self._modules[root.id], names)

    def _annotation(self, node: ast.expr | None) -> None:
        match node:
            case None:
                return
            case ast.Constant(str() as text) if _TYPE_TEXT.fullmatch(text):
                return
            case ast.Attribute():
                self._path(node)
            # A name of the module, or one of Python's own types.
            case ast.Name(name) if name in self._names or name in _PLAIN_TYPES:
                return
            case _:
                raise Refused(node.lineno, f"{_kind(node)} as an annotation")

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
        function = node
        is_plain = True
        if isinstance(node, ast.Call):
            function = node.func
            is_plain = not node.args
            for keyword in node.keywords:
                if keyword.arg not in _FLAGS or not _is_plain(keyword.value):
                    is_plain = False
        if not self._is_jit(function):
            raise Refused(node.lineno, f"decorator {ast.unparse(node)}; only triton.jit is known")
        if not is_plain:
            raise Refused(
                node.lineno, f"decorator {ast.unparse(node)} with other than known literals"
            )

    def _is_jit(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Attribute):
            return False
        root, names = _chain(node)
        is_triton = isinstance(root, ast.Name) and self._modules.get(root.id) == "triton"
        return is_triton and names in (["jit"], ["constexpr_function"])


class _Body:
    """A function's body: Triton evaluates every name and attribute in it, and calls functions."""

    def __init__(
        self,
        function: ast.FunctionDef,
        modules: dict[str, str],
        names: set[str],
        texts: dict[str, list[str]],
    ) -> None:
        self._function = function
        self._modules = modules
        self._names = names
        self._texts = texts
        self._parameters = {parameter.arg for parameter in _parameters(function)}
        self._local = set(self._parameters)
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self._local.add(node.id)

    def check(self) -> None:
        for name in self._local:
            if name in self._modules or name in self._names or name.startswith("__"):
                raise Refused(self._function.lineno, f"{name} hides the module's own {name}")
        for statement in self._function.body:
            self._visit(statement)

    def _visit(self, node: ast.AST) -> None:
        if not isinstance(node, _NODES):
            line = getattr(node, "lineno", self._function.lineno)
            raise Refused(line, f"{_kind(node)} in a kernel")
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
        """Check a call with inline assembly, whose text must be written out in the source."""
        assert isinstance(node.func, ast.Attribute)
        root, names = _chain(node.func)
        assert isinstance(root, ast.Name)
        _check_path(node, self._modules[root.id], names)
        text_nodes = node.args[:1]
        is_spread = False
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                is_spread = True
        for keyword in node.keywords:
            if keyword.arg is None:
                is_spread = True
            if keyword.arg == "asm":
                text_nodes.append(keyword.value)
        if is_spread:
            raise Refused(node.lineno, "inline assembly with arguments that are spread")
        if not text_nodes:
            raise Refused(node.lineno, "inline assembly without its text")
        for text_node in text_nodes:
            for text in self._assembly_texts(text_node):
                problem = assembly.problem(text)
                if problem:
                    raise Refused(node.lineno, f"{problem} in inline assembly")
        for argument in node.args:
            self._visit(argument)
        for keyword in node.keywords:
            self._visit(keyword.value)

    def _assembly_texts(self, node: ast.expr) -> list[str]:
        """Return every possible text of an expression; raise Refused for a computed text."""
        text = _literal_text(node)
        if text is not None:
            return [text]
        if isinstance(node, ast.IfExp):
            return self._assembly_texts(node.body) + self._assembly_texts(node.orelse)
        if isinstance(node, ast.Name):
            if node.id not in self._local and node.id in self._texts:
                return self._texts[node.id]
            if node.id in self._local - self._parameters:
                return self._local_texts(node)
        raise Refused(node.lineno, "inline assembly whose text is computed")

    def _local_texts(self, name: ast.Name) -> list[str]:
        """Return the possible texts of a local name if all its assignments are written out."""
        assignments = 0
        texts = []
        for node in ast.walk(self._function):
            if isinstance(node, ast.Name) and node.id == name.id:
                assignments += not isinstance(node.ctx, ast.Load)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                text = _literal_text(node.value)
                if text is not None and names == [name.id]:
                    texts.append(text)
        if len(texts) != assignments:
            raise Refused(name.lineno, f"inline assembly whose text, {name.id}, is computed")
        return texts

    def _callable(self, node: ast.expr) -> bool:
        """Return True for a name, a path, or a numbered item of a parameter.

        A launch may pass a tuple of functions.
        """
        match node:
            case ast.Name() | ast.Attribute():
                return True
            case ast.Subscript(ast.Name(name), ast.Constant(index)):
                return type(index) is int and name in self._parameters
        return False

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
    """Check a path from a triton module to a name of the language and its members."""
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
        raise Refused(
            getattr(node, "lineno", None), f"{module}.{name} is not a name of the language"
        )


def _check_no_assembly(node: ast.AST, names: list[str]) -> None:
    """Refuse a name for the assembler: a launch may pass any name of the module to a kernel."""
    if _ASSEMBLY in names:
        raise Refused(getattr(node, "lineno", None), f"{_ASSEMBLY} other than called")


def _check_not_internal(node: ast.AST, name: str | None) -> None:
    """Refuse a parameter name for which Triton passes its own compiler."""
    if name in _INTERNAL:
        raise Refused(getattr(node, "lineno", None), f"an argument called {name}")


def _literal_text(node: ast.expr | None) -> str | None:
    """Return the string of a literal, also within `tl.constexpr(…)`; None for other nodes."""
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
    """Return the root of a dotted path, and the names along it."""
    names: list[str] = []
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        names.insert(0, root.attr)
        root = root.value
    return root, names


def _parameters(function: ast.FunctionDef) -> Iterator[ast.arg]:
    return (node for node in ast.walk(function.args) if isinstance(node, ast.arg))


def _is_plain(node: ast.expr) -> bool:
    """Return True for numbers and identifiers.

    Triton searches for `def` in the text after the decorator, also in its strings.
    """
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(map(_is_plain, node.elts))
    if not isinstance(node, ast.Constant):
        return False
    if isinstance(node.value, str):
        return node.value.isidentifier()
    return isinstance(node.value, int)


def _kind(node: ast.AST) -> str:
    return type(node).__name__
