"""Trace of a package's reads of Triton's API, and the result of each read.

If another release gives the same results, the package's launches are the same under that release.
So they are if results differ in a way that no use of them in the package shows (`uses`).

Traced are attributes of Triton's modules (also missing ones), imports of these modules and the
version in Triton's metadata. Reads by Triton itself, by the standard library and by torch's
compiler are not traced; reads by other parts of torch count while the package is imported.

A query is one of

- `MODULE NAME`: the attribute of a module,
- `import MODULE`: whether a module can be imported,
- `distribution NAME`: the version of an installed distribution,
- `kind MODULE.CLASS`: a class that is only read for `isinstance`,
- `first MODULE.NAME`: the attribute before the submodule of that name was imported.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib
import importlib.abc
import importlib.metadata
import importlib.util
import inspect
import json
import linecache
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any, TypeGuard

from ..recorder.session import Announcing
from ..recorder.warnings_log import is_triton_file
from .uses import Place, Signature, binds_alike, decides_alike, is_only_checked

_GUEST = __name__.partition(".")[0]
_TRITON = "triton"
_WITHIN_TRITON = "triton."
# Modules whose reads do not depend on the package.
_IGNORED_PACKAGES = (_TRITON, *sys.stdlib_module_names)
# The fake card skips torch's compiler, and a capture's environment disables torch's own kernels,
# whose registration reads Triton's version in builds of torch for CUDA.
_UNUSED_IN_TORCH = ("torch._dynamo", "torch._inductor", "torch._native")
# Modules of the guest that read the package's kernels, so their reads do depend on the package.
_KERNEL_READERS = (f"{_GUEST}.workers.cut", f"{_GUEST}.inference.usage")
# Attributes that Python's import system and introspection read of every module.
_MODULE_INTERNALS = ("__name__", "__spec__", "__path__", "__loader__", "__class__", "__dict__")
# The results of these functions are compared in the table of kernels.
_DECORATORS = ("jit", "autotune", "heuristics")
# Of these classes only the constructor concerns a package: the recorder replaces `Autotuner.run`.
_HOST_CLASSES = ("Config", "TensorDescriptor", "Autotuner")
# Integer functions, which are compared by their results for these arguments.
_INTEGER_FUNCTIONS = {
    "cdiv": ((0, 1), (1, 16), (17, 16), (4096, 64), (100003, 128)),
    "next_power_of_2": ((1,), (2,), (3,), (65,), (8192,), (100003,)),
}
_VERSION = "__version__"
MISSING = "missing"
_TYPE_CHECKS = ("isinstance", "issubclass")


class TritonApiTrace:
    """Records queries of Triton's API and their results.

    Attributes:
        results: the result of each query in order; empty if it cannot be compared.
        ambiguous: queries with two different results.
        places: the files and lines that read a version, a decorator or a class, by query.
        kinds: the `class_kind` of each class that was read, by query.
        importing: True while the package is being imported.
    """

    def __init__(self) -> None:
        self.results: dict[str, str] = {}
        self.ambiguous: set[str] = set()
        self.importing = True
        self.places: dict[str, dict[Place, None]] = {}
        self.kinds: dict[str, str] = {}
        # True while classes are compared, which reads Triton's modules too.
        self._paused = False
        self._latest_values: dict[str, object] = {}
        self._watched_modules: list[ModuleType] = []
        self._finder = _ImportObserver(self)

    def begin(self) -> None:
        """Start the trace; call this before Triton is imported."""
        sys.meta_path.insert(0, self._finder)
        original = importlib.metadata.distribution

        @functools.wraps(original)
        def distribution(name: str) -> Any:
            result = original(name)
            if name.lower().startswith(_TRITON) and self._is_traced():
                query = f"distribution {name}"
                self._add_place(query)
                self._add(query, result.version)
            return result

        setattr(importlib.metadata, "distribution", distribution)  # noqa: B010

    def end(self) -> None:
        """Stop tracing imports."""
        sys.meta_path.remove(self._finder)

    def add_import(self, name: str, exists: bool) -> None:
        """Record an attempt to import a module."""
        # Every capture imports Triton itself, whichever code does so first.
        if name != _TRITON and self._is_traced():
            self._add(f"import {name}", str(exists))

    def watch(self, name: str) -> None:
        """Record reads of a module from now on."""
        module = sys.modules.get(name)
        if type(module) is ModuleType:
            module.__class__ = _watched_module_class(self)
            self._watched_modules.append(module)

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Record no reads until the block ends, which makes Triton's own reads faster."""
        for module in self._watched_modules:
            module.__class__ = ModuleType
        try:
            yield
        finally:
            for module in self._watched_modules:
                module.__class__ = _watched_module_class(self)

    def add_read(self, module: str, name: str, value: object) -> None:
        """Record a read of a module's attribute."""
        query = f"{module} {name}"
        if name in _MODULE_INTERNALS:
            return
        has_uses = name == _VERSION or name in _DECORATORS or isinstance(value, type)
        if self._latest_values.get(query, self) is value and not has_uses:
            # Some functions read an attribute a thousand times.
            return
        if not self._is_traced():
            return
        if has_uses:
            self._add_place(query)
        if self._latest_values.get(query, self) is value:
            return
        if isinstance(value, type) and _is_only_type_check(_reading_frame(), name):
            self._paused = True
            try:
                self._add(f"kind {module}.{name}", class_kind(value))
            finally:
                self._paused = False
            return
        if isinstance(value, type):
            self._paused = True
            try:
                self.kinds[query] = class_kind(value)
            finally:
                self._paused = False
        # A fingerprint reads source files.
        self._latest_values[query] = value
        self._add(query, fingerprint(value))

    def add_missing(self, module: str, name: str) -> None:
        """Record a read of an attribute that does not exist."""
        if name not in _MODULE_INTERNALS and self._is_traced():
            self._add(f"{module} {name}", MISSING)

    def _add_place(self, query: str) -> None:
        """Note the line that reads a value now."""
        frame = _reading_frame()
        if frame is not None:
            place = (frame.f_code.co_filename, frame.f_lineno)
            self.places.setdefault(query, {})[place] = None

    def _is_traced(self) -> bool:
        return not self._paused and _is_traced_module(_reading_module(), self.importing)

    def _add(self, query: str, result: str) -> None:
        """Record a result; a second result that differs makes the query ambiguous."""
        previous = self.results.setdefault(query, result)
        if previous == result:
            return
        if previous == MISSING and result.startswith("module "):
            # `from package import submodule` reads the name, imports the module and reads again.
            self.results[f"first {query.replace(' ', '.')}"] = MISSING
            self.results[query] = result
        else:
            self.ambiguous.add(query)


@functools.cache
def _watched_module_class(trace: TritonApiTrace) -> type[ModuleType]:
    """Return the class of modules whose reads are recorded."""
    read_attribute = ModuleType.__getattribute__

    class WatchedModule(ModuleType):
        """A module that reports reads of its attributes."""

        def __getattribute__(self, name: str) -> Any:
            try:
                value = read_attribute(self, name)
            except AttributeError:
                trace.add_missing(read_attribute(self, "__name__"), name)
                raise
            reader = sys._getframe(1).f_globals.get("__name__")
            if reader and reader.startswith(_WITHIN_TRITON):
                # Triton's own reads are the most frequent, and are not traced.
                return value
            trace.add_read(read_attribute(self, "__name__"), name, value)
            return value

        def __reduce_ex__(self, protocol: Any) -> Any:
            # Triton copies globals of kernels unless they are plain modules.
            return importlib.import_module, (read_attribute(self, "__name__"),)

    return WatchedModule


class _ImportObserver(importlib.abc.MetaPathFinder):
    """A finder that reports attempts to import Triton's modules and leaves them to the others."""

    def __init__(self, trace: TritonApiTrace) -> None:
        self._trace = trace
        self._is_searching = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if self._is_searching or name.partition(".")[0] != _TRITON:
            return None
        self._is_searching = True
        try:
            spec = _find_spec(name, path, target)
        finally:
            self._is_searching = False
        self._trace.add_import(name, spec is not None)
        if spec is not None and spec.loader is not None:
            spec.loader = Announcing(spec.loader, lambda: self._trace.watch(name))
        return spec


def _find_spec(name: str, path: Any, target: Any) -> ModuleSpec | None:
    for finder in list(sys.meta_path):
        spec = finder.find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


def _reading_frame() -> FrameType | None:
    """Return the innermost frame that is neither of this module nor of the import system.

    Frames without a module are skipped: Triton generates such code for each kernel's arguments.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if name and name != __name__ and not name.startswith("importlib."):
            return frame
        frame = frame.f_back
    return None


def _reading_module() -> str:
    """Return the name of the module that reads an attribute now."""
    frame = _reading_frame()
    if frame is None:
        return "?"
    if is_triton_file(frame.f_code.co_filename):
        # Triton up to 3.3 loads its backends as modules `driver` and `compiler`.
        return _TRITON
    return str(frame.f_globals["__name__"])


def _is_traced_module(reader: str, importing: bool) -> bool:
    """Return True if reads by a module depend on the package."""
    package = reader.partition(".")[0]
    if package == _GUEST:
        return reader in _KERNEL_READERS
    if package == "torch":
        return importing and not reader.startswith(_UNUSED_IN_TORCH)
    return package not in _IGNORED_PACKAGES


def _is_only_type_check(frame: FrameType | None, name: str) -> bool:
    """Return True if a frame's current line reads an attribute only for `isinstance`."""
    if frame is None:
        return False
    if any(function in frame.f_globals for function in _TYPE_CHECKS):
        # The module defines a function of that name itself.
        return False
    is_read = False
    file_reads = _attribute_reads(frame.f_code.co_filename)
    for first_line, last_line, is_type_check in file_reads.get(name, ()):
        if first_line <= frame.f_lineno <= last_line:
            if not is_type_check:
                return False
            is_read = True
    return is_read


@functools.cache
def _attribute_reads(file: str) -> dict[str, list[tuple[int, int, bool]]]:
    """Map each attribute in a file to its reads: first line, last line, for `isinstance` or not."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return {}
    class_nodes: set[int] = set()
    for node in ast.walk(tree):
        if _is_type_check(node):
            for class_node in _class_nodes(node.args[1]):
                class_nodes.add(id(class_node))
    reads: dict[str, list[tuple[int, int, bool]]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            last_line = node.end_lineno or node.lineno
            read = (node.lineno, last_line, id(node) in class_nodes)
            reads.setdefault(node.attr, []).append(read)
    return reads


def _is_type_check(node: ast.AST) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call) or len(node.args) != 2:
        return False
    return isinstance(node.func, ast.Name) and node.func.id in _TYPE_CHECKS


def _class_nodes(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the classes in the second argument of `isinstance`: a class or a tuple of them."""
    if isinstance(node, ast.Tuple):
        for element in node.elts:
            yield from _class_nodes(element)
    else:
        yield node


@functools.cache
def class_kind(value: Any) -> str:
    """Return which of Triton's objects are instances of a class; empty if the class decides."""
    instance_check: Any = type(value).__instancecheck__
    if instance_check is not type.__instancecheck__:
        return ""
    import triton
    import triton.language
    from triton.compiler import CompiledKernel
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    host_classes = (JITFunction, Autotuner, Heuristics, triton.Config, CompiledKernel)
    language = (triton.language.constexpr, triton.language.dtype, triton.language.tensor)
    names = []
    for triton_class in (*host_classes, *language):
        if issubclass(triton_class, value):
            names.append(triton_class.__name__)
    return f"of {', '.join(names)}"


def fingerprint(value: Any) -> str:
    """Return a text that is equal for values that behave alike in a host program.

    It is empty for a value that cannot be compared.
    """
    if isinstance(value, ModuleType):
        return f"module {ModuleType.__getattribute__(value, '__name__')}"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    # Since Triton 3.5 functions for host and kernel are wrapped in objects, like jit functions.
    inner = value
    while not isinstance(inner, (type, types.FunctionType)) and hasattr(inner, "fn"):
        inner = inner.fn
    home = str(getattr(inner, "__module__", None) or type(inner).__module__)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    if home.startswith(f"{_TRITON}.language"):
        # Functions of the language run in kernels only; a dtype is identified by its text.
        text = ""
        if not callable(inner):
            text = repr(inner)
        return f"{name} {text}"
    if name in _INTEGER_FUNCTIONS and home.partition(".")[0] == _TRITON:
        # Releases define them in different modules.
        results = [value(*arguments) for arguments in _INTEGER_FUNCTIONS[name]]
        return f"{name} {results}"
    if home.startswith(f"{_TRITON}."):
        if name in _DECORATORS:
            return _signature_text(name, Signature.of(inner), with_defaults=False)
        if name in _HOST_CLASSES:
            return _signature_text(name, Signature.of(inner), with_defaults=True)
    if type(inner).__name__ in ("DriverConfig", "LazyProxy") or home.startswith(_GUEST):
        return f"{type(inner).__name__} {name}"
    if isinstance(inner, (type, types.FunctionType)):
        return _source_digest(inner)
    return ""


def _signature_text(name: str, signature: Signature, with_defaults: bool) -> str:
    """Return a callable's name and signature as JSON."""
    defaults = {}
    if with_defaults:
        defaults = dict(signature.defaults)
    return json.dumps([name, signature.positional, signature.keyword_only, defaults])


def _read_signature(text: str) -> tuple[str, Signature] | None:
    """Return the name and the signature in a fingerprint, or None if it has none."""
    if not text.startswith("["):
        return None
    name, positional, keyword_only, defaults = json.loads(text)
    signature = Signature(tuple(positional), tuple(keyword_only), tuple(defaults.items()))
    return name, signature


def _source_digest(thing: Any, callers: tuple[Any, ...] = ()) -> str:
    """Digest the undecorated source of a function or class, and that of its module's callees."""
    try:
        tree: Any = ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]
    except (OSError, SyntaxError, TypeError, IndexError):
        return ""
    tree.decorator_list = []
    texts = [ast.dump(tree)]
    if isinstance(thing, types.FunctionType):
        for name in thing.__code__.co_names:
            callee = thing.__globals__.get(name)
            if isinstance(callee, types.FunctionType) and callee not in (thing, *callers):
                texts.append(_source_digest(callee, (thing, *callers)))
    if "" in texts:
        return ""
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:16]


def first_difference(
    results: Mapping[str, str],
    places: Mapping[str, Iterable[Place]],
    kinds: Mapping[str, str],
) -> str | None:
    """Return the first query whose result under this release may change launches, else None.

    `places` and `kinds` are those of the trace that has the results.
    """
    # Queries of the first read come first: a later query may import the module.
    for query in sorted(results, key=lambda query: not query.startswith("first ")):
        expected = results[query]
        if not expected:
            return query
        result = run_query(query, expected)
        if _is_compatible(expected, result):
            continue
        query_places = [(file, line) for file, line in places.get(query, ())]
        if not query_places:
            return query
        if not _is_used_alike(query, expected, result, query_places, kinds.get(query)):
            return query
    return None


def _is_used_alike(
    query: str, expected: str, result: str, places: Sequence[Place], kind: str | None
) -> bool:
    """Return True if no use of a result shows which of two releases it is from."""
    subject, _, name = query.partition(" ")
    if subject == "distribution":
        return decides_alike(expected, result, places, name)
    if name == _VERSION:
        versions = ast.literal_eval(expected), ast.literal_eval(result)
        return decides_alike(*versions, places, name)
    old, new = _read_signature(expected), _read_signature(result)
    if old and new and old[0] == new[0] and binds_alike(old[1], new[1], places, name):
        return True
    if kind is None or not is_only_checked(places, name):
        return False
    value = getattr(sys.modules[subject], name, None)
    return isinstance(value, type) and class_kind(value) == kind


def _is_compatible(expected: str, result: str) -> bool:
    """Return True if a result is the expected one, or a signature with additional parameters."""
    if expected == result:
        return True
    old, new = _read_signature(expected), _read_signature(result)
    if old is None or new is None or old[0] != new[0]:
        return False
    positional = old[1].positional
    if positional != new[1].positional[: len(positional)]:
        return False
    if not set(old[1].keyword_only) <= set(new[1].keyword_only):
        return False
    return old[1].has_same_defaults(new[1], ())


def run_query(query: str, expected: str = "") -> str:
    """Return the result of a query under this release; `expected` is that of another release."""
    subject, _, name = query.partition(" ")
    if subject == "import":
        return str(_can_find(name))
    if subject == "distribution":
        return importlib.metadata.version(name)
    if subject in ("kind", "first"):
        subject, _, name = name.rpartition(".")
    try:
        module = importlib.import_module(subject)
        if expected.startswith("module ") and not hasattr(module, name):
            importlib.import_module(f"{subject}.{name}")
    except ImportError:
        return ""
    value = getattr(module, name, MISSING)
    if value is MISSING:
        return MISSING
    if query.startswith("kind "):
        return class_kind(value)
    return fingerprint(value)


def _can_find(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        # The package around the module does not exist either.
        return False
