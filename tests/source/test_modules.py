"""The modules of a package: what their names stand for and which kernels they launch."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from flacheck.source.modules import Import, file_of, importable, launchable, module_name, read

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


def written(root: Path, name: str, text: str) -> Path:
    """A file of a package."""
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(text))
    return file


def test_a_module_says_what_its_names_stand_for(tmp_path: Path) -> None:
    """Relative imports are made absolute; a name that branches bind has several imports."""
    written(tmp_path, "pkg/ops/one.py", TEXT)
    module = read(tmp_path, "pkg.ops.one")
    assert module.file == "pkg/ops/one.py"
    assert module.imports == {
        "triton": (Import("triton"),),
        "np": (Import("numpy"),),
        "sibling": (Import("pkg.ops", "sibling"),),
        "renamed": (Import("pkg.above", "thing"),),
        "op": (Import("fast", "op"), Import("slow", "op")),
        "inner": (Import("late", "inner"),),
    }
    assert module.definitions == {"SIZE", "kernel", "host"}
    assert module.kernels == {"kernel"}
    assert module.launches == (("host", "kernel"),)


def test_a_packages_own_module_is_its_init(tmp_path: Path) -> None:
    """From there a relative import leads to the package itself."""
    file = written(tmp_path, "pkg/ops/__init__.py", "from .one import kernel\n")
    assert file_of(tmp_path, "pkg.ops") == file
    assert module_name(tmp_path, file) == "pkg.ops"
    assert read(tmp_path, "pkg.ops").imports == {"kernel": (Import("pkg.ops.one", "kernel"),)}


def test_what_cannot_be_read_is_an_empty_module(tmp_path: Path) -> None:
    """A missing file, and one that is not Python."""
    written(tmp_path, "pkg/broken.py", "def (:\n")
    assert read(tmp_path, "pkg.missing").file == ""
    broken = read(tmp_path, "pkg.broken")
    assert broken.file == "pkg/broken.py"
    assert not broken.definitions


LAUNCHED = """\
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
    "pkg/ops/ascend/three.py": LAUNCHED.format(name="other"),
    "pkg/modules/four.py": LAUNCHED.format(name="norm"),
    "pkg/ops/broken.py": "def (:\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The package in a folder."""
    for name, text in PACKAGE.items():
        written(tmp_path, name, text)
    return tmp_path


def test_launchable_are_the_jit_functions_that_something_launches(folder: Path) -> None:
    """Through imports and autotuners; no helpers, nothing for other vendors or of other parts."""
    assert launchable(folder, "pkg.ops") == {
        "pkg.ops.one:first": ("pkg.ops.one:host", "pkg.ops.two:Layer"),
        "pkg.ops.one:second": ("pkg.ops.one:host",),
    }
    assert set(launchable(folder, "pkg")) == {
        "pkg.ops.one:first",
        "pkg.ops.one:second",
        "pkg.modules.four:norm",
    }


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
    """Nor what runs by itself, what cannot be named, what is for other vendors' devices."""
    assert importable(file) == module


def test_kernels_count_where_another_name_for_them_is_launched(tmp_path: Path) -> None:
    """Wrapped at the launch, bound by an assignment, made by a call, chosen, or an attribute."""
    written(tmp_path, "pkg/__init__.py", "")
    written(
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
    written(
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
