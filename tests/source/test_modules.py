"""The modules of a package: what their names stand for and which kernels they launch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from flacheck.source.modules import importable, launchable, modules_around

TEXT = """
    import triton
    import numpy as np
    from . import sibling
    from ..above import thing as renamed
    if triton:
        from fast import op
    else:
        from slow import op

    SIZE: int = 64

    @triton.jit
    def kernel(x):
        pass

    def host(x):
        from late import inner
        kernel[(1,)](x)
        table[0]
"""


def write_module(root: Path, name: str, text: str) -> Path:
    """A file of a package."""
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(text))
    return file


LAUNCHES = """\
import triton

@triton.jit
def {name}(x): ...

def host(x):
    {name}[(1,)](x)
"""
PACKAGE = {
    "pkg/__init__.py": "raise ImportError('nothing here is imported')\n",
    "pkg/ops/__init__.py": "from pkg.ops.one import first as renamed\n",
    "pkg/ops/one.py": """\
import triton

@triton.jit
def first(x): ...

@triton.autotune(configs=[], key=[])
@triton.jit(do_not_specialize=['T'])
def second(x, T): ...

@triton.jit
def helper(x): ...

def host(x):
    first[(1,)](x)
    second[lambda meta: (1,)](x, 2)
    table[0](x)
""",
    "pkg/ops/two.py": """\
from pkg.ops import renamed

class Layer:
    def forward(self, x):
        renamed[(1,)](x)
""",
    "pkg/ops/ascend/three.py": LAUNCHES.format(name="other"),
    "pkg/modules/four.py": LAUNCHES.format(name="norm"),
    "pkg/ops/broken.py": "def (:\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The package in a folder."""
    for name, text in PACKAGE.items():
        write_module(tmp_path, name, text)
    return tmp_path


def test_launchable_are_the_jit_functions_that_something_launches(folder: Path) -> None:
    """Imports and autotuners are followed; helpers and code for other vendors are left out."""
    assert launchable(folder, "pkg.ops") == {
        "pkg.ops.one:first": ("pkg.ops.one:host", "pkg.ops.two:Layer"),
        "pkg.ops.one:second": ("pkg.ops.one:host",),
    }
    assert set(launchable(folder, "pkg")) == {
        "pkg.ops.one:first",
        "pkg.ops.one:second",
        "pkg.modules.four:norm",
    }


def test_the_modules_around_a_kernel_import_its_module(tmp_path: Path) -> None:
    """Importers are followed through every form of an import; a level of too many is left out."""
    texts = {
        "kernels": "import triton\n",
        "relative": "from . import (\n    other,\n    kernels,\n)\n",
        "continued": "def late():\n    from pkg.kernels import one, \\\n        two\n",
        "renamed": "import pkg.relative as r  # import pkg.kernels\n",
        "unrelated": "import numpy\n",
    }
    for name, text in texts.items():
        write_module(tmp_path, f"pkg/{name}.py", text)
    modules = [f"pkg.{name}" for name in texts]
    assert modules_around(tmp_path, modules, ["pkg.kernels"]) == modules[:4]
    assert modules_around(tmp_path, modules, ["pkg.unrelated"]) == ["pkg.unrelated"]
    for number in range(120):
        name = f"model_{number}"
        modules.append(f"pkg.{name}")
        write_module(tmp_path, f"pkg/{name}.py", "from pkg.renamed import r\n")
    assert modules_around(tmp_path, modules, ["pkg.kernels"]) == modules[:4]


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("shop/ops/one.py", "shop.ops.one"),
        ("shop/__init__.py", "shop"),
        ("alone.py", "alone"),
        ("tests/test_one.py", None),
        ("shop/tests/helpers.py", None),
        ("shop/one_test.py", None),
        ("shop/__main__.py", None),
        ("shop/kernel.cu", None),
        ("shop-1.0.data/one.py", None),
        ("shop/backends/triton_ascend/one.py", None),
        ("shop/_cambricon/one.py", None),
        ("shop/input.py", "shop.input"),
    ],
)
def test_users_import_no_tests(file: str, module: str | None) -> None:
    """Scripts, modules with invalid names and code for other vendors are left out too."""
    assert importable(file) == module


def test_kernels_count_where_another_name_for_them_is_launched(tmp_path: Path) -> None:
    """The name may be wrapped, assigned, returned by a call, chosen, or an attribute."""
    write_module(tmp_path, "pkg/__init__.py", "")
    write_module(
        tmp_path,
        "pkg/kernels.py",
        """
        import triton

        def plain(x): pass

        plain_jit = triton.jit(plain)

        @triton.jit
        def first(x): pass

        @triton.jit
        def second(x): pass

        @triton.jit
        def third(x): pass

        @triton.jit
        def helper(x): pass

        tuned = triton.autotune(configs=[], key=[])(first)
        """,
    )
    write_module(
        tmp_path,
        "pkg/ops.py",
        """
        from torch.library import wrap_triton
        from . import kernels
        from .kernels import plain_jit, third, tuned

        class Op:
            def __init__(self, fast):
                self.kernel = kernels.second if fast else third

            def __call__(self, x):
                self.kernel[(1,)](x)

        def op(x):
            wrap_triton(tuned)[(1,)](x)
            plain_jit[(1,)](x)
        """,
    )
    assert launchable(tmp_path, "pkg") == {
        "pkg.kernels:first": ("pkg.ops:op",),
        "pkg.kernels:plain": ("pkg.ops:op",),
        "pkg.kernels:second": ("pkg.ops:Op",),
        "pkg.kernels:third": ("pkg.ops:Op",),
    }


KERNEL = """
import functools
import triton

@triton.jit
def one(x): pass

@triton.jit
def two(x): pass

@triton.jit
def helper(x): pass

"""
OTHERS = "from pkg import kernels\nfrom pkg.kernels import one, two, helper\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def op(x):\n (one if x else two)[(1,)](x)", ["one", "two"]),
        ("def op(x):\n (kernels.one if x else two)[(1,)](x)", ["one", "two"]),
        ("K = {'a': one, 'b': two}\ndef op(x):\n K[x][(1,)](x)", ["one", "two"]),
        ("K = {}\nK['a'] = one\ndef op(x):\n K.get(x)[(1,)](x)", ["one"]),
        ("K = [one, two]\ndef op(x):\n for k in K:\n  k[(1,)](x)", ["one", "two"]),
        ("def op(*xs):\n for k, x in zip((one, two), xs):\n  k[(1,)](x)", ["one", "two"]),
        ("def op(x):\n return [k[(1,)](x) for k in (one, two)]", ["one", "two"]),
        ("class Op:\n kernel = one\n def run(self, x):\n  self.kernel[(1,)](x)", ["one"]),
        ("class Op:\n kernel: object = one\n def run(self, x):\n  self.kernel[(1,)](x)", ["one"]),
        ("def op(x):\n getattr(kernels, 'one')[(1,)](x)", ["one"]),
        ("@functools.lru_cache\ndef make():\n return one\ndef op(x):\n make()[(1,)](x)", ["one"]),
        (
            "def op(x):\n functools.partial(one.run, x, grid=(1,))()\n one.run(x, grid=(1,))",
            ["one"],
        ),
        (
            "def launch(k, x):\n k[(1,)](x)\ndef op(x):\n launch(one, x)\n launch(k=two, x=x)",
            ["one", "two"],
        ),
        (
            "class Op:\n def __init__(self, k):\n  self.k = k\n def run(self, x):\n  self.k[(1,)](x)\nOp(two)",
            ["two"],
        ),
        ("k = None\ndef use():\n global k\n k = one\ndef op(x):\n k[(1,)](x)", ["one"]),
        (
            "made = make_module([('one', one), ('two', two)])\ndef op(x):\n m = made.get()\n (m.one if x else m.two)[(1,)](x)",
            ["one", "two"],
        ),
        ("K = {'a': one}\ndef op(x):\n act = K[x]\n two[(1,)](x, act)", ["two"]),
        ("def act(x):\n return {'a': one}[x]\ndef op(x):\n two[(1,)](x, act(x))", ["two"]),
        ("def pick(x):\n return {'a': one}[x]\ndef op(x):\n pick(x)[(1,)](x)", ["one"]),
        ("def op(x):\n {'a': one}[x][(1,)](x)", ["one"]),
    ],
)
def test_kernels_are_counted_however_the_host_reaches_them(
    tmp_path: Path, text: str, names: list[str]
) -> None:
    """Branches, containers, loops, factories and `run` are followed; a lookup alone is not."""
    write_module(tmp_path, "pkg/__init__.py", "")
    write_module(tmp_path, "pkg/kernels.py", KERNEL)
    (tmp_path / "pkg" / "ops.py").write_text(f"import functools\n{OTHERS}\n{text}\n")
    assert list(launchable(tmp_path, "pkg")) == [f"pkg.kernels:{name}" for name in names]


def test_kernels_within_functions_and_classes_have_qualified_names(tmp_path: Path) -> None:
    """A name means the kernel of the nearest scope; `return kernel[grid]` is a launch, a returned device function is none."""
    write_module(tmp_path, "pkg/__init__.py", "")
    write_module(
        tmp_path,
        "pkg/made.py",
        """
        import triton

        def device(f):
            @triton.jit
            def _kernel(x): return f(x)
            return _kernel

        def launcher(f):
            @triton.jit
            def _kernel(x): f(x)
            return _kernel[(1,)]

        def factory(f):
            @triton.jit
            def _kernel(x): f(x)
            def launch(x):
                _kernel[(1,)](x)
            return launch

        def made():
            @triton.jit
            def _kernel(x): pass
            return _kernel

        def op(x):
            kernel = made()
            launch = kernel[(1,)]
            launch(x)

        def wrapped():
            def plain(x): pass
            return triton.jit(plain)

        class Ops:
            @staticmethod
            @triton.jit
            def inner(x): pass

            def run(self, x):
                self.inner[(1,)](x)
                wrapped()[(1,)](x)
        """,
    )
    assert launchable(tmp_path, "pkg") == {
        "pkg.made:Ops.inner": ("pkg.made:Ops",),
        "pkg.made:factory._kernel": ("pkg.made:factory",),
        "pkg.made:launcher._kernel": ("pkg.made:launcher",),
        "pkg.made:made._kernel": ("pkg.made:op",),
        "pkg.made:wrapped.plain": ("pkg.made:Ops",),
    }


@pytest.mark.network
@pytest.mark.parametrize(
    ("package", "module", "kernels"),
    [
        (
            "triton-submodular==0.1.0a1",
            "triton_submodular",
            {
                "functions.feature_based:triton_elemwise_to_torch_inplace._kernel",
                "optimizers.lazy_greedy:get_lazy_greedy_kernel._kernel",
                "optimizers.naive_greedy:get_naive_greedy_kernel._kernel",
                "optimizers.stochastic_greedy:get_stochastic_greedy_kernel._kernel",
            },
        ),
        (
            "tokenspeed-triton-kernels==1.0.0.post20260510",
            "triton_kernels",
            {"matmul_details._matmul:_matmul", "matmul_details._p_matmul:_p_matmul"},
        ),
    ],
)
def test_released_packages_count_closures_and_branches(
    tmp_path: Path, package: str, module: str, kernels: set[str]
) -> None:
    """Kernels of factory functions, and those between which a branch chooses at the launch."""
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target"]
    subprocess.run([*install, str(tmp_path), package], check=True)
    names = {name.removeprefix(f"{module}.") for name in launchable(tmp_path, module)}
    assert kernels <= names


def test_a_chain_of_names_may_be_longer_than_the_recursion_limit(tmp_path: Path) -> None:
    """A kernel behind thousands of assignments is found."""
    links = [f"name{number} = name{number - 1}" for number in range(1, 3_000)]
    text = ["import triton", "@triton.jit", "def kernel(x): ...", "name0 = kernel", *links]
    text += ["def host(x):", "    name2999[(1,)](x)"]
    write_module(tmp_path, "pkg/__init__.py", "\n".join(text))
    assert launchable(tmp_path, "pkg") == {"pkg:kernel": ("pkg:host",)}
