"""Recording the kernels that torch's Inductor writes for the imitated card."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flacheck.subjects.captures.run import capture
from flacheck.subjects.inputs.launches import read
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


# The fewest kernels that a compile of each model writes, forward and backward.
_FEWEST = {
    "gpt": 15,
    "bert": 20,
    "vit": 8,
    "resnet": 10,
    "unet": 15,
    "recurrent": 5,
    "experts": 8,
    "routed_expert": 6,
    "diffusion": 15,
    "recommender": 8,
    "transducer": 6,
    "scan": 10,
    "adversaries": 12,
}


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize("model", _FEWEST)
def test_a_step_of_training_is_recorded(tmp_path: Path, model: str) -> None:
    """Each kind of model compiles forward and backward, and an optimizer makes a step."""
    output = tmp_path / "l.jsonl"
    assert capture([sys.executable, "-m", "tests.compiled_models", model], output) == 0
    assert len(read(output).launches) >= _FEWEST[model]
