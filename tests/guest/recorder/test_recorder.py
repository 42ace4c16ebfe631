"""An operator of torch.library is called like a function, and so are its callers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flacheck.subjects.captures.capture_job import GUEST
from flacheck.subjects.inputs.launches import TensorPlacement, read, sources
from tests.captured import AUTOTUNED, needs_torch, recorded, written


@needs_torch
def test_a_launch_is_recorded_with_what_was_passed(tmp_path: Path) -> None:
    """The dtypes, real alignment, numbers, constants, options and grid; equal launches counted."""
    program = """
    x = torch.randn(256, device="cuda")
    for _ in range(3): launch(x[1:], num_warps=2)
    """
    file = recorded(tmp_path, program)
    (one,) = file.launches
    assert one.launch.to_json() == {
        "args": {"x": {"dtype": "fp32", "align": 4}, "n": {"int": 64}, "BLOCK": {"constexpr": 64}}
    }
    assert one.kernel == "program:double"
    assert one.options == {"num_warps": 2}
    assert (one.grid, one.count) == ((1,), 3)
    assert file.header["device"] == "NVIDIA H200"
    assert file.header["torch"]


@needs_torch
def test_a_launch_that_triton_refuses_by_its_names_is_none(tmp_path: Path) -> None:
    """A name that is neither a parameter's nor an option's, and constants collected in `**meta`, end
    the call as they do on a card; the next launch is recorded.
    """
    program = """
import pytest
def old(x, **meta):
    tl.store(x, meta["BLOCK"])
x = torch.zeros(8, device="cuda")
with pytest.raises(KeyError, match="BLOK was specified but unrecognised"):
    double[(1,)](x, 8, BLOCK=64, BLOK=32)
with pytest.raises(TypeError, match="meta"):
    triton.jit(old)[(1,)](x, BLOCK=64)
double[(1,)](x, 8, BLOCK=64, num_ctas=1, maxnreg=128)
"""
    (launch,) = recorded(tmp_path, program).launches
    assert (launch.kernel, launch.count) == ("program:double", 1)
    assert launch.options == {"num_ctas": 1, "maxnreg": 128}


@needs_torch
def test_a_grid_has_three_extents_at_most(tmp_path: Path) -> None:
    """Triton ignores further extents, and a launches file cannot hold them."""
    x = 'torch.zeros(8, device="cuda")'
    (launch,) = recorded(tmp_path, f"double[(2, 3, 4, 5)]({x}, 8, BLOCK=64)").launches
    assert launch.grid == (2, 3, 4)


@needs_torch
def test_an_autotuner_run_is_one_line_with_its_configurations(tmp_path: Path) -> None:
    """The list is pruned as the tuner would; heuristics above the tuner are listed apart."""
    (one,) = recorded(tmp_path, AUTOTUNED).launches
    assert [config["kwargs"] for config in one.launch.configs] == [
        {"BLOCK": 32, "HALF": 16},
        {"BLOCK": 64, "HALF": 32},
    ]
    assert (one.launch.keys, one.launch.omitted) == (("n",), ("BLOCK", "EVEN", "HALF"))
    assert one.heuristics == {"EVEN": {"constexpr": True}}
    assert one.launch.args["KIND"] == {"constexpr": {"dtype": "fp16"}}
    assert one.launch.args["nothing"] is None
    assert one.grid == (2,)


@needs_torch
def test_each_configurations_grid_stands_beside_the_launch(tmp_path: Path) -> None:
    """A grid is evaluated with the configuration's constants and the values of heuristics.

    A grid that raises is unknown. Equal launches share one line, whatever their grids.
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
assert seen[-1] == 32, seen
assert tuned.fn.best_config.kwargs["BLOCK"] == 32
y = torch.empty(99, device="cuda")
tuned[lambda meta: (1 + meta["HALF"], 1)](y, 66, None, KIND=tl.float16)
tuned[lambda meta: (triton.cdiv(640, meta["BLOCK"]), 17)](y, 66, None, KIND=tl.float16)
"""
    )
    launches = recorded(tmp_path, program).launches
    assert [one.grids for one in launches] == [
        ((2,), (1,)),
        ((20, 16), None),
        ((20, 17), (10, 33)),
        ((3, 4), (3, 4)),
        ((17, 1), (33, 1)),
    ]
    assert [one.count for one in launches] == [1, 1, 2, 1, 1]
    assert launches[2].memory is not None
    assert launches[2].memory.storages == (256,)


PLACES = """
@triton.jit
def many(x, y, pair, ends, wide, unknown, BLOCK: tl.constexpr): ...

held = torch.randn(4, 8, 6, device="cuda", dtype=torch.bfloat16)
ends = torch.tensor([[0, 3], [7, 9]], dtype=torch.int32, device="cuda")
wide = torch.arange(5000, device="cuda")
unknown = torch.randint(9, (600, 600), device="cuda")
pair = (held.expand(2, 4, 8, 6), ends[:, 1] > 3)
for n in range(2):
    many[(1,)](held[:, 1:, ::2], held.view(torch.float16), pair, ends.T, wide, unknown, BLOCK=16)
"""


@needs_torch
def test_where_tensors_lie_stands_beside_the_launch(tmp_path: Path) -> None:
    """A line has the shape, strides and offset of tensors in storages, and the values of a few
    small integers in the order of their indices, also in a tuple."""
    (one,) = recorded(tmp_path, PLACES).launches
    assert one.count == 2
    assert one.grids is None
    assert one.memory is not None
    assert one.memory.storages == (384, 2, 16, 40_000, 8 * 600 * 600)
    tensors = one.memory.tensors
    assert tensors["x"] == TensorPlacement(0, (4, 7, 3), (48, 6, 2), 6)
    assert tensors["y"] == TensorPlacement(0, (4, 8, 6), (48, 6, 1), 0)
    assert tensors["pair[0]"] == TensorPlacement(0, (2, 4, 8, 6), (0, 48, 6, 1), 0)
    assert tensors["pair[1]"] == TensorPlacement(1, (2,), (1,), 0, (0, 1))
    assert tensors["ends"] == TensorPlacement(2, (2, 2), (1, 2), 0, (0, 7, 3, 9))
    assert tensors["wide"].values is None
    assert tensors["unknown"].values is None


@needs_torch
def test_a_configurations_hook_may_change_the_arguments(tmp_path: Path) -> None:
    """Each configuration is recorded with the arguments that its hook made."""
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
    launches = recorded(tmp_path, program).launches
    assert sorted(one.launch.args["x"]["align"] for one in launches) == [8, 16]


HOOK = """
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
    """The tuner's own hooks only serve timing and are skipped; a configuration's hooks run."""
    launches = recorded(tmp_path, HOOK).launches
    assert [(one.launch.args["n"]["int"], one.count) for one in launches] == [
        (64, 2),
        (128, 1),
        (8, 1),
    ]
    assert [len(one.launch.configs) for one in launches] == [2, 2, 2]


OWN_TUNER = """
class Own(triton.runtime.Autotuner):
    def run(self, *args, **kwargs):
        for config in self.configs:
            self.fn.run(*args, **kwargs, **config.all_kwargs())

@triton.jit
def filled(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), n)

configs = [triton.Config({"BLOCK": b}) for b in (32, 64)]
tuned = triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})(
    Own(filled, filled.arg_names, configs, ["n"], None, None))
tuned[(1,)](torch.empty(64, device="cuda"), 8)
"""


@needs_torch
def test_what_a_programs_own_tuner_adds_belongs_to_the_launch(tmp_path: Path) -> None:
    """The value of its constants is stored with the launch, below heuristics as well."""
    launches = recorded(tmp_path, OWN_TUNER).launches
    assert [one.launch.args["BLOCK"]["constexpr"] for one in launches] == [32, 64]
    assert [one.launch.omitted for one in launches] == [("EVEN",), ("EVEN",)]
    assert all(one.heuristics == {"EVEN": {"constexpr": True}} for one in launches)


ARGUMENTS = """
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
    """Each function has its own name in the cut module, also two of one name and in tuples."""
    with_chain, none = recorded(tmp_path, ARGUMENTS).launches
    assert with_chain.launch.args["PAIR"] == {
        "constexpr": {"tuple": [{"function": "act"}, {"function": "act_2"}]}
    }
    assert with_chain.launch.args["last"] == {"constexpr": {"function": "act_3"}}
    assert with_chain.text is not None
    assert "return act_3(last(" not in with_chain.text
    assert "act_3(last(PAIR[1](PAIR[0]" in with_chain.text
    body = {
        name: with_chain.text.partition(f"def {name}(v):")[2].splitlines()[1]
        for name in ("act", "act_2", "act_3")
    }
    assert body == {
        "act": "    return v * k",
        "act_2": "    return v * k_2",
        "act_3": "    return v + 1",
    }
    assert none.launch.args == {}


DESCRIPTORS = """
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
    """A descriptor is recorded as the hook leaves it, with the fields of later releases; an
    unfamiliar dtype is `unknown`."""
    pytest.importorskip("triton.tools.tensor_descriptor")
    *launches, odd = recorded(tmp_path, DESCRIPTORS).launches
    plain = {"dtype": "fp16", "align": 16, "shape": [128, 64], "strides": [64, 1]}
    assert [one.launch.args["x"]["descriptor"] for one in launches] == [
        {**plain, "block": [rows, 64], **extra}
        for extra in ({}, {"padding": "nan"})
        for rows in (16, 32)
    ]
    assert odd.launch.args["x"] == {"unknown": "tensor of complex64"}
    assert [one.memory.tensors["x"] for one in launches if one.memory] == [
        TensorPlacement(0, (128, 64), (64, 1), 0)
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
    """The module imports only triton, and its source is admitted."""
    file = recorded(tmp_path, CUT)
    (source,) = sources(file.launches)
    text = source.kernel.origin.source
    assert source.kernel.name == "program:make.inner"
    assert source.kernel.origin.qualname == "inner"
    assert text.startswith("import triton\nimport triton.language as tl\n")
    assert text.count("import") == 2
    assert "k = tl.constexpr(3)" in text
    assert "tl.exp(x)" in text
    assert 'float("inf")' in text
    assert file.launches[0].launch.args["KIND"] == {"constexpr": 1}


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
spec = importlib.util.spec_from_file_location(
    "guest", guest + "/__init__.py", submodule_search_locations=[guest])
sys.modules["guest"] = importlib.util.module_from_spec(spec)
from guest.recorder.session import Settings, session
with session(Settings(output)) as recorder:
    runpy.run_path(script, run_name="__main__")
assert recorder.calls == 1
assert stand_in.ran == [32, 64, 32], stand_in.ran
"""


@needs_torch
def test_on_a_real_device_a_launch_is_written_and_goes_on(tmp_path: Path) -> None:
    """An autotuner's run is one line, however often it launches, with the program's own tensors."""
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    (tmp_path / "arm.py").write_text(ARM)
    program = written(tmp_path, AUTOTUNED.replace('"cuda"', '"cpu"'))
    output = tmp_path / "l.jsonl"
    command = [sys.executable, tmp_path / "arm.py", GUEST, output, program]
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    (one,) = read(output).launches
    assert one.launch.args["x"] == {"dtype": "fp32", "align": 16}
    assert len(one.launch.configs) == 2
