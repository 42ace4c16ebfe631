"""A program to capture twice, on a card and on one that is not there: FLA's operators, forward and
backward.

    python operators.py [--jobs N] [--tune] [--sizes B,T,H,K] [--forward] [NAME…]

Every function that `fla.ops` and its subpackages offer is called in bf16, on plain batches and on
packed sequences, and last a small model takes two training steps under autocast. What an operator
refuses is printed, the same on both. `--jobs` spreads the operators over processes, each of which
is recorded. Without `--tune` a kernel runs in its first configuration: a launch is recorded with
all of them before one is chosen, and compiling each takes a card an hour. `--sizes` calls with
others (K is V too), `--forward` plain batches forward only, as `check_estimate.py` wants them.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import fla.ops
import torch
import triton.runtime.autotuner

SIZES = {"B": 2, "T": 256, "H": 4, "K": 64}
OFFSETS = (0, 40, 168, 256)
# By the names of arguments: a tensor's dimensions, its dtype, and whether it is a decay (negative),
# a gate (0 to 1).
SHAPES = {
    "beta": "BTH",
    "dt": "BTH",
    "lamb": "BTH",
    "gamma": "BTH",
    "eta": "BTH",
    "u": "HK",
    "A_log": "H",
    "D": "H",
}
PER_HEAD = (
    "simple",
    "gated_delta",
    "gdn",
    "forgetting",
    "path",
    "comba",
    "log_linear",
    "mesa",
    "scalar",
)
NUMBERS = {
    "layer_idx": 0,
    "num_layers": 2,
    "num_householder": 1,
    "chunk_size": 64,
    "S": 64,
    "dim": -1,
    "scale": 0.125,
}
DECAYS = ("g", "gk", "gv", "w", "f", "log_w")
GATES = ("beta", "lamb", "gamma", "eta", "dt")


def operators() -> dict[str, Callable[..., Any]]:
    """Return the operators of `fla.ops` and of the packages below it, by name."""
    functions = {}
    for entry in pkgutil.iter_modules(fla.ops.__path__, "fla.ops."):
        if entry.ispkg:
            try:
                module = importlib.import_module(entry.name)
            except ImportError as error:
                print(f"{entry.name}: {error}")
                continue
            for name in getattr(module, "__all__", ()):
                if (
                    inspect.isfunction(inspect.unwrap(getattr(module, name)))
                    and "naive" not in name
                ):
                    functions[name] = getattr(module, name)
    return dict(sorted(functions.items()))


def tensor(operator: str, name: str, batch: int) -> torch.Tensor:
    dims = SHAPES.get(
        name, "BTH" if name == "g" and any(word in operator for word in PER_HEAD) else "BTHK"
    )
    own = {**SIZES, "B": batch, "T": SIZES["T"] * SIZES["B"] // batch}
    shape = [own[dim] for dim in dims]
    value = torch.randn(shape, device="cuda", dtype=torch.bfloat16) * 0.1
    if name in DECAYS:
        value = -value.float().sigmoid() if len(dims) == 3 else -value.sigmoid()
    elif name in GATES:
        value = value.sigmoid()
    return value.requires_grad_()


def arguments(operator: str, function: Callable[..., Any], is_packed: bool) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if name == "cu_seqlens" and is_packed:
            values[name] = torch.tensor(OFFSETS, device="cuda") * (
                SIZES["T"] * SIZES["B"] // OFFSETS[-1]
            )
        elif name in NUMBERS and parameter.default is parameter.empty:
            values[name] = NUMBERS[name]
        elif parameter.default is parameter.empty or name in ("g", "gk", "beta"):
            values[name] = tensor(operator, name, 1 if is_packed else SIZES["B"])
    return values


def tensors(result: Any) -> Iterator[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for part in result:
            yield from tensors(part)


def call(name: str, function: Callable[..., Any], is_packed: bool, forward: bool) -> str:
    """How it went, in words."""
    try:
        if is_packed and "cu_seqlens" not in inspect.signature(function).parameters:
            return "takes no packed sequences"
        result = function(**arguments(name, function, is_packed))
        if forward:
            return "forward"
        outputs = [each for each in tensors(result) if each.requires_grad]
        torch.autograd.backward(outputs, [torch.ones_like(each) for each in outputs])
        return "forward and backward" if outputs else "forward"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}"


class Mixer(torch.nn.Module):
    """A delta rule layer in small: projections, the operator, a norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.beta = torch.nn.Linear(width, SIZES["H"])
        self.out = torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part.view(*x.shape[:2], SIZES["H"], SIZES["K"])
            for part in self.qkv(self.norm(x)).chunk(3, -1)
        )
        o, _ = fla.ops.chunk_delta_rule(
            q, k, v, self.beta(x).sigmoid(), use_qk_l2norm_in_kernel=True
        )
        return x + self.out(o.flatten(-2))


def train() -> str:
    width = SIZES["H"] * SIZES["K"]
    model = torch.nn.Sequential(Mixer(width), Mixer(width)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        with torch.autocast("cuda", torch.bfloat16):
            loss = (
                model(torch.randn(SIZES["B"], SIZES["T"], width, device="cuda"))
                .float()
                .square()
                .mean()
            )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return "two training steps"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument(
        "--sizes", type=lambda text: dict(zip("BTHK", map(int, text.split(",")))), default={}
    )
    parser.add_argument("--forward", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments_given = parser.parse_args()
    SIZES.update(arguments_given.sizes)
    names = arguments_given.names or [*operators(), "train"]
    if arguments_given.jobs > 1:
        parts = [names[index :: arguments_given.jobs] for index in range(arguments_given.jobs)]
        options = [*["--tune"] * arguments_given.tune, *["--forward"] * arguments_given.forward]
        options += ["--sizes", ",".join(map(str, SIZES.values()))]
        children = [
            subprocess.Popen([sys.executable, __file__, *options, *part]) for part in parts if part
        ]
        sys.exit(max(process.wait() for process in children))
    if not arguments_given.tune:
        triton.runtime.autotuner.Autotuner._bench = lambda *args, **kwargs: [1.0, 1.0, 1.0]
    by_name = operators()
    for name in names:
        for is_packed in (
            ((False,) if arguments_given.forward else (False, True)) if name in by_name else ()
        ):
            outcome = call(name, by_name[name], is_packed, arguments_given.forward)
            print(f"{name} ({'packed' if is_packed else 'plain'}): {outcome}", flush=True)
        if name == "train":
            print(f"train: {train()}", flush=True)


if __name__ == "__main__":
    main()
