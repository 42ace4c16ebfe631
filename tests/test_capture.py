"""The recorder in a program of its own: what it launches is written down, on a device that is not
there.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import jsonschema
import pytest

import flacheck
from flacheck.capture import NOT_STARTED, capture, card
from flacheck.errors import UsageError
from flacheck.inputs.launches import Launches, read, sources
from flacheck.inputs.launches.memory import Placed

GUEST = Path(flacheck.__file__).parent / "guest"
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


def recorded(
    tmp_path: Path, program: str, *arguments: str, device: str = "h200", code: int = 0
) -> Launches:
    """What a program launches; it must end with the given code."""
    script = tmp_path / "program.py"
    script.write_text(PRELUDE + textwrap.dedent(program))
    output = tmp_path / "l.jsonl"
    assert capture([sys.executable, str(script), *arguments], output, device) == code
    check_schema(output)
    return read(output)


def check_schema(output: Path) -> None:
    """Every line of a launches file is as the contract's schema says."""
    schema = json.loads(
        (Path(flacheck.__file__).parent / "tables" / "schemas" / "launches-1.json").read_text()
    )
    validator = jsonschema.Draft202012Validator(schema)
    for line in output.read_text().splitlines():
        validator.validate(json.loads(line))


def test_the_commands_own_code_is_returned(tmp_path: Path) -> None:
    """A program without torch or triton pays nothing and leaves a file without launches."""
    output = tmp_path / "l.jsonl"
    assert capture([sys.executable, "-c", "import sys; sys.exit(7)"], output) == 7
    found = read(output)
    assert found.launches == () and found.header["triton"] is None
    assert found.end and found.end["exit_code"] == 7


def test_a_signal_is_the_shells_code(tmp_path: Path) -> None:
    """128 and the signal's number."""
    command = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    assert capture(command, tmp_path / "l.jsonl") == 137


def test_a_command_that_cannot_be_started(tmp_path: Path) -> None:
    """125, as the contract says."""
    assert capture([str(tmp_path / "none")], tmp_path / "l.jsonl") == NOT_STARTED


def test_an_unknown_device_is_a_usage_error(tmp_path: Path) -> None:
    """AMD's cards need another torch."""
    for name in ("h1000", "mi300"):
        with pytest.raises(UsageError):
            capture(["true"], tmp_path / "l.jsonl", name)


def test_a_card_is_consistent() -> None:
    """A card that shares a target with another keeps its own name and size."""
    h200, h100 = card("h200"), card("h100")
    assert (h200["gpu"], h200["memory_gb"], h200["capability"]) == ("NVIDIA H200", 140, (9, 0))
    assert h100["memory_gb"] == 80 and h200["shared_limit"] == h100["shared_limit"]


def test_the_users_own_sitecustomize_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder's stands before it and steps aside."""
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 'ran'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert (
        capture(
            [sys.executable, "-c", "import sys; sys.exit(3 if mine == 'ran' else 4)"],
            tmp_path / "l.jsonl",
        )
        == 3
    )


@needs_torch
def test_a_launch_is_recorded_with_what_was_passed(tmp_path: Path) -> None:
    """dtypes, real alignment, numbers, constants, options, grid; identical ones once with a count."""
    found = recorded(
        tmp_path,
        "x = torch.randn(256, device='cuda')\nfor _ in range(3): launch(x[1:], num_warps=2)\n",
    )
    (one,) = found.launches
    assert one.launch.to_json() == {
        "args": {"x": {"dtype": "fp32", "align": 4}, "n": {"int": 64}, "BLOCK": {"constexpr": 64}}
    }
    assert (one.kernel, one.options, one.grid, one.count) == (
        "program:double",
        {"num_warps": 2},
        (1,),
        3,
    )
    assert found.header["device"] == "NVIDIA H200" and found.header["torch"]


@needs_torch
def test_a_killed_program_leaves_its_launches(tmp_path: Path) -> None:
    """Each line is written before the launch goes on."""
    found = recorded(
        tmp_path,
        "import os\nlaunch(torch.empty(64, device='cuda'))\nos.kill(os.getpid(), 9)\n",
        code=137,
    )
    assert len(found.launches) == 1


@needs_torch
def test_child_processes_are_recorded_too(tmp_path: Path) -> None:
    """Started or forked, they share the file."""
    program = """
    import multiprocessing, subprocess
    n = int(sys.argv[1])
    launch(torch.empty(64, device='cuda'), n)
    if n == 1:
        subprocess.run([sys.executable, __file__, "2"], check=True)
        child = multiprocessing.get_context("fork").Process(target=launch, args=(torch.empty(64, device='cuda'), 3))
        child.start(); child.join()
    """
    found = recorded(tmp_path, program, "1")
    assert sorted(one.launch.args["n"]["int"] for one in found.launches) == [1, 2, 3]


AUTOTUNED = """
def prune(configs, args, **kwargs):
    return [config for config in configs if config.kwargs["BLOCK"] <= args["n"]]

@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@triton.autotune([triton.Config({"BLOCK": b}, num_warps=4) for b in (32, 64, 128)], ["n"],
                 prune_configs_by={"early_config_prune": prune})
@triton.heuristics({"HALF": lambda args: args["BLOCK"] // 2})
@triton.jit
def tuned(x, n, nothing, KIND: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr, HALF: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), HALF)

seen = []
tuned[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](torch.empty(64, device="cuda"), 64, None, KIND=tl.float16)
"""


@needs_torch
def test_an_autotuner_run_is_one_line_with_its_configurations(tmp_path: Path) -> None:
    """Pruned as the tuner would; heuristics above it apart, those below it in each configuration."""
    (one,) = recorded(tmp_path, AUTOTUNED).launches
    assert [config["kwargs"] for config in one.launch.configs] == [
        {"BLOCK": 32, "HALF": 16},
        {"BLOCK": 64, "HALF": 32},
    ]
    assert (one.launch.keys, one.launch.omitted) == (("n",), ("BLOCK", "EVEN", "HALF"))
    assert one.heuristics == {"EVEN": {"constexpr": True}}
    assert (
        one.launch.args["KIND"] == {"constexpr": {"dtype": "fp16"}}
        and one.launch.args["nothing"] is None
    )
    assert one.grid == (2,)


@needs_torch
def test_each_configurations_grid_stands_beside_the_launch(tmp_path: Path) -> None:
    """Evaluated with its constants and what heuristics gave; one that raises is unknown, and the
    host is left as the first configuration leaves it. Equal launches stay one line, whatever their
    grids.
    """
    program = (
        AUTOTUNED
        + """
seen = []
def grid(meta):
    seen.append(meta["BLOCK"])
    if meta["HALF"] == 32 and n == 65: raise ValueError("no such grid")
    return (triton.cdiv(640, meta["BLOCK"]), meta["HALF"] + meta["EVEN"])
for n in (65, 66):
    tuned[grid](torch.empty(64, device="cuda"), n, None, KIND=tl.float16)
tuned[(3, 4)](torch.empty(64, device="cuda"), 64, None, KIND=tl.float16)
assert seen[-1] == 32 and tuned.fn.best_config.kwargs["BLOCK"] == 32, seen
n = 66
tuned[lambda meta: (1 + meta["HALF"], 1)](torch.empty(99, device="cuda"), n, None, KIND=tl.float16)
tuned[lambda meta: (triton.cdiv(640, meta["BLOCK"]), 17)](torch.empty(99, device="cuda"), n, None, KIND=tl.float16)
"""
    )
    found = recorded(tmp_path, program).launches
    assert [one.grids for one in found] == [
        ((2,), (1,)),
        ((20, 16), None),
        ((20, 17), (10, 33)),
        ((3, 4), (3, 4)),
        ((17, 1), (33, 1)),
    ]
    assert [one.count for one in found] == [1, 1, 2, 1, 1]
    assert found[2].memory and found[2].memory.storages == (256,)


MEASURED = """
@triton.jit
def many(x, y, pair, ends, wide, unknown, BLOCK: tl.constexpr): ...

held = torch.randn(4, 8, 6, device="cuda", dtype=torch.bfloat16)
ends = torch.tensor([[0, 3], [7, 9]], dtype=torch.int32, device="cuda")
wide = torch.arange(5000, device="cuda")
unknown = torch.randint(9, (600, 600), device="cuda")
for n in range(2):
    many[(1,)](held[:, 1:, ::2], held.view(torch.float16), (held.expand(2, 4, 8, 6), ends[:, 1] > 3), ends.T, wide,
               unknown, BLOCK=16)
"""


@needs_torch
def test_where_tensors_lie_stands_beside_the_launch(tmp_path: Path) -> None:
    """Shape, strides and offset in storages that some share; small integers' values in the order of
    their indices, also in a tuple; none of many integers, nor of those that nobody knows.
    """
    (one,) = recorded(tmp_path, MEASURED).launches
    assert one.count == 2 and one.grids is None and one.memory
    assert one.memory.storages == (384, 2, 16, 40_000, 8 * 600 * 600)
    held = one.memory.tensors
    assert held["x"] == Placed(0, (4, 7, 3), (48, 6, 2), 6) and held["y"] == Placed(
        0, (4, 8, 6), (48, 6, 1), 0
    )
    assert held["pair[0]"] == Placed(0, (2, 4, 8, 6), (0, 48, 6, 1), 0)
    assert held["pair[1]"] == Placed(1, (2,), (1,), 0, (0, 1))
    assert held["ends"] == Placed(2, (2, 2), (1, 2), 0, (0, 7, 3, 9))
    assert held["wide"].values is None and held["unknown"].values is None


@needs_torch
def test_a_configurations_hook_may_change_the_arguments(tmp_path: Path) -> None:
    """Each configuration is recorded with what its hook made of them."""
    program = """
    class Held:
        dtype = torch.float32
        def __init__(self): self.address = 16
        def data_ptr(self): return self.address
    def hook(args): args["x"].address = 8 if args["BLOCK"] == 32 else 16
    configs = [triton.Config({"BLOCK": b}, pre_hook=hook) for b in (32, 64)]
    hooked = triton.autotune(configs, [])(double)
    hooked[(1,)](Held(), 64)
    """
    found = recorded(tmp_path, program).launches
    assert sorted(one.launch.args["x"]["align"] for one in found) == [8, 16]


HOOKED = """
def hook(args): args["y"].zero_()
zeroed = triton.autotune([triton.Config({"BLOCK": b}, pre_hook=hook) for b in (32, 64)], ["n"],
                         reset_to_zero=["y"], restore_value=["x"])
seen = []
watched = triton.autotune([triton.Config({"BLOCK": b}) for b in (32, 64)], ["n"],
                          pre_hook=lambda args, reset_only=False: seen.append(args),
                          post_hook=lambda args, exception=None: seen.append(args))

@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(y + i, tl.load(x + i, mask=i < n), mask=i < n)

x, y = torch.ones(64, device="cuda"), torch.ones(64, device="cuda")
for n in (64, 64, 128):
    zeroed(add)[(1,)](x, y, n)
watched(add)[(1,)](x, y, n=8)
"""


@needs_torch
def test_an_autotuner_that_resets_and_restores_is_recorded(tmp_path: Path) -> None:
    """Its own hooks belong to timing, which nothing is here; those of a configuration run."""
    found = recorded(tmp_path, HOOKED).launches
    assert [(one.launch.args["n"]["int"], one.count) for one in found] == [
        (64, 2),
        (128, 1),
        (8, 1),
    ]
    assert all(len(one.launch.configs) == 2 for one in found)


HANDED = """
def scaled_by(k):
    @triton.jit
    def act(v): return v * k
    return act

@triton.jit
def act(v): return v + 1

@triton.jit
def chained(x, PAIR: tl.constexpr, last, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, act(last(PAIR[1](PAIR[0](tl.load(x + i))))))

@triton.jit
def none(BLOCK: tl.constexpr = 4): pass

x = torch.empty(64, device="cuda")
chained[(1,)](x, (scaled_by(tl.constexpr(2)), scaled_by(tl.constexpr(3))), act, BLOCK=64)
none[(1,)]()
"""


@needs_torch
def test_functions_among_the_arguments_keep_apart(tmp_path: Path) -> None:
    """Each by its own name in the cut-out module, also two of one name and those in a tuple."""
    chained, none = recorded(tmp_path, HANDED).launches
    assert chained.launch.args["PAIR"] == {
        "constexpr": {"tuple": [{"function": "act"}, {"function": "act_2"}]}
    }
    assert chained.launch.args["last"] == {"constexpr": {"function": "act_3"}}
    assert (
        chained.text
        and "return act_3(last(" not in chained.text
        and "act_3(last(PAIR[1](PAIR[0]" in chained.text
    )
    body = {
        name: chained.text.partition(f"def {name}(v):")[2].splitlines()[1]
        for name in ("act", "act_2", "act_3")
    }
    assert body == {
        "act": "    return v * k",
        "act_2": "    return v * k_2",
        "act_3": "    return v + 1",
    }
    assert none.launch.args == {}


DESCRIBED = """
from triton.tools.tensor_descriptor import TensorDescriptor
def block(args): args["x"].block_shape = [args["ROWS"], 64]

@triton.autotune([triton.Config({"ROWS": r}, pre_hook=block) for r in (16, 32)], [])
@triton.jit
def tiles(x, y, ROWS: tl.constexpr):
    tile = x.load([0, 0])
    tl.store(y + tl.arange(0, ROWS)[:, None] * 64 + tl.arange(0, 64)[None, :], tile)

x, y = torch.empty(128, 64, device="cuda", dtype=torch.float16), torch.empty(128, 64, device="cuda")
tiles[(1,)](TensorDescriptor.from_tensor(x, [1, 1]), y)
tiles[(1,)](TensorDescriptor.from_tensor(x, [1, 1], padding="nan"), y)
launch(torch.empty(64, dtype=torch.complex64, device="cuda"))
"""


@needs_torch
def test_a_tensor_descriptor_is_recorded_with_each_configurations_block(tmp_path: Path) -> None:
    """As the hook left it, and with what later releases can say of one; a tensor of no known dtype
    is `unknown`.
    """
    pytest.importorskip("triton.tools.tensor_descriptor")
    *found, odd = recorded(tmp_path, DESCRIBED).launches
    plain = {"dtype": "fp16", "align": 16, "shape": [128, 64], "strides": [64, 1]}
    assert [one.launch.args["x"]["descriptor"] for one in found] == [
        {**plain, "block": [rows, 64], **extra}
        for extra in ({}, {"padding": "nan"})
        for rows in (16, 32)
    ]
    assert odd.launch.args["x"] == {"unknown": "tensor of complex64"}
    assert [one.memory.tensors["x"] for one in found if one.memory] == [
        Placed(0, (128, 64), (64, 1), 0)
    ] * 4


CUT = """
import enum, types
OUTER = tl.constexpr(7)
FACTOR = tl.constexpr(float("inf"))
class Kind(enum.IntEnum):
    RELU = 1
other = types.ModuleType("other")
exec("import triton, triton.language as tl\\n", other.__dict__)
exp = tl.exp

@triton.jit
def act(x, KIND: tl.constexpr):
    return exp(x) if KIND == 1 else -x

def make(k):
    @triton.jit
    def inner(x, n: tl.int64, KIND: tl.constexpr, BLOCK: tl.constexpr = 64):
        i = tl.arange(0, BLOCK)
        v = tl.load(x + i).to(tl.float32)
        tl.store(x + i, act(v, KIND) * k + OUTER + tl.where(v < FACTOR, v, 0.0))
    return inner

make(tl.constexpr(3))[(1,)](torch.empty(64, device="cuda"), 64, Kind.RELU)
"""


@needs_torch
def test_a_kernel_is_cut_out_with_all_that_it_uses(tmp_path: Path) -> None:
    """Helpers, constants, closures, aliases: one module that imports only triton, and that is
    admitted.
    """
    found = recorded(tmp_path, CUT)
    (source,) = sources(found.launches)
    text = source.kernel.origin.source
    assert source.kernel.name == "program:make.inner" and source.kernel.origin.qualname == "inner"
    assert (
        text.startswith("import triton\nimport triton.language as tl\n")
        and text.count("import") == 2
    )
    assert "k = tl.constexpr(3)" in text and "tl.exp(x)" in text and 'float("inf")' in text
    assert found.launches[0].launch.args["KIND"] == {"constexpr": 1}


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
    found = recorded(tmp_path, TRAINING)
    assert {(one.launch.args["n"]["int"], one.count) for one in found.launches} == {(1, 2), (2, 2)}


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
    """Zeros stand for the gradient of an unused tensor, None for that of None: kernels are chosen
    by it.
    """
    recorded(tmp_path, OUTPUTS)


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
F.scaled_dot_product_attention(fresh(1, 2, 8, 16), fresh(1, 2, 8, 16), fresh(1, 2, 8, 16)).sum().backward()
torch.func.grad(lambda t: (t * t).sum())(torch.randn(3, device="cuda"))
"""


@needs_torch
def test_the_autograd_engine_does_as_torchs(tmp_path: Path) -> None:
    """Checkpoints, hooks, retained and second gradients, unused inputs."""
    recorded(tmp_path, ENGINE)


VALUES = """
cu = torch.cat([torch.tensor([0]), torch.arange(16, 64)[torch.randperm(48)[:3]], torch.tensor([64])]).cuda().sort()[0]
lengths = cu[1:] - cu[:-1]
assert cu.tolist()[0] == 0 and int(lengths.sum()) == 64 and lengths.max().item() == max(lengths.tolist())
chunks = torch.cat([torch.arange(n) for n in ((lengths + 15) // 16).tolist()])
assert int(chunks.eq(0).sum()) == 4 and (lengths > 0).nonzero().shape == (4, 1)
lengths[0] = 5
assert lengths.tolist()[0] == 5
lengths.copy_(torch.randn(4).cuda())
x = torch.randn(4, device="cuda")
assert x.item if x.sum().item() == 0.0 else False
assert torch.allclose(x, x + 1) and x[x > 0].shape == (4,) and x.cpu().detach().numpy().shape == (4,)
launch(torch.empty(lengths.numel(), device="cuda"), int(cu[1]) - int(cu[1]) + 9)
"""


@needs_torch
def test_small_integers_have_values(tmp_path: Path) -> None:
    """`cu_seqlens.tolist()` is what the program put there; floats are never computed."""
    (one,) = recorded(tmp_path, VALUES).launches
    assert one.launch.args["n"] == {"int": 9}


GUESSES = """
def longest(x): return int(x.to(torch.int32).max())
def checked(x): assert torch.isfinite(x).all()
def attention(x, n=1):
    launch(x, n)
    checked(x)
    launch(x, n + 1)

x = torch.randn(64, device="cuda")
exec(compile("def read(x): return x.sum().item()", "helper", "exec"), {"__name__": "helper"}, helper := {})
helper["read"](x)
launch(x, 1)
torch.utils.data.DataLoader(range(4), shuffle=True).__iter__()
launch(x, 2)
n = longest(x)
launch(x, n + 9)
x.cpu().numpy(); x[x > 0]
"""


@needs_torch
def test_a_launch_that_may_rest_on_a_made_up_value_says_so(tmp_path: Path) -> None:
    """As long as the package that read it runs on; what another package read and kept to itself
    marks nothing.
    """
    found = recorded(tmp_path, GUESSES)
    lines = (PRELUDE + textwrap.dedent(GUESSES)).splitlines()
    at = f"program:{1 + next(i for i, line in enumerate(lines) if 'int(x.to' in line)}"
    assert [(one.launch.args["n"]["int"], one.guessed) for one in found.launches] == [
        (1, None),
        (2, None),
        (10, at),
    ]
    assert found.end and found.end["guesses"]["launches"] == 1
    last = f"program:{len(lines)}"
    assert (
        found.end["guesses"]["at"] == {"helper:1": 1, at: 1, last: 2}
        and found.end["guesses"]["total"] == 4
    )


@needs_torch
def test_guesses_of_a_function_that_returned_mark_nothing(tmp_path: Path) -> None:
    """Another package's function is over when it returns, and the guess with it."""
    program = """
    helper = {"__name__": "helper", "launch": launch}
    exec("def run(x, n):\\n    n += int(x.sum())\\n    launch(x, n)", helper)
    x = torch.randn(64, device="cuda")
    helper["run"](x, 5)
    launch(x, 6)
    """
    found = recorded(tmp_path, program)
    assert [(one.launch.args["n"]["int"], one.guessed) for one in found.launches] == [
        (5, "helper:2"),
        (6, None),
    ]


LOADED = """
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return {"ids": torch.arange(i, i + 3), "x": torch.randn(3), "i": i}
def child(queue): queue.put((torch.nn.Parameter(torch.ones(2, device="cuda")), torch.zeros(0, dtype=torch.bfloat16)))

if __name__ == "__main__":
    seen = []
    for batch in DataLoader(Rows(), batch_size=2, shuffle=True, num_workers=1, pin_memory=True):
        ids = batch["ids"].to("cuda", non_blocking=True)
        assert batch["x"].shape == (2, 3) and batch["i"].tolist() == ids[:, 0].tolist()
        seen += batch["i"].tolist()
        launch(batch["x"].cuda(), int(ids.sum()) * 0 + 7)
    assert sorted(seen) == [0, 1, 2, 3]
    import torch.multiprocessing as mp
    context = mp.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    parameter, empty = queue.get()
    process.join()
    assert isinstance(parameter, torch.nn.Parameter) and parameter.requires_grad and parameter.device.type == "cuda"
    assert parameter.tolist() == [1.0, 1.0] and empty.dtype is torch.bfloat16
    import pickle
    again = pickle.loads(pickle.dumps(ids.t()))
    assert again.tolist() == ids.t().tolist() and again.stride() == ids.t().stride()
"""


@needs_torch
def test_batches_come_from_the_workers_of_a_data_loader(tmp_path: Path) -> None:
    """Tensors travel between processes with their form, and with their values where there are any."""
    (one,) = recorded(tmp_path, LOADED).launches
    assert (one.launch.args["n"], one.count, one.guessed) == ({"int": 7}, 2, None)


PLACED = """
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
assert x.to(torch.float16).dtype is torch.float16 and x.to(torch.zeros(1, dtype=torch.float64)).device.type == "cpu"
@torch.jit.script
def scripted(x: torch.Tensor): return torch.zeros(2, device=x.device) + torch.ones_like(x).to(x.device)
assert scripted(x).device == x.device
assert torch.zeros_like(torch.zeros(2), device=0).device == torch.arange(3, device="cuda").device == x.device
"""


@needs_torch
def test_a_tensor_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    """A device by any of its names, also by its number: what is on it already is not copied."""
    recorded(tmp_path, PLACED)


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
    """As the one that pins a DataLoader's batches does beside the program's own."""
    found = recorded(tmp_path, THREADS)
    assert sorted(one.launch.args["n"]["int"] for one in found.launches) == [2, 3, 4, 5]


COPIED = """
import copy
model = torch.nn.BatchNorm1d(4).cuda()
model.weight.no_decay = ["yes"]
model(torch.randn(8, 4, device="cuda")).sum().backward()
model.tied = model.weight
twin = copy.deepcopy(model)
assert twin.tied is twin.weight and twin.weight is not model.weight and isinstance(twin.weight, torch.nn.Parameter)
assert twin.weight.no_decay == ["yes"] and twin.weight.no_decay is not model.weight.no_decay
assert twin.weight.grad.shape == (4,) and twin.bias.requires_grad and twin.bias.device.type == "cuda"
assert twin.num_batches_tracked.item() == 1
model.num_batches_tracked += 1
assert twin.num_batches_tracked.item() == 1 and model.num_batches_tracked.item() == 2
try:
    copy.deepcopy(model.weight * 2)
    raise SystemExit("only leaves can be copied")
except RuntimeError:
    pass
"""


@needs_torch
def test_a_model_can_be_copied(tmp_path: Path) -> None:
    """As for an average of its weights: parameters, gradients, buffers with their values, what is
    hung on them.
    """
    recorded(tmp_path, COPIED)


SAVED = """
import io, pickle
model = torch.nn.BatchNorm1d(4).cuda()
torch.save({"model": model.state_dict(), "step": 3}, "checkpoint.pt")
found = torch.load("checkpoint.pt", map_location="cpu", weights_only=True)
assert found["step"] == 3 and {t.device.type for t in found["model"].values()} == {"cpu"}
model.load_state_dict(found["model"])
buffer = io.BytesIO()
torch.save(model, buffer)
buffer.seek(0)
assert torch.load(buffer, weights_only=False).weight.device.type == "cuda"
buffer.seek(0)
try:
    torch.load(buffer)
    raise SystemExit("a whole model is more than weights")
except pickle.UnpicklingError:
    pass
with open("real.pt", "rb") as file:
    assert torch.load(file, map_location="cuda")["x"].shape == (3,)
"""


@needs_torch
def test_what_a_program_saves_it_can_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own checkpoints, and those that torch wrote elsewhere."""
    import torch

    monkeypatch.chdir(tmp_path)
    torch.save({"x": torch.ones(3)}, tmp_path / "real.pt")
    recorded(tmp_path, SAVED)


ASSERTIONS = """
import numpy
x = torch.randn(2000, 300, device="cuda")
y = x + 1
assert not torch.isnan(x).any() and not x.isinf().any() and x.isfinite().all() and not (x != x).any()
assert torch.isnan(x).sum().item() == 0 and x[torch.isnan(x)].numel() == 0
assert x[~torch.isnan(x)].numel() == x[x > 0].numel() == 600000
torch.testing.assert_close(x, y)
assert torch.allclose(x, y) and torch.equal(x, y) and torch.isclose(x, y).all()
assert (x - y).abs().max() < 1e-3 and not (torch.tensor([1.0, float("nan")]) == 1.0).all()
numpy.testing.assert_allclose(x.cpu().numpy(), y.cpu().numpy())
assert torch.isnan(torch.tensor([1.0, float("nan")], device="cuda")).any()
"""


@needs_torch
def test_what_nobody_computed_is_as_it_should_be(tmp_path: Path) -> None:
    """A program's assertions on what its kernels computed hold; those on values that are known are
    real.
    """
    recorded(tmp_path, ASSERTIONS)


OUT_OF_RANGE = """
host, indices = torch.arange(5), torch.tensor([7])
refused = 0
for wrong in (lambda: host[indices], lambda: host.take(indices), lambda: host.index_fill(0, indices, 1)):
    try:
        wrong()
    except IndexError:
        refused += 1
launch(torch.empty(64, device="cuda"), refused)
launch(host.cuda()[indices.cuda()], 8)
"""


@needs_torch
def test_an_index_out_of_range_is_the_programs_own_error(tmp_path: Path) -> None:
    """In the host's memory; the card would go on, and a kernel may have written what indexes there."""
    found = recorded(tmp_path, OUT_OF_RANGE)
    assert [one.launch.args["n"]["int"] for one in found.launches] == [3, 8]


WRITTEN = """
from flacheck_guest.fake_cuda.known_values import value_of
offsets = torch.tensor([0, 5, 64], device="cuda")
filled, count, state = torch.empty(4, dtype=torch.int32, device="cuda").fill_(7), torch.empty_like(offsets), \\
    torch.empty(4, device="cuda").fill_(float("nan"))
@triton.jit
def several(a, b, c, d, n): pass
several[(1,)](offsets, filled, count, d=state, n=1)
assert offsets.tolist() == [0, 5, 64] and filled.tolist() == [7] * 4
assert value_of(count) is None and value_of(state) is None
with torch.inference_mode():
    inner = torch.cat([torch.tensor([0]), torch.tensor([3, 9]).cumsum(0)]).to("cuda")
    several[(1,)](inner, torch.empty_like(inner), inner[1:], d=state, n=2)
    assert inner.tolist() == [0, 3, 12] and inner.to(torch.int32).max().item() == 12
"""


@needs_torch
def test_a_launch_forgets_what_it_may_have_written(tmp_path: Path) -> None:
    """Floats and fresh memory are unknown afterwards; offsets that the program made stay."""
    recorded(tmp_path, WRITTEN)


SHORTCUT = """
from flacheck_guest.fake_cuda.shortcut import Shortcut
asked = []
def form(t): return t.shape, t.stride(), t.dtype, t.device, t.untyped_storage().size()
def computed(x, half, i):
    w = x.transpose(0, 1)
    parts = [x * 2, i * 2, i * 2.0, x + half, w @ x, w.exp(), x.sum(-1, keepdim=True), x.to(torch.float64), x.half(),
             x[1], x[:, 1:], x.view(-1), x[None].expand(3, -1, -1), torch.softmax(x, -1), torch.where(x > 0, x, 0.0),
             x.to(memory_format=torch.contiguous_format), x.contiguous(), w.contiguous(), x.to("cpu"), *x.unbind(0)]
    return parts
x, half = torch.randn(4, 4, device="cuda"), torch.randn(4, device="cuda", dtype=torch.float16)
i = torch.arange(1 << 20, device="cuda")
first, again = computed(x, half, i), computed(x, half, i)
Shortcut.__call__ = lambda self, operator, args, kwargs: asked.append(operator) or operator(*args, **kwargs)
plain = computed(x, half, i)
assert asked and [form(t) for t in first] == [form(t) for t in again] == [form(t) for t in plain]
for one, other in zip(again, plain):
    assert (one.data_ptr() == x.data_ptr()) == (other.data_ptr() == x.data_ptr())
    assert one.is_contiguous() == other.is_contiguous()
"""


@needs_torch
def test_the_shortcut_gives_what_the_fake_mode_gives(tmp_path: Path) -> None:
    """Shapes, strides, dtypes, devices and shared memory, the first time and the next."""
    recorded(tmp_path, SHORTCUT)


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
    """They run what they are given, and the device says the same everywhere."""
    found = recorded(tmp_path, HARMLESS, device="b200")
    assert sorted(one.launch.args["n"]["int"] for one in found.launches) == [1, 2, 3, 4]


STAND_IN = """
import triton.runtime.autotuner as tuner, triton.runtime.jit as jit
ran = []
def run(self, *args, grid=None, warmup=False, **kwargs):
    ran.append(kwargs["BLOCK"])
def bench(self, *args, config, **meta):
    self.fn.run(*args, **meta, **config.all_kwargs())
    return [1.0, 1.0, 1.0]
jit.JITFunction.run, tuner.Autotuner._bench = run, bench
"""
ARM = """
import importlib.util, runpy, sys
from pathlib import Path
import stand_in
guest, output, script = sys.argv[1:]
spec = importlib.util.spec_from_file_location("guest", guest + "/__init__.py", submodule_search_locations=[guest])
sys.modules["guest"] = importlib.util.module_from_spec(spec)
from guest import recorder as capture
with capture.session(capture.Settings(output)) as recorder:
    runpy.run_path(script, run_name="__main__")
assert recorder.calls == 1 and stand_in.ran == [32, 64, 32], stand_in.ran
"""


@needs_torch
def test_on_a_real_device_a_launch_is_written_and_goes_on(tmp_path: Path) -> None:
    """An autotuner's run is one line, however often it launches; the tensors are the program's own."""
    files = {
        "stand_in.py": STAND_IN,
        "arm.py": ARM,
        "program.py": PRELUDE + AUTOTUNED.replace('"cuda"', '"cpu"'),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    output = tmp_path / "l.jsonl"
    command = [sys.executable, tmp_path / "arm.py", GUEST, output, tmp_path / "program.py"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (one,) = read(output).launches
    assert one.launch.args["x"] == {"dtype": "fp32", "align": 16} and len(one.launch.configs) == 2


@needs_torch
def test_an_untested_torch_is_refused_with_a_remedy(tmp_path: Path) -> None:
    """Rather a clear message than a crash inside torch."""
    from flacheck.guest.fake_cuda.device import UntestedTorch, check

    check("2.13.0+cpu")
    with pytest.raises(
        UntestedTorch,
        match=r"tested with torch 2\.11\.x and 2\.13\.x, and this is torch 2\.1\.0.*--device real",
    ):
        check("2.1.0")
