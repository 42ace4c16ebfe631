"""Which kernels of a package can be launched, and why a capture missed some, read from the source
alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.capture.coverage import coverage
from flacheck.source.modules import launchable

FILES = {
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
    "pkg/ops/ascend/three.py": """\
import triton

@triton.jit
def other(x): ...

def host(x):
    other[(1,)](x)
""",
    "pkg/modules/four.py": """\
import triton

@triton.jit
def norm(x): ...

def host(x):
    norm[(1,)](x)
""",
    "pkg/ops/broken.py": "def (:\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_launchable_are_the_jit_functions_that_something_launches(folder: Path) -> None:
    """Through imports and autotuners; no helpers, other vendors' or other parts of the package."""
    assert launchable(folder, "pkg.ops") == {
        "pkg.ops.one:first": ("pkg.ops.one:host", "pkg.ops.two:Layer"),
        "pkg.ops.one:second": ("pkg.ops.one:host",),
    }
    assert set(launchable(folder, "pkg")) == {
        "pkg.ops.one:first",
        "pkg.ops.one:second",
        "pkg.modules.four:norm",
    }


def test_a_missed_kernel_has_a_reason(folder: Path) -> None:
    """What the driver's report says of it: not imported, raised before, or reached by nobody."""
    kernels = launchable(folder, "pkg.ops")
    failed = {
        "kernels": ["pkg.ops.one:second"],
        "launches": 0,
        "failures": {"plain": "ValueError: no"},
    }
    one_missed = coverage(
        kernels,
        {"pkg.ops.one:first": 3},
        {"modules": {}, "operators": {"pkg.ops.one:host": failed}},
    )
    assert (one_missed.launchable, one_missed.recorded) == (2, 1)
    assert one_missed.missed == (
        (
            "pkg.ops.one:second",
            "pkg.ops.one:host raised an error before it launched anything: ValueError: no",
        ),
    )
    nobody = coverage(kernels, {}, {"modules": {}, "operators": {}})
    reasons = [reason for _, reason in nobody.missed]
    assert all(reason.startswith("no operator that flacheck found reaches") for reason in reasons)
    absent = coverage(kernels, {}, {"modules": {"pkg.ops.one": "ImportError: x"}, "operators": {}})
    assert absent.missed[0][1] == "pkg.ops.one cannot be imported: ImportError: x"
