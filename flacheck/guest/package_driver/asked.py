"""What a package asks of Triton, and what it is answered: where the answers are the same under
another release, so is what the package launches.

Watched are Triton's modules (each name that is read of them, or is missing), imports of them and
what the environment says of their version. What Triton asks of itself says nothing, nor does what
the standard library and torch's compiler ask; torch itself counts while a package is imported.

A question is `MODULE NAME`, `import MODULE`, `distribution NAME`, `kind MODULE.CLASS` where a class
was only read to tell objects apart by `isinstance`, or `first MODULE.NAME` for what a submodule's
name led to before that was imported."""

from __future__ import annotations

import ast
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
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any, TypeGuard

from ..recorder.session import Announcing
from .heard import is_tritons

_GUEST = __name__.partition(".")[0]
_TRITON = "triton"
# Who asks on nobody's behalf: what differs between releases for the guest is its own affair, except
# for those that read the package's kernels.
_SILENT = (_TRITON, *sys.stdlib_module_names)
# The imitated card leaves the compiler out.
_COMPILER = ("torch._dynamo", "torch._inductor")
_READERS = (f"{_GUEST}.workers.cut", f"{_GUEST}.package_driver.usage")
# Read of every module by whoever looks at it.
_MACHINERY = ("__name__", "__spec__", "__path__", "__loader__", "__class__", "__dict__")
# Their results are compared themselves, in the table of kernels.
_DECORATORS = ("jit", "autotune", "heuristics")
MISSING = "missing"
_TELLING_APART = ("isinstance", "issubclass")


class TritonAnswers:
    """`answers` by question, as they come; one that can never be the same again is empty. `changed`
    are questions that were answered in two ways. `importing`: the package is imported still."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.changed: set[str] = set()
        self.importing = True
        # Comparing classes reads Triton's modules, too.
        self._looking = False
        # What was read last.
        self._read: dict[str, object] = {}
        self._finder = _Finder(self)

    def begin(self) -> None:
        """To be called before Triton is imported."""
        sys.meta_path.insert(0, self._finder)
        plain = importlib.metadata.distribution

        @functools.wraps(plain)
        def distribution(name: str) -> Any:
            found = plain(name)
            if name.lower().startswith(_TRITON):
                self._note(f"distribution {name}", found.version)
            return found

        setattr(importlib.metadata, "distribution", distribution)  # noqa: B010

    def end(self) -> None:
        sys.meta_path.remove(self._finder)

    def imported(self, name: str, is_there: bool) -> None:
        # Triton itself is there in every capture, whoever imports it first.
        if name != _TRITON and self._counts():
            self._note(f"import {name}", str(is_there))

    def watch(self, name: str) -> None:
        """From now on note what is read of a module."""
        module = sys.modules.get(name)
        if type(module) is ModuleType:
            module.__class__ = _watched(self)

    def read(self, module: str, name: str, value: object) -> None:
        if name in _MACHINERY or not self._counts():
            return
        question = f"{module} {name}"
        if isinstance(value, type) and _tells_apart(_asking(), name):
            self._looking = True
            try:
                self._note(f"kind {module}.{name}", kind(value))
            finally:
                self._looking = False
        # Functions that are called a thousand times ask as often, and a fingerprint reads sources.
        elif question not in self.answers or self._read.get(question) is not value:
            self._read[question] = value
            self._note(question, fingerprint(value))

    def missing(self, module: str, name: str) -> None:
        if name not in _MACHINERY and self._counts():
            self._note(f"{module} {name}", MISSING)

    def _counts(self) -> bool:
        return not self._looking and _asks(_asker(), self.importing)

    def _note(self, question: str, answer: str) -> None:
        before = self.answers.setdefault(question, answer)
        if before == answer:
            return
        if before == MISSING and answer.startswith("module "):
            # `from package import submodule` looks for a name, imports, and looks again.
            self.answers[f"first {question.replace(' ', '.')}"] = MISSING
            self.answers[question] = answer
        else:
            self.changed.add(question)


@functools.cache
def _watched(answers: TritonAnswers) -> type[ModuleType]:
    plain = ModuleType.__getattribute__

    class WatchedModule(ModuleType):
        """A module that tells what is read of it."""

        def __getattribute__(self, name: str) -> Any:
            try:
                value = plain(self, name)
            except AttributeError:
                answers.missing(plain(self, "__name__"), name)
                raise
            answers.read(plain(self, "__name__"), name, value)
            return value

        def __reduce_ex__(self, protocol: Any) -> Any:
            # Triton copies what kernels read of their modules, unless it is plainly a module.
            return importlib.import_module, (plain(self, "__name__"),)

    return WatchedModule


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself, but sees which modules of Triton's are looked for."""

    def __init__(self, answers: TritonAnswers) -> None:
        self._answers = answers
        self._inside = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if self._inside or name.partition(".")[0] != _TRITON:
            return None
        self._inside = True
        try:
            spec = _found(name, path, target)
        finally:
            self._inside = False
        self._answers.imported(name, spec is not None)
        if spec is not None and spec.loader is not None:
            spec.loader = Announcing(spec.loader, lambda: self._answers.watch(name))
        return spec


def _found(name: str, path: Any, target: Any) -> ModuleSpec | None:
    for finder in list(sys.meta_path):
        spec = finder.find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


def _asking() -> FrameType | None:
    """The innermost frame that is neither this module's nor the import system's. Code without a
    module, as Triton writes for each kernel's arguments, is of who called it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if name and name != __name__ and not name.startswith("importlib."):
            return frame
        frame = frame.f_back
    return None


def _asker() -> str:
    """The module that asks."""
    frame = _asking()
    if frame is None:
        return "?"
    if is_tritons(frame.f_code.co_filename):
        # Up to 3.3 it loads its backends as modules called `driver` and `compiler`.
        return _TRITON
    return str(frame.f_globals["__name__"])


def _asks(asker: str, importing: bool) -> bool:
    top = asker.partition(".")[0]
    if top == _GUEST:
        return asker in _READERS
    if top == "torch":
        return importing and not asker.startswith(_COMPILER)
    return top not in _SILENT


def _tells_apart(frame: FrameType | None, name: str) -> bool:
    """Whether the attribute that is read at a frame's line goes nowhere but into `isinstance`."""
    if frame is None or any(each in frame.f_globals for each in _TELLING_APART):
        return False
    reads = [
        is_told_apart
        for first, last, is_told_apart in _reads(frame.f_code.co_filename).get(name, ())
        if first <= frame.f_lineno <= last
    ]
    return bool(reads) and all(reads)


@functools.cache
def _reads(file: str) -> dict[str, list[tuple[int, int, bool]]]:
    """The attributes that a file's code reads, by name: the first and last line, and whether it
    stands for a class in `isinstance` or `issubclass`."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return {}
    apart: set[int] = set()
    for node in ast.walk(tree):
        if _is_telling_apart(node):
            apart.update(id(each) for each in _classes(node.args[1]))
    reads: dict[str, list[tuple[int, int, bool]]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            lines = (node.lineno, node.end_lineno or node.lineno)
            reads.setdefault(node.attr, []).append((*lines, id(node) in apart))
    return reads


def _is_telling_apart(node: ast.AST) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call) or len(node.args) != 2:
        return False
    return isinstance(node.func, ast.Name) and node.func.id in _TELLING_APART


def _classes(node: ast.expr) -> Iterator[ast.expr]:
    """Those in the second argument of `isinstance`: one, or several in a tuple."""
    if isinstance(node, ast.Tuple):
        for each in node.elts:
            yield from _classes(each)
    else:
        yield node


@functools.cache
def kind(value: Any) -> str:
    """Which of Triton's objects that a program holds are instances of a class; empty for a class
    that decides that by itself."""
    decides: Any = type(value).__instancecheck__
    if decides is not type.__instancecheck__:
        return ""
    import triton
    import triton.language
    from triton.compiler import CompiledKernel
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    held = (JITFunction, Autotuner, Heuristics, triton.Config, CompiledKernel)
    language = (triton.language.constexpr, triton.language.dtype, triton.language.tensor)
    instances = [each.__name__ for each in (*held, *language) if issubclass(each, value)]
    return f"of {', '.join(instances)}"


def fingerprint(value: Any) -> str:
    """The same for two things that behave alike to a host program; empty for what nobody knows."""
    if isinstance(value, ModuleType):
        return f"module {ModuleType.__getattribute__(value, '__name__')}"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    # Since 3.5 functions for host and kernel stand in objects, as jit functions do.
    inner = value
    while not isinstance(inner, (type, types.FunctionType)) and hasattr(inner, "fn"):
        inner = inner.fn
    home = str(getattr(inner, "__module__", None) or type(inner).__module__)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    if home.startswith(f"{_TRITON}.language"):
        # Only kernels run them; a dtype says its name.
        said = ""
        if not callable(inner):
            said = repr(inner)
        return f"{name} {said}"
    if name in _DECORATORS and home.startswith(f"{_TRITON}."):
        return _takes(name, inner)
    if type(inner).__name__ in ("DriverConfig", "LazyProxy") or home.startswith(_GUEST):
        return f"{type(inner).__name__} {name}"
    if isinstance(inner, (type, types.FunctionType)):
        return _written(inner)
    return ""


def _takes(name: str, function: Any) -> str:
    """A function's name, and the names of its arguments: those that may be passed by position, and
    the others."""
    positional, others = [], []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            others.append(parameter.name)
        else:
            positional.append(parameter.name)
    return json.dumps([name, positional, others])


def _written(thing: Any, within: tuple[Any, ...] = ()) -> str:
    """The code of a function or class, without what decorates it, with that of the functions of
    its module that it calls."""
    try:
        tree: Any = ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]
    except (OSError, SyntaxError, TypeError, IndexError):
        return ""
    tree.decorator_list = []
    texts = [ast.dump(tree)]
    if isinstance(thing, types.FunctionType):
        called = (thing.__globals__.get(name) for name in thing.__code__.co_names)
        for inner in called:
            if isinstance(inner, types.FunctionType) and inner not in (thing, *within):
                texts.append(_written(inner, (thing, *within)))
    if "" in texts:
        return ""
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:16]


def differs(asked: Mapping[str, str]) -> str | None:
    """The first of the questions that is answered otherwise here; None where all are answered as
    they were."""
    # Before a module is imported for another question.
    for question in sorted(asked, key=lambda each: not each.startswith("first ")):
        before = asked[question]
        if not before or not _holds(before, answered(question, before)):
            return question
    return None


def _holds(before: str, now: str) -> bool:
    """Whether an answer is the same, or is that of a decorator which takes all that it took."""
    if before == now or not (before.startswith("[") and now.startswith("[")):
        return before == now
    name, positional, others = json.loads(before)
    same, more_positional, more_others = json.loads(now)
    in_place = positional == more_positional[: len(positional)]
    return bool(name == same and in_place and set(others) <= set(more_others))


def answered(question: str, before: str = "") -> str:
    """What a question is answered here; `before` is what it was answered elsewhere."""
    subject, _, name = question.partition(" ")
    if subject == "import":
        return str(_is_there(name))
    if subject == "distribution":
        return importlib.metadata.version(name)
    if subject in ("kind", "first"):
        subject, _, name = name.rpartition(".")
    try:
        home = importlib.import_module(subject)
        if before.startswith("module ") and not hasattr(home, name):
            importlib.import_module(f"{subject}.{name}")
    except ImportError:
        return ""
    value = getattr(home, name, MISSING)
    if value is MISSING:
        return MISSING
    if question.startswith("kind "):
        return kind(value)
    return fingerprint(value)


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        # Not even the package is there that it would lie in.
        return False
