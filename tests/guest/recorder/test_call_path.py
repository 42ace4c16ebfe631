"""Call paths: the functions through which a recorded launch came."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from flacheck.subjects.captures.capture_job import GUEST
from flacheck.subjects.inputs.launches import read
from tests.captured import PRELUDE, needs_torch, recorded

OPERATOR = """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        launch(x, n=1)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        launch(gradient, n=2)
        return gradient

def scaled(x):
    return Scaled.apply(x)

class Layer(torch.nn.Module):
    def forward(self, x):
        return sum(scaled(part) for part in (x,))
"""


def paths(folder: Path, program: str) -> dict[int, set[tuple[str, ...]]]:
    """The paths of each launch of `launch`, by its n."""
    return {
        each.launch.args["n"]["int"]: set(each.paths or ())
        for each in recorded(folder, program).launches
    }


@needs_torch
def test_a_launch_names_the_functions_that_led_to_it(tmp_path: Path) -> None:
    """Names are listed outermost first, with module and class; each path is kept."""
    program = """
    def outer(x): launch(x, n=3)
    class Op:
        def __call__(self, x): [launch(x, n=3) for _ in range(2)]
    x = torch.empty(64, device="cuda")
    outer(x)
    Op()(x)
    launch(x, n=4)
    """
    assert paths(tmp_path, program) == {
        3: {
            ("program", "program.outer", "program.launch"),
            ("program", "program.Op.__call__", "program.launch"),
        },
        4: {("program", "program.launch")},
    }


@needs_torch
def test_a_backward_pass_came_through_the_operators_of_its_forward_pass(tmp_path: Path) -> None:
    """The forward operators are in the path of the backward pass; the caller of `backward` is
    not."""
    program = f"""{OPERATOR}
def train(x):
    Layer()(x).sum().backward()

train(torch.ones(64, device="cuda", requires_grad=True))
"""
    before = ("program", "program.train", "program.Layer.forward", "program.scaled")
    assert paths(tmp_path, program) == {
        1: {(*before, "program.Scaled.forward", "program.launch")},
        2: {(*before, "program.Scaled.backward", "program.launch")},
    }


@needs_torch
def test_a_checkpoint_computes_again_on_the_path_of_its_forward_pass(tmp_path: Path) -> None:
    """The launches of the forward pass are repeated within the backward pass."""
    program = f"""{OPERATOR}
from torch.utils.checkpoint import checkpoint
x = torch.ones(64, device="cuda", requires_grad=True)
def block(x): return checkpoint(scaled, x, use_reentrant=True)
block(x).sum().backward()
"""
    paths_seen = paths(tmp_path, program)
    assert paths_seen and all(paths_seen.values())
    assert all(
        {"program.block", "program.scaled"} <= set(path)
        for n in paths_seen
        for path in paths_seen[n]
    )


@needs_torch
def test_a_recursion_makes_no_longer_path(tmp_path: Path) -> None:
    """The depth of the recursion does not change the path."""
    program = """
    def deep(x, depth):
        launch(x, n=1)
        if depth: deep(x, depth - 1)
    deep(torch.empty(64, device="cuda"), 5)
    """
    assert paths(tmp_path, program) == {1: {("program", "program.deep", "program.launch")}}


@needs_torch
def test_only_functions_of_the_kernels_package_count(tmp_path: Path) -> None:
    """A program's own functions on the way to a package's kernel are left out."""
    folder = tmp_path / "site"
    (folder / "tiny-1.0.dist-info").mkdir(parents=True)
    (folder / "tiny-1.0.dist-info" / "METADATA").write_text("Name: tiny\nVersion: 1.0\n")
    (folder / "tiny-1.0.dist-info" / "RECORD").write_text("tiny/ops.py,,\ntiny/__init__.py,,\n")
    (folder / "tiny").mkdir()
    (folder / "tiny" / "__init__.py").write_text("")
    (folder / "tiny" / "ops.py").write_text(
        "import triton\n@triton.jit\ndef kernel(x, n):\n    pass\n"
        "def op(x):\n    kernel[(1,)](x, 7)\n"
    )
    program = f"""
    sys.path.insert(0, {str(folder)!r})
    from tiny.ops import op
    def train(x): op(x)
    train(torch.empty(64, device="cuda"))
    """
    (launch,) = recorded(tmp_path, program).launches
    assert (launch.package, launch.paths) == ("tiny==1.0", (("tiny.ops.op",),))


# A program under the recorder with the compiler taken away, on whatever device it names.
REAL = """
import importlib.util, runpy, sys
import triton.runtime.jit as jit
jit.JITFunction.run = lambda self, *args, **kwargs: None
guest, output, script = sys.argv[1:]
spec = importlib.util.spec_from_file_location(
    "guest", guest + "/__init__.py", submodule_search_locations=[guest])
sys.modules["guest"] = importlib.util.module_from_spec(spec)
from guest.recorder.session import Settings, session
import torch
before = torch.autograd.Function.__dict__["apply"]
with session(Settings(output)):
    runpy.run_path(script, run_name="program")
assert torch.autograd.Function.__dict__["apply"] is before
"""


@needs_torch
def test_torchs_own_engine_leads_to_the_same_paths(tmp_path: Path) -> None:
    """On a real device the backward pass runs in C++, and torch is left as it was."""
    script, arm, output = (tmp_path / name for name in ("program.py", "arm.py", "l.jsonl"))
    script.write_text(
        f"{PRELUDE}{OPERATOR}\n"
        "def train(x): Layer()(x).sum().backward()\n"
        "train(torch.ones(64, requires_grad=True))\n"
    )
    arm.write_text(REAL)
    command = [sys.executable, str(arm), str(GUEST), str(output), str(script)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    before = ("arm", "program", "program.train", "program.Layer.forward", "program.scaled")
    assert {path for each in read(output).launches for path in each.paths or ()} == {
        (*before, "program.Scaled.forward", "program.launch"),
        (*before, "program.Scaled.backward", "program.launch"),
    }
