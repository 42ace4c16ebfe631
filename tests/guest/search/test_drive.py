"""Driving a whole package.

Its operators and layers are called with invented arguments on a fake GPU.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from flacheck.engine import programs
from flacheck.errors import IncompleteError
from flacheck.model import Json
from flacheck.source.packages.package import Package
from flacheck.subjects.captures import capture_job
from flacheck.subjects.captures.cards import card
from flacheck.subjects.inputs.launches import Launches, read
from flacheck.toolchains.base import Toolchain

pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "triton"))),
    reason="needs torch and triton: pip install .[torch]",
)
Driven = tuple[Launches, dict[str, Any]]

KERNELS = """
import torch, triton, triton.language as tl

@triton.jit
def scale(x, y, g, T, K: tl.constexpr): ...

@triton.jit
def scale_back(dy, dx, T, K: tl.constexpr): ...

@triton.jit
def packed(x, y, lengths, T, K: tl.constexpr): ...

@triton.jit
def rare(x, y, K: tl.constexpr): ...
"""
OPS = '''
from __future__ import annotations
import torch
# A torch without CUDA lacks it; launchers import it.
from torch._C import _cuda_getCurrentRawStream as stream
from tiny.kernels import packed, rare, scale, scale_back

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, g):
        B, T, H, K = x.shape
        assert g.shape == (B, T, H), "g must have the shape [B, T, H]"
        y = torch.empty_like(x)
        scale[(B, T)](x, y, g, T, K=K)
        return y

    @staticmethod
    def backward(ctx, dy):
        dx = torch.empty_like(dy)
        scale_back[(dy.shape[0],)](dy, dx, dy.shape[1], K=dy.shape[-1])
        return dx, None

def documented(x: torch.Tensor, g: torch.Tensor, cu_seqlens: torch.LongTensor | None = None,
               use_rare: bool = False):
    """Scale.

    Args:
        x (torch.Tensor): of shape `[B, T, H, K]`.
        g (torch.Tensor): gate of shape `[B, T, H]`.
    """
    if use_rare:
        rare[(1,)](x, x, K=x.shape[-1])
    if cu_seqlens is not None:
        if x.shape[0] != 1:
            raise ValueError("one batch")
        assert len(cu_seqlens.tolist()) > 2
        packed[(1,)](x, torch.empty_like(x), cu_seqlens, x.shape[1], K=x.shape[-1])
    return Scale.apply(x, g)

def told_by_its_error(x: torch.Tensor, weight: torch.Tensor):
    assert weight.shape == x.shape, "weight must have the shape of x"
    rare[(1,)](x, weight, K=x.shape[-1])

def harmless(x: torch.Tensor):
    return x + 1
'''
LAYER = """
import torch
from tiny.ops import documented

class Gate(torch.nn.Module):
    def __init__(self, hidden_size: int = 128, num_heads: int = 4):
        super().__init__()
        self.heads = num_heads
        self.project = torch.nn.Linear(hidden_size, hidden_size)
        self.gate = torch.nn.Linear(hidden_size, num_heads)

    def forward(self, hidden_states):
        x = self.project(hidden_states)
        return documented(x.view(*x.shape[:2], self.heads, -1), self.gate(hidden_states))
"""


def package(folder: Path, **files: str) -> Path:
    """A package `tiny` with some modules."""
    (folder / "tiny").mkdir()
    for name, text in {"__init__": "", **files}.items():
        (folder / "tiny" / f"{name}.py").write_text(text)
    return folder


def driven(folder: Path, recipe: dict[str, Any] | None = None, **more: Any) -> Driven:
    """Return the driver's records of `tiny` and its report."""
    config = {
        "output": str(folder / "l.jsonl"),
        "report": str(folder / "r.json"),
        "card": card("h100"),
        "modules": ["tiny"],
        "package": "tiny==1.0",
        "packages": {str(folder): "tiny==1.0"},
        "recipe": recipe or {},
        "dtypes": ["bf16", "fp32"],
        "seconds": 40,
        **more,
    }
    output, report = Path(config["output"]), Path(config["report"])
    output.write_text("")
    # Each guest has a new folder, also where one package is driven twice.
    scratch = Path(tempfile.mkdtemp(dir=folder))
    command = [sys.executable, *programs.guest_arguments(".search", config, scratch)]
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths, "TORCHDYNAMO_DISABLE": "1"}, check=True
    )
    return read(output), json.loads(report.read_text())


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Driven:
    """Return the whole package, driven once."""
    folder = tmp_path_factory.mktemp("drive")
    return driven(
        package(folder, kernels=KERNELS, ops=OPS, layers=LAYER, broken="import nothing_\n")
    )


def test_every_kernel_is_recorded(tiny: Driven) -> None:
    """Kernels of forward, backward, packed sequences and behind a flag are recorded."""
    kernels = {one.kernel for one in tiny[0].launches}
    assert kernels == {
        "tiny.kernels:scale",
        "tiny.kernels:scale_back",
        "tiny.kernels:packed",
        "tiny.kernels:rare",
    }
    assert {one.package for one in tiny[0].launches} == {"tiny==1.0"}


def test_every_dtype_is_called(tiny: Driven) -> None:
    """A call that launches in the first dtype is made in the others."""
    launches_of_scale = [one for one in tiny[0].launches if one.kernel == "tiny.kernels:scale"]
    assert {one.launch.args["x"]["dtype"] for one in launches_of_scale} == {"bf16", "fp32"}


def test_shapes_come_from_the_documentation(tmp_path: Path) -> None:
    """The first call of the operator works with the shapes of its docstring."""
    _, report = driven(package(tmp_path, kernels=KERNELS, ops=OPS))
    entry = report["operators"]["tiny.ops:documented"]
    assert "plain" in entry["worked"]
    assert "plain" not in entry["failures"]


def test_shapes_come_from_errors(tiny: Driven) -> None:
    """The errors of an operator without documentation lead to its shapes."""
    entry = tiny[1]["operators"]["tiny.ops:told_by_its_error"]
    assert "plain" in entry["worked"]
    assert entry["launches"] > 0


def test_layers_are_built_and_called(tiny: Driven) -> None:
    """The constructor has its defaults."""
    assert "plain" in tiny[1]["operators"]["tiny.layers:Gate"]["worked"]


def test_operators_without_kernels_are_left_alone(tiny: Driven) -> None:
    """An operator that leads to no launch is not called."""
    assert "tiny.ops:harmless" not in tiny[1]["operators"]


def test_a_module_that_cannot_be_imported_is_noted(tiny: Driven) -> None:
    """The other modules are driven."""
    assert list(tiny[1]["modules"]) == ["tiny.broken"]
    error = tiny[1]["modules"]["tiny.broken"]
    assert "ModuleNotFoundError: No module named 'nothing_'" in error


def test_a_package_that_cannot_be_imported_is_reported(tmp_path: Path) -> None:
    """The report has the error's message and its whole traceback."""
    folder = package(
        tmp_path,
        __init__="from tiny import other\n",
        other="raise ValueError('key contains names')\n",
    )
    launches, report = driven(folder)
    assert launches.launches == ()
    error = report["import_error"]
    assert (error["type"], error["text"]) == ("ValueError", "key contains names")
    assert "other.py" in error["traceback"]


def test_a_package_with_an_old_module_of_torchs_can_be_captured(tmp_path: Path) -> None:
    """The newer release in torch's environment serves both."""
    folder = package(tmp_path, kernels=KERNELS, ops=OPS)
    (folder / "typing_extensions.py").write_text("raise ImportError('too old')\n")
    launches, report = driven(folder)
    assert "import_error" not in report
    assert "tiny.kernels:scale" in {one.kernel for one in launches.launches}


UNGUESSABLE = """
import torch
from tiny.kernels import rare

def odd(x, table, how):
    assert x.shape == (6, 10) and table.dtype == torch.int32 and how == "so"
    rare[(1,)](x, table, K=16)
"""


def test_a_recipe_teaches_shapes_dtypes_and_values(tmp_path: Path) -> None:
    """A recipe supplies shapes that names, docs and errors do not."""
    recipe = {
        "shapes": {"x": [6, "S+4"], "table": [4]},
        "sizes": {"S": 6},
        "dtypes": {"table": "i32"},
        "values": {"how": "so"},
    }
    launches, report = driven(
        package(tmp_path, kernels=KERNELS, ops=UNGUESSABLE), {"operators": {"*:odd": recipe}}
    )
    assert report["operators"]["tiny.ops:odd"]["failures"] == {}
    assert {one.launch.args["y"]["dtype"] for one in launches.launches} == {"i32"}


PATIENT = """
import time
import torch
from tiny.kernels import rare

def patient(x: torch.Tensor):
    before = time.monotonic()
    time.sleep(2)
    assert time.monotonic() - before < 2
    rare[(1,)](x, x, K=16)
"""


def test_a_package_that_waits_does_not_take_time(tmp_path: Path) -> None:
    """Retries of a download sleep between two attempts."""
    launches, _ = driven(package(tmp_path, kernels=KERNELS, ops=PATIENT))
    assert {each.kernel for each in launches.launches} == {"tiny.kernels:rare"}


SLOW = """
import time
import torch
from tiny.kernels import rare

clock, passed = time.monotonic, []

def slow(x: torch.Tensor):
    for _ in range(3):
        rare[(1,)](x, x, K=16)
        passed.append(10.0)
        time.monotonic = lambda: clock() + sum(passed)
"""


def test_repetitions_are_counted_in_one_line_however_long_a_call_takes(tmp_path: Path) -> None:
    """Two captures of one package have equal lines on a fast and on a busy machine."""
    folder = package(tmp_path, kernels=KERNELS, ops=SLOW)
    driven(folder)
    lines = [json.loads(line) for line in (folder / "l.jsonl").read_text().splitlines()]
    counts = [line["of"] for line in lines if "of" in line]
    assert counts
    assert len(counts) == len(set(counts))


HALF_WAY = """
import torch
from tiny.kernels import rare, scale

def inner(x, y, z):
    rare[(1,)](x, y, K=16)
    scale[(1,)](x, y, z, 16, K=16)

def outer(x: torch.Tensor):
    '''x of shape [B, T]'''
    rare[(1,)](x, x.float(), K=16)
    if x.shape[0] == 0:
        inner(x, x, x)
"""


def test_guesses_about_inner_functions_give_way(tmp_path: Path) -> None:
    """The launches of an offered operator replace those of inner functions for its kernels; other
    kernels keep theirs."""
    launches, _ = driven(package(tmp_path, kernels=KERNELS, ops=HALF_WAY))
    rare = [one for one in launches.launches if one.kernel == "tiny.kernels:rare"]
    assert {one.launch.args["y"]["dtype"] for one in rare} == {"fp32"}
    assert "tiny.kernels:scale" in {one.kernel for one in launches.launches}


PICKY = """
import torch, triton, triton.language as tl

@triton.jit
def picky(x, first, n, K: tl.constexpr):
    for i in range(tl.load(first), n):
        tl.store(x + i, 1.0)

def count(x: torch.Tensor, first: torch.Tensor):
    picky[(1,)](x, first, x.shape[0], K=16)

@triton.jit
def removed(x):
    tl.there_is_no_such_thing(x)

def gone(x: torch.Tensor):
    removed[(1,)](x)

def incomplete(x: torch.Tensor):
    picky[(1,)](x, x, K=16)
"""


def test_a_kernel_says_what_it_takes(tmp_path: Path) -> None:
    """A launch that Triton's front end refuses counts as made up, and one that lacks an argument is
    dropped."""
    launches, report = driven(package(tmp_path, ops=PICKY))
    picky = [one for one in launches.launches if one.kernel == "tiny.ops:picky"]
    assert picky
    assert all(one.made_up for one in picky)
    assert all("n" in one.launch.args for one in picky)
    assert "tiny.ops:picky" in report["untaken"]
    assert report["operators"]["tiny.ops:gone"]["worked"]
    failures = report["operators"]["tiny.ops:incomplete"]["failures"]
    assert "missing 1 required positional argument: 'n'" in next(iter(failures.values()))


ALONE = """
import torch, triton, triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def gather(x, where, out, n, stride_xa, stride_xb, eps, ADDS: tl.constexpr, BLOCK: tl.constexpr,
           KIND: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(where + i)
    values = tl.load(x + row * stride_xa).to(KIND)
    if ADDS:
        values += eps
    tl.store(out + i, values, mask=i < n)

@triton.jit
def hopeless(x, K: tl.constexpr):
    tl.store(x + tl.arange(0, K) * "three", 1.0)

@triton.jit
def removed(x):
    tl.there_is_no_such_thing(x)

def from_a_file(path):
    weights = torch.load(path)
    gather[(1,)](weights, weights, weights, 1, 1, 1, 1.0, ADDS=True, KIND=tl.float32)
    hopeless[(1,)](weights, K=1)
    removed[(1,)](weights)
"""


def test_a_kernel_whose_function_cannot_be_called_is_launched_alone(tmp_path: Path) -> None:
    """Its arguments have the kinds that its code implies; the launch is made up, except in bf16 and
    fp16 with the constants of the package's own. A kernel that accepts none has no launch."""
    kernels = ["tiny.ops:gather", "tiny.ops:hopeless", "tiny.ops:removed"]
    launches, report = driven(package(tmp_path, ops=ALONE), launchable=kernels)
    assert report["operators"]["tiny.ops:from_a_file"]["launches"] == 0
    assert {one.kernel for one in launches.launches} == {"tiny.ops:gather", "tiny.ops:removed"}
    removed = [one.made_up for one in launches.launches if one.kernel == "tiny.ops:removed"]
    assert set(removed) == {True}
    gathers = [one.launch for one in launches.launches if one.kernel == "tiny.ops:gather"]
    args = gathers[0].args
    assert args["where"]["dtype"] in ("i32", "i64")
    assert args["x"]["dtype"] in ("bf16", "fp32")
    assert {len(launch.configs) for launch in gathers} == {2}
    assert args["ADDS"]["constexpr"] is True
    assert not next(one for one in launches.launches if one.launch is gathers[0]).made_up
    assert report["untaken"].keys() == {"tiny.ops:hopeless"}


def test_selected_kernels_are_launched_alone_and_no_kernel_of_an_operator(tmp_path: Path) -> None:
    """A kernel of an operator that could not be called is not launched alone."""
    kernels = ["tiny.ops:gather", "tiny.ops:hopeless"]
    folders = []
    for name in ("kernels", "ops"):
        (tmp_path / name).mkdir()
        folders.append(package(tmp_path / name, ops=ALONE))
    launches, report = driven(folders[0], launchable=kernels, kernels=["hopeless"])
    assert list(report["alone"]) == ["tiny.ops:hopeless"]
    launches, report = driven(folders[1], launchable=kernels, ops=["from_a_file"])
    assert (launches.launches, report["alone"]) == ((), {})


COLLECTING = """
import torch, triton, triton.language as tl

def collect(x, n, **meta):
    tl.store(x + tl.arange(0, meta["BLOCK"]), n)

@triton.jit
def before(x, n): ...

@triton.jit
def after(x, n): ...

# Triton 3.9 refuses the definition already.
for kernel in (before, after):
    name = kernel.fn.__name__
    kernel.fn = type(collect)(collect.__code__, globals(), name)
    kernel.fn.__qualname__ = name

def old(x: torch.Tensor):
    grid = lambda meta: (triton.cdiv(x.shape[0], meta["BLOCK"]),)
    before[grid](x, x.shape[0], BLOCK=64, num_warps=2)
    after[grid](x, x.shape[0], BLOCK=64)
"""


def test_kernels_that_no_release_can_launch_are_recorded(tmp_path: Path) -> None:
    """The call goes on after such a launch, so that its other kernels are recorded, too."""
    launches, report = driven(package(tmp_path, ops=COLLECTING))
    by_kernel = {one.kernel: one for one in launches.launches}
    assert by_kernel.keys() == {"tiny.ops:before", "tiny.ops:after"}
    assert by_kernel["tiny.ops:before"].options == {"num_warps": 2}
    assert set(by_kernel["tiny.ops:after"].launch.args) == {"x", "n"}
    assert report["operators"]["tiny.ops:old"]["worked"]


ASSEMBLY = """
import torch, triton, triton.language as tl

@triton.jit
def four_bytes(x, y):
    i = tl.arange(0, 128)
    z = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [tl.load(x + i)], tl.uint8, True, 4)
    tl.store(y + i, z)

@triton.jit
def two_floats(x, y):
    i = tl.arange(0, 128)
    z = tl.inline_asm_elementwise(
        asm="mov.b32 $0, $1;", constraints="=r, r", args=[tl.load(x + i).to(tl.bfloat16)],
        dtype=tl.bfloat16, is_pure=True, pack=2,
    )
    tl.store(y + i, z)

def unpack(x: torch.Tensor):
    four_bytes[(1,)](x, torch.empty_like(x))

def copy(x: torch.Tensor):
    two_floats[(1,)](x, torch.empty_like(x))
"""


def test_a_tensor_that_assembly_cannot_hold_is_made_up(tmp_path: Path) -> None:
    """The dtype of an operand decides how many registers the assembly has to name."""
    launches, report = driven(package(tmp_path, ops=ASSEMBLY))
    assert {(one.kernel, one.made_up) for one in launches.launches} == {
        ("tiny.ops:four_bytes", True),
        ("tiny.ops:two_floats", False),
    }
    assert "and its constraints name 1" in report["untaken"]["tiny.ops:four_bytes"]


WITHOUT_REQUIREMENT = '''
import torch, triton
from there_is_no_such_package.tools import register, table

@triton.jit
def kernel(x, n): ...

@register
def scale(x: torch.Tensor):
    """x (torch.Tensor): of shape `[B, T, H, K]`."""
    kernel[(1,)](x, x.numel())
    return x
'''


def test_a_module_without_its_requirement_is_called(tmp_path: Path) -> None:
    """Its launches are made up, because no program can import the module; the error is reported."""
    launches, report = driven(package(tmp_path, ops=WITHOUT_REQUIREMENT))
    assert {(one.kernel, one.made_up) for one in launches.launches} == {("tiny.ops:kernel", True)}
    assert "there_is_no_such_package" in report["modules"]["tiny.ops"]


HANGING = """
import torch
from tiny.kernels import rare

def hangs(x: torch.Tensor):
    rare[(1,)](x, x, K=16)
    while True:
        try:
            sum(range(1000))
        except Exception:
            pass
"""


def test_an_operator_that_hangs_is_left(tmp_path: Path) -> None:
    """The operator is left after its share of CPU time; its earlier launches are kept."""
    launches, report = driven(package(tmp_path, kernels=KERNELS, ops=HANGING))
    assert "TooLong" in next(iter(report["operators"]["tiny.ops:hangs"]["failures"].values()))
    assert [one.kernel for one in launches.launches] == ["tiny.kernels:rare"]


DISAGREEING = (
    OPS
    + """
def loose(x, g):
    scale[(1,)](x, x, g, 16, K=16)
"""
)
LOOSE_LAYER = """
import torch
from tiny.ops import loose

class Own(torch.nn.Module):
    def __init__(self, hidden_size: int = 128):
        super().__init__()
        self.g = torch.nn.Parameter(torch.ones(1))

    def forward(self, hidden_states):
        return loose(hidden_states, self.g)
"""


def test_a_layer_knows_better_what_is_a_pointer(tmp_path: Path) -> None:
    """A number where a layer of the package passes a tensor was a wrong guess, and is dropped."""
    recipe = {"operators": {"*:loose": {"values": {"g": 64}}}}
    text = "from tiny.ops import loose\n"
    folder = package(tmp_path, __init__=text, kernels=KERNELS, ops=DISAGREEING, layers=LOOSE_LAYER)
    launches, report = driven(folder, recipe)
    assert "plain" in report["operators"]["tiny.ops:loose"]["worked"]
    launches_of_scale = [one for one in launches.launches if one.kernel == "tiny.kernels:scale"]
    assert launches_of_scale
    assert all("dtype" in one.launch.args["g"] for one in launches_of_scale)


REFUSALS = """
import torch, triton, triton.language as tl

@triton.jit
def scatter(x, n, K: tl.constexpr):
    tl.store(x + tl.arange(0, K) * n, 1.0)

def inner(x, n):
    scatter[(1,)](x, n, K=16)

def outer(x: torch.Tensor):
    if x.shape[0] == 0:
        inner(x, 3)
"""


def test_launches_that_the_front_end_refuses_are_marked(tmp_path: Path) -> None:
    """A tensor was inferred where an inner function takes a number."""
    launches, _ = driven(package(tmp_path, ops=REFUSALS))
    assert {one.kernel: one.made_up for one in launches.launches} == {"tiny.ops:scatter": True}


OF_THE_PACKAGE = '''
import torch
from tiny.kernels import packed, rare, scale

def _inner(x: torch.Tensor, sums: torch.Tensor, with_rare: bool = False):
    scale[(1,)](x, x, sums, x.shape[1], K=x.shape[-1])
    if with_rare:
        rare[(1,)](x, sums, K=x.shape[-1])

def offered(x: torch.Tensor):
    """x (torch.Tensor): of shape `[B, T, H, K]`."""
    _inner(x, torch.zeros(x.shape[:3], dtype=torch.float32, device=x.device))
    back(x, x.sum(-1).float())

def back(dy: torch.Tensor, sums: torch.Tensor):
    """
    dy (torch.Tensor): of shape `[B, T, H, K]`.
    sums (torch.Tensor): of shape `[B, T, H]`.
    """
    packed[(1,)](dy, sums, None, dy.shape[1], K=dy.shape[-1])

def undocumented(x: torch.Tensor, weights: torch.Tensor):
    rare[(1,)](x, weights, K=16)
'''


def test_inner_functions_get_what_their_package_passes(tmp_path: Path) -> None:
    """An argument that is always fp32 is never bf16, for offered and for inner functions."""
    text = "from tiny.ops import back, offered\n"
    folder = package(tmp_path, __init__=text, kernels=KERNELS, ops=OF_THE_PACKAGE)
    launches, _ = driven(folder)
    dtypes_seen: dict[str, set[tuple[str, bool]]] = {}
    for one in launches.launches:
        dtypes = [spec["dtype"] for spec in one.launch.args.values() if spec and "dtype" in spec]
        dtypes_seen.setdefault(one.kernel, set()).add((dtypes[0] + " " + dtypes[-1], one.made_up))
    assert ("bf16 bf16", False) in dtypes_seen.pop("tiny.kernels:rare")
    assert dtypes_seen == {
        "tiny.kernels:scale": {("bf16 fp32", False), ("fp32 fp32", False)},
        "tiny.kernels:packed": {("bf16 fp32", False), ("fp32 fp32", False)},
    }


OBJECTS = """
import torch
from tiny.kernels import packed, scale

class Resizer:
    def __init__(self, size: tuple[int, int], *, sharp=True):
        self.size = size

    def __call__(self, image: torch.Tensor):
        if image.requires_grad:
            raise ValueError("for inference only; detach the image")
        batch, channels, height, width = image.shape
        return self._resized(image)

    def _resized(self, image):
        scale[(1,)](image, torch.empty_like(image), image, image.shape[0], K=image.shape[-1])

class Parts(torch.nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.dims = dims

    def forward(self, image, text):
        x, y = image, text
        x, y = x.contiguous(), y.contiguous()
        rows, columns = x.stride()
        packed[(1,)](x, y, y, rows, K=x.shape[-1])
"""


def test_kernels_of_methods_are_launched_alone(tmp_path: Path) -> None:
    """Nothing calls the methods of other classes than layers."""
    launches, _ = driven(
        package(tmp_path, kernels=KERNELS, objects=OBJECTS), launchable=["tiny.kernels:scale"]
    )
    kernels = {one.kernel.partition(":")[2]: one for one in launches.launches}
    assert kernels.keys() == {"scale", "packed"}
    assert kernels["scale"].made_up


def test_what_triton_calls_its_values_is_written_down(tmp_path: Path) -> None:
    """A constant of Triton's own among a package's values is written, and the capture goes on."""
    from flacheck.guest.search import write_json

    class Constant:
        def __repr__(self) -> str:
            return "constexpr[3]"

    write_json({"kernels": {"m:k": [Constant()]}}, str(tmp_path / "asked.json"))
    assert json.loads((tmp_path / "asked.json").read_text()) == {
        "kernels": {"m:k": ["constexpr[3]"]}
    }


def test_a_kept_capture_is_that_of_this_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever changes in the guest may change what is launched, so its source is in the key."""
    tiny_package = Package("tiny", "1.0", str(tmp_path), "digest", {})
    toolchain = Toolchain("fake", "1", "fake==1", "test", (str(tmp_path),), "fake")

    def key() -> str:
        return capture_job.capture_key(tiny_package, toolchain, card("h100"), {})

    (tmp_path / "recorder").mkdir()
    (tmp_path / "recorder" / "a.py").write_text("one = 1")
    ours = key()
    monkeypatch.setattr(capture_job, "GUEST", tmp_path)
    first = key()
    (tmp_path / "recorder" / "a.py").write_text("one = 2")
    assert len({ours, first, key()}) == 3


SAYING = """
import logging, warnings

warnings.warn("Triton 3.9.0 is newer than what was tested here")
logging.getLogger("tiny").warning("torch 2.4 or newer is needed,\\n  and 2.9 is better")
logging.getLogger("tiny").warning("something else, said 3.1 times")
"""


def test_what_a_package_says_of_releases_is_kept(tmp_path: Path) -> None:
    """Each warning about releases of Triton or torch is kept once, with its module; others are
    dropped."""
    folder = package(tmp_path, kernels=KERNELS, ops=OPS, loud=SAYING, louder=SAYING)
    _, report = driven(folder)
    texts = {entry["text"]: entry["by"] for entry in report["said"]}
    assert list(texts) == [
        "Triton 3.9.0 is newer than what was tested here",
        "torch 2.4 or newer is needed, and 2.9 is better",
    ]
    assert texts["torch 2.4 or newer is needed, and 2.9 is better"] == "tiny"


def test_captures_are_made_side_by_side_and_each_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A capture without a report is an error that names its log; the others are kept."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    calls: list[str] = []

    def config(scratch: Path, each: capture_job.CaptureJob) -> Json:
        calls.append(each.toolchain.identity)
        files = {"report": str(scratch / "report.json")}
        return {**files, "seconds": 1, "fails": each.toolchain.version == "2"}

    fake = (
        "import json, sys; c = json.loads(sys.argv[-1]); print('no luck')\n"
        "if not c['fails']: open(c['report'], 'w').write('{}')"
    )
    monkeypatch.setattr(capture_job, "driver_config", config)
    monkeypatch.setattr(
        programs, "guest_arguments", lambda module, config, folder: ["-c", fake, json.dumps(config)]
    )
    tiny_package = Package("tiny", "1.0", str(tmp_path), "digest", {})
    requests = [
        capture_job.CaptureJob(
            tiny_package, Toolchain("fake", n, f"fake=={n}", "test", (), "fake"), card("h100")
        )
        for n in ("1", "2", "3")
    ]
    with pytest.raises(IncompleteError, match=r"log\.txt: no luck"):
        capture_job.prepare_captures(requests, at_once=3)
    capture_job.prepare_captures([requests[0], requests[2]], at_once=3)
    assert sorted(calls) == ["fake==1", "fake==2", "fake==3"]


def test_a_capture_has_the_sizes_of_its_job(tmp_path: Path) -> None:
    """Sizes for every operator replace the usual ones; the recipe's for some come after them."""
    folder = package(tmp_path, kernels=KERNELS, ops=OPS)
    recipe = capture_job.recipe_of("tiny", (("B", 3), ("T", 96)))
    launches, _ = driven(folder, recipe)
    shapes = {
        tuple(one.memory.tensors["x"].shape[:2])
        for one in launches.launches
        if one.kernel == "tiny.kernels:scale" and one.memory is not None
    }
    assert (3, 96) in shapes
    assert all(batch in (1, 3) for batch, _ in shapes)
