"""The modules of packages to drive: what can be imported, and why the rest cannot."""

# The driver imports torch.
# ruff: noqa: E402

from __future__ import annotations

import importlib
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.search.modules import NotImported, load

NAME = "made_up_shop"
# As one of Triton: it has the names of its arguments, a function and `run`.
KERNEL_CLASS = """
class Kernel:
    arg_names = ("x",)
    def __init__(self, fn): self.fn = fn
    def run(self): ...

"""
Writer = Callable[[dict[str, str]], None]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    """Writes a package that can be imported, and forgets it in the end."""
    monkeypatch.syspath_prepend(str(tmp_path))
    finders = list(sys.meta_path)

    def write(files: dict[str, str]) -> None:
        for name, text in {"__init__.py": "", **files}.items():
            path = tmp_path / NAME / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    yield write
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        del sys.modules[name]


def with_kernels(text: str) -> str:
    return KERNEL_CLASS + textwrap.dedent(text)


def load_names(*skipped: str) -> tuple[list[str], dict[str, str]]:
    modules, errors = load([NAME], skipped)
    return [module.__name__ for module in modules], errors


def test_stand_ins_are_removed_after_the_imports(package: Writer) -> None:
    """Only modules with kernels are imported beside stand-ins; later code finds none."""
    kernel = "@triton.jit\ndef kernel(x): ...\n"
    text = f"import no_such_package.tools as tools\nclass triton:\n    jit = tools.jit\n{kernel}"
    package({"kernels.py": text, "plain.py": "import no_such_package\n"})
    modules, failures = load_names()
    assert modules == [NAME, f"{NAME}.kernels"]
    assert sorted(failures) == [f"{NAME}.kernels", f"{NAME}.plain"]
    assert "no_such_package" not in sys.modules
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_package")


def test_a_module_that_launches_kernels_of_another_has_stand_ins(package: Writer) -> None:
    """A module without kernels that imports Triton has stand-ins."""
    text = "import no_such_package\ndef launch():\n    import triton\n"
    package({"launches.py": text, "plain.py": "import no_such_package\n"})
    modules, failures = load_names()
    assert modules == [NAME, f"{NAME}.launches"]
    assert sorted(failures) == [f"{NAME}.launches", f"{NAME}.plain"]


def test_a_module_is_imported_without_one_that_raises(package: Writer) -> None:
    """Its kernels are launched; a module that raises itself is not imported."""
    kernel = "class triton:\n    jit = staticmethod(lambda f: f)\n@triton.jit\ndef kernel(x): ...\n"
    package(
        {
            "downloads.py": "def fetch(): raise RuntimeError('no network')\nfetch()\n",
            "kernels.py": f"from {NAME}.downloads import tool\n{kernel}",
            "raising.py": f"{kernel}raise RuntimeError('not here')\n",
        }
    )
    modules, failures = load_names()
    assert modules == [NAME, f"{NAME}.kernels"]
    assert failures == {
        f"{NAME}.downloads": "RuntimeError: no network",
        f"{NAME}.kernels": "RuntimeError: no network",
        f"{NAME}.raising": "RuntimeError: not here",
    }
    with pytest.raises(RuntimeError, match="no network"):
        importlib.import_module(f"{NAME}.downloads")


def test_a_module_in_a_package_that_raises_is_imported_itself(package: Writer) -> None:
    """This holds although the package has a stand-in for another module."""
    kernel = "class triton:\n    jit = staticmethod(lambda f: f)\n@triton.jit\ndef kernel(x): ...\n"
    package(
        {
            "inner/__init__.py": "raise RuntimeError('not here')\n",
            "inner/kernels.py": f"import no_such_package\n{kernel}",
            "before.py": f"from {NAME}.inner import other\n{kernel}",
        }
    )
    modules, _ = load_names()
    assert {f"{NAME}.before", f"{NAME}.inner.kernels"} <= set(modules)
    assert hasattr(sys.modules[f"{NAME}.inner.kernels"], "kernel")


def test_a_name_that_a_module_lacks_has_a_stand_in(package: Writer) -> None:
    """The module's own kernels are found, its error stays, and the other module is as it was."""
    kernel = "class triton:\n    jit = staticmethod(lambda f: f)\n@triton.jit\ndef kernel(x): ...\n"
    imports = f"from {NAME}.helpers import present, removed\n"
    package({"helpers.py": "present = 1\n", "kernels.py": imports + kernel})
    modules, failures = load_names()
    assert modules == [NAME, f"{NAME}.helpers", f"{NAME}.kernels"]
    assert failures[f"{NAME}.kernels"].startswith("ImportError: cannot import name 'removed'")
    assert not hasattr(sys.modules[f"{NAME}.helpers"], "removed")


def test_an_absent_package_may_export_triton(
    package: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that a module with kernels imports from an absent package are Triton's own."""
    triton = types.ModuleType("triton")
    triton.jit = lambda function: function  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setitem(sys.modules, "triton.language", types.ModuleType("triton.language"))
    text = "from no_such_package.triton_utils import tl, triton\n@triton.jit\ndef kernel(x): ...\n"
    package({"kernels.py": text})
    load_names()
    kernels = importlib.import_module(f"{NAME}.kernels")
    assert (kernels.triton, kernels.tl) == (triton, sys.modules["triton.language"])


def test_a_module_may_miss_several_packages(package: Writer) -> None:
    """Each package is found missing in turn; annotations may use their objects too."""
    text = "import no_such_package\nfrom no_other_package import Layout, names\n"
    text += "from packaging.version import Version\nVersion(no_such_package.__version__)\n"
    text += "shapes: int | Layout[int] = 0\nfound = list(names)\n"
    text += "class triton:\n    jit = no_such_package.jit\n@triton.jit\ndef kernel(x): ...\n"
    package({"kernels.py": text})
    modules, failures = load_names()
    assert modules == [NAME, f"{NAME}.kernels"]
    assert list(failures) == [f"{NAME}.kernels"]
    assert sys.modules[f"{NAME}.kernels"].found == []
    assert "no_other_package" not in sys.modules


def test_modules_that_a_release_of_triton_removed_have_stand_ins(
    package: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernels' modules and those that import them are imported; Triton is as it was."""
    triton = types.ModuleType("triton")
    triton.__path__ = []
    monkeypatch.setitem(sys.modules, "triton", triton)
    kernels = "import triton.removed.model\nfrom triton.removed import estimate\n"
    kernels += "best = min([estimate(1), estimate(2)])\n"
    package({"kernels.py": kernels, "user.py": f"from {NAME} import kernels\n"})
    modules, failures = load_names()
    assert modules == [NAME, f"{NAME}.kernels", f"{NAME}.user"]
    assert failures == dict.fromkeys(
        modules[1:], "ModuleNotFoundError: No module named 'triton.removed'"
    )
    assert not hasattr(triton, "removed")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("triton.removed")


def test_every_module_below_a_package_is_imported(package: Writer) -> None:
    """Folders within folders; a package before its modules."""
    package({"a.py": "", "ops/__init__.py": "", "ops/b.py": ""})
    assert load_names() == ([NAME, f"{NAME}.a", f"{NAME}.ops", f"{NAME}.ops.b"], {})


def test_a_module_that_cannot_be_imported_says_why(package: Writer) -> None:
    """The other modules are imported, also those below a folder whose `__init__` raises."""
    package({"a.py": "import nobody_has_this", "b.py": "", "c/__init__.py": "1 / 0", "c/d.py": ""})
    names, errors = load_names()
    assert names == [NAME, f"{NAME}.b", f"{NAME}.c.d"]
    assert errors == {
        f"{NAME}.a": "ModuleNotFoundError: No module named 'nobody_has_this'",
        f"{NAME}.c": "ZeroDivisionError: division by zero",
    }


def test_a_module_that_ends_the_program_only_fails(package: Writer) -> None:
    """The exit of a foreign module is an import error."""
    package({"a.py": "raise SystemExit('wants a card')", "b.py": ""})
    assert load_names() == ([NAME, f"{NAME}.b"], {f"{NAME}.a": "SystemExit: wants a card"})


def test_a_module_that_skips_its_tests_only_fails(package: Writer) -> None:
    """`except Exception` catches neither `pytest.skip` nor a signal."""
    skip = "class Skipped(BaseException): ...\nraise Skipped('no card')"
    package({"a.py": skip, "b.py": "raise KeyboardInterrupt", "c.py": ""})
    names, errors = load_names()
    assert names == [NAME, f"{NAME}.c"]
    assert errors == {
        f"{NAME}.a": "Skipped: no card",
        f"{NAME}.b": "KeyboardInterrupt: raise KeyboardInterrupt",
    }


def test_the_modules_of_the_distribution_are_named(package: Writer) -> None:
    """Modules in folders without `__init__` are named, and files beside them are not imported."""
    package({"ops/a.py": "", "tests/__init__.py": "1 / 0", "b.py": "1 / 0"})
    modules, errors = load([NAME], (), own_modules=[NAME, f"{NAME}.ops.a"])
    assert [module.__name__ for module in modules] == [NAME, f"{NAME}.ops.a"]
    assert errors == {}


def test_what_a_recipe_skips_is_not_imported(package: Writer) -> None:
    """A skipped module's submodules are skipped too."""
    package({"a.py": "1 / 0", "ops/__init__.py": "1 / 0", "ops/b.py": "", "c.py": ""})
    assert load_names(f"{NAME}.a", "*.ops") == ([NAME, f"{NAME}.c"], {})


def test_a_package_whose_init_raises_is_entered_past_it(package: Writer) -> None:
    """The package's modules can be driven."""
    package({"__init__.py": "raise RuntimeError('registered twice')", "ops.py": "HERE = 1\n"})
    names, errors = load_names()
    assert names == [NAME, f"{NAME}.ops"]
    assert errors == {NAME: "RuntimeError: registered twice"}


def test_what_a_put_off_init_exports_is_bound(package: Writer) -> None:
    """Exported functions are called first, also those of an `__init__` that did not run."""
    package(
        {
            "__init__.py": "raise RuntimeError('registered twice')",
            "ops/__init__.py": "from .one import public as renamed\nfrom .two import absent\n",
            "ops/one.py": "def public(): ...\n",
        }
    )
    modules, _ = load([NAME], ())
    by_name = {module.__name__: vars(module) for module in modules}
    assert by_name[f"{NAME}.ops"]["renamed"] is by_name[f"{NAME}.ops.one"]["public"]
    assert "absent" not in by_name[f"{NAME}.ops"]


def test_a_package_with_nothing_else_cannot_be_driven(package: Writer) -> None:
    """The package has no modules below its `__init__`."""
    package({"__init__.py": "raise RuntimeError('no')"})
    with pytest.raises(NotImported) as caught:
        load([NAME], ())
    assert caught.value.args[0] == NAME
    assert caught.value.args[1].brief() == "RuntimeError: no"


def test_a_kernel_that_a_function_imports_itself_is_found(package: Writer) -> None:
    """Relative and absolute imports count; names of other packages or lazy modules do not."""
    from flacheck.guest.search.entry_points import find_operators

    kernels = """
    def one(x): ...
    def two(x): ...
    first, second = Kernel(one), Kernel(two)
    """
    functions = f"""
    def near(x):
        from .kernels import first
        from os.path import join
        first[join](x)

    def far(x):
        from {NAME}.kernels import second as kernel
        kernel[(1,)](x)

    def never(x):
        from .lazy import absent
        absent[(1,)](x)
    """
    lazy = "def __getattr__(name): raise ImportError(name)"
    files = {"kernels.py": with_kernels(kernels), "a.py": functions, "lazy.py": lazy}
    package({name: textwrap.dedent(text) for name, text in files.items()})
    modules, _ = load([NAME], ())
    kernels_of = {each.name: each.kernels for each in find_operators(modules, [NAME])}
    assert kernels_of == {
        f"{NAME}.a:near": frozenset({f"{NAME}.kernels:one"}),
        f"{NAME}.a:far": frozenset({f"{NAME}.kernels:two"}),
    }


def test_objects_that_refuse_to_be_read_are_passed_over(package: Writer) -> None:
    """A lazy table that imports an absent module, and a stand-in for an absent class, raise when
    they are read."""
    from flacheck.guest.search.entry_points import find_operators

    text = """
    def one(x): ...
    first = Kernel(one)

    class Lazy(dict):
        def values(self): raise ValueError("could not find R")

    class Refusing(type):
        def __getattribute__(cls, name):
            if name.startswith("_"):
                return super().__getattribute__(name)
            raise ImportError("needs TensorFlow")

    class Absent(metaclass=Refusing): ...

    models = Lazy(first=Absent)

    def operator(x):
        models["first"](x)
        first[(1,)](x)
    """
    package({"a.py": with_kernels(text)})
    modules, _ = load([NAME], ())
    kernels_of = {each.name: each.kernels for each in find_operators(modules, [NAME])}
    assert kernels_of == {f"{NAME}.a:operator": frozenset({f"{NAME}.a:one"})}


def test_a_kernel_of_a_module_that_a_function_imports_is_found(package: Writer) -> None:
    """Only kernels whose names the function reads are its own."""
    from flacheck.guest.search.entry_points import find_operators

    kernels = """
    def one(x): ...
    def two(x): ...
    def three(x): ...
    first, second, third = Kernel(one), Kernel(two), Kernel(three)
    """
    functions = """
    def outer(x):
        from . import kernels as held
        held.first[(1,)](x)
        held.second[(1,)](x)
    """
    package({"kernels.py": with_kernels(kernels), "a.py": textwrap.dedent(functions)})
    modules, _ = load([NAME], ())
    kernels_of = {each.name: each.kernels for each in find_operators(modules, [NAME])}
    home = f"{NAME}.kernels"
    assert kernels_of == {f"{NAME}.a:outer": frozenset({f"{home}:one", f"{home}:two"})}


def test_methods_of_other_classes_than_layers_are_no_operators(package: Writer) -> None:
    """Their kernels are launched alone."""
    from flacheck.guest.search.entry_points import find_operators

    text = """
    def one(x): ...
    first = Kernel(one)

    class Plan:
        def __call__(self, x): first[(1,)](x)
    """
    package({"a.py": with_kernels(text)})
    modules, _ = load([NAME], ())
    assert find_operators(modules, [NAME]) == []


def test_an_object_that_answers_every_attribute_is_no_kernel(package: Writer) -> None:
    """A stand-in for a missing compiled library never counts as a kernel."""
    from flacheck.guest.search.entry_points import find_operators

    text = """
    class Absent:
        def __getattr__(self, name):
            def refuse(*arguments): raise RuntimeError(name)
            return refuse

    library = Absent()

    def operator(x):
        library.scale(x)
    """
    package({"a.py": textwrap.dedent(text)})
    modules, _ = load([NAME], ())
    assert find_operators(modules, [NAME]) == []


def test_a_part_of_an_autograd_function_is_not_called(package: Writer) -> None:
    """Only torch has the context that such a function takes first."""
    from flacheck.guest.search.entry_points import find_operators

    text = """
    def one(x): ...
    first = Kernel(one)

    def _backward(ctx, dy): first[(1,)](dy)
    """
    package({"a.py": with_kernels(text)})
    modules, _ = load([NAME], ())
    assert find_operators(modules, [NAME]) == []
