"""The stand-in for torch: the names that modules read at import, without computation."""

from __future__ import annotations

import subprocess
import sys

import pytest

from flacheck.guest.workers.torch_stub import StubError, decorator, placeholder

PROGRAM = """
from flacheck.guest.engine.driver import TargetDriver
from flacheck.guest.workers import torch_stub

driver = TargetDriver()
torch_stub.install(driver)
import torch, torch.nn.functional as F
driver.select({"capability": [9, 0], "gpu": "H100", "bf16": True, "backend": "cuda"})
print(torch.__version__, torch.bfloat16, torch.half, torch.cuda.get_device_capability())
print(torch.cuda.get_device_name(), torch.cuda.is_bf16_supported(), torch.version.hip)
print(F.gelu.__module__, F.gelu.__qualname__)

@torch.compile
def plain(x): return x

@torch.library.custom_op("a::b", mutates_args=())
def operator(x): return x

class Layer(torch.nn.Module, torch.Tensor): pass
print(plain.__name__, operator.__name__, Layer.__mro__[-2].__name__)
before = torch
torch_stub.turn({})
driver.select({"capability": [9, 4], "gpu": "MI300X", "bf16": True, "backend": "hip"})
import torch
print(torch is before, torch.cuda.get_device_name(), torch.version.cuda, torch.version.hip)
"""


def test_a_module_finds_what_it_reads_at_import() -> None:
    """Dtypes, decorators, base classes, and the card, also after it was turned to another one."""
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert result.stdout.splitlines() == [
        "2.6.0 torch.bfloat16 torch.float16 (9, 0)",
        "H100 True None",
        "torch torch.nn.functional.gelu",
        "plain operator Placeholder",
        "False MI300X None 6.3",
    ], result.stderr


READING = """
from flacheck.guest.engine.driver import TargetDriver
from flacheck.guest.workers import torch_stub

torch_stub.install(TargetDriver())
import torch
from torch import finfo

def plain(x: torch.Tensor): return x
def reading(x): return torch.finfo(torch.float32).max
def other(x): return finfo(x).max

for function in (plain, reading, other):
    try:
        print(torch_stub.check_reads(function))
    except torch_stub.StubError as error:
        print(error)
"""


def test_a_body_that_reads_torch_is_refused() -> None:
    """A module of torch or any part of it; an annotation is not read."""
    result = subprocess.run([sys.executable, "-c", READING], capture_output=True, text=True)
    assert result.stdout.splitlines() == [
        "None",
        "the kernel reads torch, and torch is not installed here",
        "the kernel reads finfo, and torch is not installed here",
    ], result.stderr


def test_a_decorator_gives_its_function_back() -> None:
    """Bare, with options, and of an unknown name."""

    def function() -> None: ...

    assert decorator(function) is function
    assert decorator(dynamic=True)(function) is function
    assert placeholder("torch.unknown")(function) is function


@pytest.mark.parametrize(
    "use", [iter, len, bool, int, lambda thing: thing + 1, lambda thing: thing < 1]
)
def test_nothing_is_computed(use: object) -> None:
    """A loop or a branch on a placeholder raises an error with the missing name."""
    with pytest.raises(StubError, match=r"torch\.unknown"):
        use(placeholder("torch.unknown"))  # type: ignore[operator]
