"""The modules of a package: what their names stand for and which kernels they launch."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from flacheck.source.modules import Import, file_of, module_name, read

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
    assert module.defined == {"SIZE", "kernel", "host"}
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
    assert not broken.defined
