"""The fake device.

Programs behave on it as on a GPU.

Most of these programs contain assertions, and end with 0 if all hold.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.captured import exit_code, needs_torch, recorded

TRAINING = """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, mode, x):
        ctx.save_for_backward(x)
        launch(x, 1)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        launch(gradient, 2)
        return None, 2 * x * gradient

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for step in range(2):
    with torch.autocast("cuda", torch.float16):
        hidden = model[0](torch.randn(4, 8).cuda())
        normed = model[1](hidden)
        loss = Square.apply("mode", normed).mean()
    assert (hidden.dtype, normed.dtype) == (torch.float16, torch.float32)
    scaler.scale(loss).backward()
    assert model[0].weight.grad.device.type == "cuda"
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer); scaler.update(); optimizer.zero_grad()
print(loss.item())
"""


@needs_torch
def test_a_training_step_runs_forward_and_backward(tmp_path: Path) -> None:
    """Modules move, autocast applies CUDA's lists, custom functions get their gradients."""
    file = recorded(tmp_path, TRAINING)
    assert {(one.launch.args["n"]["int"], one.count) for one in file.launches} == {(1, 2), (2, 2)}


OUTPUTS = """
class Some(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, state):
        return x * 2, x.sum(0) if state else None, None, 7, x.new_zeros(())

    @staticmethod
    def backward(ctx, *gradients):
        seen.append([None if gradient is None else tuple(gradient.shape) for gradient in gradients])
        return gradients[0], None

seen = []
for state in (True, False):
    x = torch.randn(3, 4, device="cuda", requires_grad=True)
    Some.apply(x, state)[0].sum().backward()
assert seen == [[(3, 4), (4,), None, None, ()], [(3, 4), None, None, None, ()]], seen
"""


@needs_torch
def test_an_output_that_is_no_tensor_has_no_gradient(tmp_path: Path) -> None:
    """An unused tensor gets a gradient of zeros, and None gets None, because kernels are chosen by
    it.
    """
    assert exit_code(tmp_path, OUTPUTS) == 0


ENGINE = """
from torch.utils.checkpoint import checkpoint
def fresh(*shape): return torch.randn(*shape, device="cuda", requires_grad=True)
x, seen = fresh(2, 4), []
for reentrant in (True, False):
    x.grad = None
    checkpoint(torch.nn.Linear(4, 4).cuda(), x, use_reentrant=reentrant).sum().backward()
    assert x.grad.shape == (2, 4)
y = x * 2
y.retain_grad()
handle = y.register_hook(lambda g: seen.append("removed"))
y.register_hook(lambda g: seen.append("inner"))
x.register_hook(lambda g: seen.append("leaf"))
handle.remove()
(y * y).sum().backward()
assert seen == ["inner", "leaf"] and y.grad.shape == (2, 4)
(first,) = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
(second,) = torch.autograd.grad(first.sum(), [x])
assert second.shape == x.shape
unused = fresh(3)
assert torch.autograd.grad(x.sum(), [x, unused], allow_unused=True)[1] is None
try:
    torch.autograd.grad(x.sum(), unused)
    raise SystemExit("an unused tensor must raise")
except RuntimeError:
    pass
q, k, v = (fresh(1, 2, 8, 16) for _ in range(3))
F.scaled_dot_product_attention(q, k, v).sum().backward()
torch.func.grad(lambda t: (t * t).sum())(torch.randn(3, device="cuda"))
"""


@needs_torch
def test_the_autograd_engine_does_as_torchs(tmp_path: Path) -> None:
    """Checkpoints, hooks, retained and second gradients and unused inputs work."""
    assert exit_code(tmp_path, ENGINE) == 0


PLACEMENT = """
places = ("cuda", "cuda:0", torch.device("cuda"), torch.device("cuda", 0), 0)
for place in places:
    x = torch.rand(2, device=place, requires_grad=True)
    assert x.device == torch.device("cuda", 0) and x.is_leaf
    assert x.to(place) is x and x.to(device=place) is x and x.cuda() is x and x.cuda(0) is x
    moved = torch.rand(2, requires_grad=True).to(place, torch.float16, non_blocking=True)
    assert moved.device == x.device and moved.dtype is torch.float16 and not moved.is_leaf
    layer = torch.nn.Linear(2, 2).to(place)
    weight = layer.weight
    assert layer.to(device=place).weight is weight and weight.is_leaf and weight.device == x.device
    assert x.to("cpu").device.type == x.cpu().device.type == "cpu"
assert x.to(torch.float16).dtype is torch.float16
assert x.to(torch.zeros(1, dtype=torch.float64)).device.type == "cpu"
@torch.jit.script
def scripted(x: torch.Tensor):
    return torch.zeros(2, device=x.device) + torch.ones_like(x).to(x.device)
assert scripted(x).device == x.device
assert torch.zeros_like(torch.zeros(2), device=0).device == x.device
assert torch.arange(3, device="cuda").device == x.device
"""


@needs_torch
def test_a_tensor_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    """A tensor on the device is not copied, whichever name of the device is used."""
    assert exit_code(tmp_path, PLACEMENT) == 0


THREADS = """
import threading
sys.setswitchinterval(1e-6)
failed = []
def work(n):
    try:
        for i in range(300):
            x = torch.randn(4, 4, device="cuda")
            (x @ x).softmax(-1)[i % 4:].contiguous()
            assert torch.arange(n + i, device="cuda").sum().item() == (n + i) * (n + i - 1) // 2
        launch(x, n)
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=work, args=(n,)) for n in (2, 3, 4, 5)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failed, failed
"""


@needs_torch
def test_threads_work_on_the_device_at_once(tmp_path: Path) -> None:
    """A thread that pins batches, such as a DataLoader's, runs beside the program's own threads."""
    file = recorded(tmp_path, THREADS)
    assert sorted(one.launch.args["n"]["int"] for one in file.launches) == [2, 3, 4, 5]


HARMLESS = """
import threading
graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    x = torch.randn(64, device="cuda")
with torch.cuda.graph(graph):
    launch(x, 1)
graph.replay()
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record(); end.record(); torch.cuda.synchronize()
assert start.elapsed_time(end) > 0
compiled = torch.compile(lambda t: launch(t, 2), mode="max-autotune")
compiled(x)
@torch.compile
def decorated(t): launch(t, 3)
decorated(x)
with torch.cuda.device(x.device.index), torch.cuda.nvtx.range("here"):
    torch.randn(3, device="cuda", generator=torch.Generator("cuda").manual_seed(1)).pin_memory()
thread = threading.Thread(target=lambda: launch(torch.empty(64, device="cuda"), 4))
thread.start(); thread.join()
properties = torch.cuda.get_device_properties(0)
active = triton.runtime.driver.active.utils.get_device_properties(0)
assert properties.name == torch.cuda.get_device_name() == "NVIDIA B200" and properties.major == 10
assert torch.cuda.get_device_capability() == (10, 0)
assert active["max_shared_mem"] == properties.shared_memory_per_block_optin
assert active["multiprocessor_count"] == properties.multi_processor_count == 148
"""


@needs_torch
def test_graphs_streams_events_threads_and_compile_do_no_harm(tmp_path: Path) -> None:
    """Each of these runs its function, and the device stays the same in all of them."""
    file = recorded(tmp_path, HARMLESS, device="b200")
    assert sorted(one.launch.args["n"]["int"] for one in file.launches) == [1, 2, 3, 4]


@needs_torch
def test_an_untested_torch_is_refused_with_a_remedy(tmp_path: Path) -> None:
    """The refusal comes before torch's internals could fail."""
    from flacheck.guest.fake_cuda.device import UntestedTorch, check

    check("2.13.0+cpu")
    with pytest.raises(
        UntestedTorch,
        match=r"tested with torch 2\.11\.x and 2\.13\.x, and this is torch 2\.1\.0.*--device real",
    ):
        check("2.1.0")


# The error of a torch built with CUDA without a GPU, at each place that needs one.
REFUSING = """
import json, sys
import torch
from torch._subclasses import fake_tensor
from flacheck.guest.fake_cuda import known_values
from flacheck.guest.fake_cuda.device import FakeDevice

def refuse(*args, **kwargs):
    raise RuntimeError("No CUDA GPUs are available\\nmore")

setattr({owner}, "{name}", refuse)
FakeDevice(json.loads(sys.argv[1]), print).enter()
print(torch.ones(2, device="cuda").device)
"""


def _refusing(owner: str, name: str) -> subprocess.CompletedProcess[str]:
    from flacheck.subjects.captures.cards import card

    program = REFUSING.format(owner=owner, name=name)
    command = [sys.executable, "-c", program, json.dumps(card("h100"))]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@needs_torch
def test_a_torch_that_would_make_a_real_tensor_first_makes_none(tmp_path: Path) -> None:
    """A torch built with CUDA also imitates a card on a machine without a GPU."""
    ran = _refusing("fake_tensor", "init_gpu_context")
    assert (ran.returncode, ran.stdout) == (0, "cuda:0\n"), ran.stderr


@needs_torch
def test_a_torch_that_insists_on_a_gpu_is_refused_with_a_remedy(tmp_path: Path) -> None:
    """The refusal comes once, at the start."""
    ran = _refusing("known_values.NoDeviceMode", "__torch_dispatch__")
    assert ran.returncode != 0
    last = ran.stderr.splitlines()[-1]
    assert "asks for a GPU that is not there (No CUDA GPUs are available)" in last
    assert "CPU build, of 2.11.x or 2.13.x" in last


class Mode:
    """A mode that was left before, or one that is still active."""

    def __init__(self, is_gone: bool) -> None:
        self.gone, self.left = is_gone, False

    def __exit__(self, *_: object) -> None:
        if self.gone:
            raise RuntimeError("Attempted to unset FakeTensorMode, but there wasn't one active.")
        self.left = True


@needs_torch
def test_a_device_whose_mode_is_gone_is_left_all_the_same() -> None:
    """A call that ended inside torch may have removed the mode already."""
    from flacheck.guest.fake_cuda.device import FakeDevice

    device = object.__new__(FakeDevice)
    standing = Mode(is_gone=False)
    vars(device).update(
        _values=Mode(is_gone=True), _mode=standing, _run_thread=threading.Thread.run
    )
    device.leave()
    assert standing.left
