"""Programs that are captured on a fake GPU: their launches and their exit codes."""

from __future__ import annotations

import importlib.util
import json
import sys
import textwrap
from pathlib import Path

import jsonschema
import pytest

import flacheck
from flacheck.subjects.captures.run import capture
from flacheck.subjects.inputs.launches import Launches, read

needs_torch = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "triton"))),
    reason="needs torch and triton: pip install .[torch]",
)

PRELUDE = """
import sys, torch, triton, triton.language as tl
import torch.nn.functional as F

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

def launch(x, n=64, **options):
    double[(1,)](x, n, BLOCK=64, **options)
"""

# One run of an autotuner between heuristics, which prunes the last of its three configurations.
AUTOTUNED = """
def prune(configs, args, **kwargs):
    return [config for config in configs if config.kwargs["BLOCK"] <= args["n"]]

@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@triton.autotune([triton.Config({"BLOCK": b}, num_warps=4) for b in (32, 64, 128)], ["n"],
                 prune_configs_by={"early_config_prune": prune})
@triton.heuristics({"HALF": lambda args: args["BLOCK"] // 2})
@triton.jit
def tuned(x, n, nothing, KIND: tl.constexpr,
          BLOCK: tl.constexpr, EVEN: tl.constexpr, HALF: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), HALF)

def blocks(meta): return (triton.cdiv(64, meta["BLOCK"]),)
tuned[blocks](torch.empty(64, device="cuda"), 64, None, KIND=tl.float16)
"""


def written(folder: Path, program: str) -> Path:
    """The program's file, with the kernel and the imports that all of them use."""
    script = folder / "program.py"
    script.write_text(PRELUDE + textwrap.dedent(program))
    return script


def exit_code(folder: Path, program: str, *arguments: str, device: str = "h200") -> int:
    """Return a captured program's exit code, 0 if its assertions hold."""
    command = [sys.executable, str(written(folder, program)), *arguments]
    return capture(command, folder / "l.jsonl", device)


def recorded(
    folder: Path, program: str, *arguments: str, device: str = "h200", code: int = 0
) -> Launches:
    """Return the launches of a program that ends with the given code."""
    assert exit_code(folder, program, *arguments, device=device) == code
    check_schema(folder / "l.jsonl")
    return read(folder / "l.jsonl")


def check_schema(output: Path) -> None:
    """Validate each line of a launches file against the shipped schema."""
    schemas = Path(flacheck.__file__).parent / "tables" / "schemas"
    schema = json.loads((schemas / "launches-1.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    for line in output.read_text().splitlines():
        validator.validate(json.loads(line))
