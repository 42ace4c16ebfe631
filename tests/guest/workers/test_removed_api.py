"""Failures of the front end that depend on the release: missing names of Triton."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from typing import Any

import pytest

from flacheck.guest.workers.removed_api import collecting_parameter, removed_api


def _language() -> types.ModuleType:
    module = types.ModuleType("triton.language")

    def dot(a: Any, b: Any) -> Any:
        return a

    def load(pointer: Any) -> Any:
        return helper() if pointer == 1 else pointer  # type: ignore[call-arg]

    def helper(argument: Any) -> Any:
        return argument

    def make_block_ptr(base: Any, shape: Any) -> Any:
        """Use a descriptor."""
        raise NotImplementedError("removed")

    def advance(base: Any, *offsets: Any, _semantic: Any = None) -> Any:
        if _semantic is None:
            raise ValueError("outside of a kernel")
        missing_name("advance")

    def missing_name(name: str) -> None:
        raise NotImplementedError(f"{name}: words that no rule contains")

    def zeros(shape: Any, dtype: Any = None) -> Any:
        if dtype is None:
            raise NotImplementedError("a dtype is needed")
        return shape

    def trans(value: Any) -> Any:
        if value == 0:
            raise NotImplementedError("no scalars")
        return value

    for function in (dot, load, helper, make_block_ptr, advance, zeros, trans):
        function.__module__ = "triton.language"
        setattr(module, function.__name__, function)
    setattr(module, "float32", type("dtype", (), {"__module__": "triton.language"})())  # noqa: B010
    return module


class Generator:
    """Reads an expression as Triton's code generator does."""

    def __init__(self, **local: Any) -> None:
        self.gscope = {"tl": _language(), "own": lambda a: a, "box": types.SimpleNamespace()}
        self.lscope = local
        self.semantic = object()

    def read(self, text: str) -> Any:
        return self.visit(ast.parse(text, mode="eval").body)

    def visit(self, node: ast.expr) -> Any:
        visitor: Callable[[Any], Any] = getattr(self, f"visit_{type(node).__name__}")
        return visitor(node)

    def visit_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def visit_Name(self, node: ast.Name) -> Any:
        return self.lscope.get(node.id, self.gscope.get(node.id))

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        return getattr(self.visit(node.value), node.attr)

    def visit_Call(self, node: ast.Call) -> Any:
        function = self.visit(node.func)
        arguments = {each.arg: self.visit(each.value) for each in node.keywords if each.arg}
        if getattr(function, "__name__", "") == "advance":
            arguments["_semantic"] = self.semantic
        return function(*map(self.visit, node.args), **arguments)


@pytest.mark.parametrize(
    ("text", "api"),
    [
        ("tl.libdevice.exp(1)", "tl.libdevice"),
        ("tl.dot(1, 2, trans_b=True)", "tl.dot"),
        ("tl.dot(1)", "tl.dot"),
        ("tl.float32(0.0)", "tl.float32"),
        # These raise whatever they are called with.
        ("tl.make_block_ptr(1, 2)", "tl.make_block_ptr"),
        ("tl.advance(1, 2)", "tl.advance"),
        # Another argument would do, or one more.
        ("tl.trans(0)", None),
        ("tl.zeros(1)", None),
        # What a parameter is, was made up.
        ("x.shape", None),
        ("tl.dot(x.shape, 1)", None),
        ("x(1)", None),
        # Neither the program's own functions nor what Triton's call among themselves.
        ("own(1, 2)", None),
        ("box.missing", None),
        ("tl.load(1)", None),
    ],
)
def test_only_a_name_that_leads_to_triton_tells_of_the_release(text: str, api: str | None) -> None:
    """Arguments cannot change the value of such a name."""
    with pytest.raises((AttributeError, NotImplementedError, TypeError)) as error:
        Generator(x=None).read(text)
    assert removed_api(error.value) == api


def test_what_looks_for_a_kernels_functions_reads_its_source_too() -> None:
    """Older releases fail there, before the front end begins."""

    class Finder(Generator):
        def __init__(self) -> None:
            super().__init__()
            self.globals, self.local_names = self.gscope, {"x"}
            del self.gscope, self.lscope

        def visit_Name(self, node: ast.Name) -> Any:
            return self.globals.get(node.id)

    for text, api in (("tl.libdevice.exp(1)", "tl.libdevice"), ("x.shape", None)):
        with pytest.raises(AttributeError) as error:
            Finder().read(text)
        assert removed_api(error.value) == api


def test_the_cause_counts_however_it_is_wrapped() -> None:
    """The compiler wraps the cause in errors of its own."""
    with pytest.raises(ValueError, match="at 1:2") as error:
        try:
            Generator().read("tl.dot(1, 2, trans_b=True)")
        except TypeError:
            raise ValueError("at 1:2") from None
    assert removed_api(error.value) == "tl.dot"


def test_a_variable_of_the_module_that_no_kernel_may_read_is_no_arguments_doing() -> None:
    """The release's message for a global that no kernel may read does not blame an argument."""

    class Strict(Generator):
        def visit_Name(self, node: ast.Name) -> Any:
            raise NameError(f"Cannot access global variable {node.id} from within @jit'ed function")

    with pytest.raises(NameError) as error:
        Strict().read("box")
    assert removed_api(error.value) == "box"
    with pytest.raises(NameError) as error:
        Strict(box=1).read("box")
    assert removed_api(error.value) is None


def test_python_that_a_release_does_not_take_is_no_arguments_doing() -> None:
    """The unsupported syntax is in the kernel's source."""

    class UnsupportedLanguageConstruct(Exception): ...

    error = UnsupportedLanguageConstruct("at 3:4:\n    break\nunsupported AST node type: Break")
    assert removed_api(error) == "Break"
    assert removed_api(UnsupportedLanguageConstruct("nested loops")) is None
    # A branch over the arguments that ends in a `raise` refuses them.
    assert removed_api(UnsupportedLanguageConstruct("unsupported AST node type: Raise")) is None
    assert removed_api(ValueError("unsupported AST node type: Break")) is None


def test_a_parameter_of_a_modules_name_is_a_parameter() -> None:
    """The kernel's own names come before the module's."""
    with pytest.raises(AttributeError) as error:
        Generator(tl=1).read("tl.dot")
    assert removed_api(error.value) is None


class Strides:
    """Strides as a tuple of the language, whose fields are looked up in a list."""

    def __getattr__(self, name: str) -> Any:
        return [].index(name)  # type: ignore[arg-type,call-overload]

    def __getitem__(self, node: int) -> Any:
        raise IndexError("list index out of range")


def test_a_value_that_raises_for_a_name_that_it_has_not_is_passed_over() -> None:
    """The failure keeps its cause: too few strides."""
    with pytest.raises(IndexError) as error:
        Strides()[3]
    assert removed_api(error.value) is None


def test_the_parameter_that_collects_constants() -> None:
    """It is found by the kernel's code, beside other parameters of any kind."""

    def old(x: Any, *rest: Any, scale: Any = 1, **meta: Any) -> None: ...

    def new(x: Any, *, BLOCK: Any) -> None: ...

    assert collecting_parameter(types.SimpleNamespace(fn=old)) == "meta"
    assert collecting_parameter(types.SimpleNamespace(fn=new)) is None
