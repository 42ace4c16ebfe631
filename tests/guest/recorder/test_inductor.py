"""Recording the kernels that torch's Inductor writes for the imitated card."""

from __future__ import annotations

import sys
from pathlib import Path

from flacheck.captures.run import capture
from flacheck.inputs.launches import read
from tests.captured import needs_torch

_PROGRAM = """
import torch

@torch.compile
def norm(x, w):
    return torch.nn.functional.layer_norm(torch.nn.functional.gelu(x @ w), (64,))

x = torch.randn(32, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
w = torch.randn(64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
norm(x, w).sum().backward()
assert x.grad.shape == x.shape
"""


@needs_torch
def test_kernels_of_a_compiled_function_are_recorded(tmp_path: Path) -> None:
    """Forward and backward launch Inductor's kernels, whose sources travel with the file."""
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    output = tmp_path / "l.jsonl"
    assert capture([sys.executable, str(program)], output) == 0
    launches = read(output).launches
    assert len(launches) >= 2
    assert any("backward" in launch.kernel for launch in launches)
    for launch in launches:
        assert launch.kernel.startswith("inductor:triton_")
        assert launch.text is not None
        assert launch.launch.configs
