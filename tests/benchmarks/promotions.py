"""`python -m tests.benchmarks.promotions --seed N`: promotions planted in modules, and clean modules.

Each module is drawn: its kernel, the way to it, the lines around, the operand and the line that
widens it, or one that does not. `flacheck dtypes` follows all of them in one call. Printed are the
promotions by whether a finding names their line, and the findings on any other line.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path

import flacheck

_KERNELS = {
    "scores": """
@triton.jit
def {name}(q, k, v, o, D: tl.constexpr):
    i = tl.arange(0, D)[:, None] * D + tl.arange(0, D)[None, :]
    s = tl.dot(tl.load(q + i), tl.load(k + i))
    tl.store(o + i, s + tl.load(v + i))
""",
    "chain": """
@triton.jit
def {name}(q, k, v, o, D: tl.constexpr):
    i = tl.arange(0, D)[:, None] * D + tl.arange(0, D)[None, :]
    b_k = tl.load(k + i)
    s = tl.dot(tl.load(q + i), b_k)
    tl.store(o + i, tl.dot(s.to(b_k.dtype), tl.load(v + i)))
""",
    "loop": """
@triton.jit
def {name}(q, k, v, o, D: tl.constexpr):
    r = tl.arange(0, D)
    acc = tl.zeros([D, D], tl.float32)
    for at in range(0, D, 32):
        c = at + tl.arange(0, 32)
        left = tl.load(q + r[:, None] * D + c[None, :])
        acc += tl.dot(left, tl.load(k + c[:, None] * D + r[None, :]))
    tl.store(o + r[:, None] * D + r[None, :], acc + tl.load(v + r[:, None] * D + r[None, :]))
""",
}
# The operands that a kernel multiplies with another: only there is a wide one refused.
_FACTORS = {"scores": "qk", "chain": "qkv", "loop": "qk"}
_LAUNCHES = {
    "direct": ("", "o = torch.empty_like(hidden_states)\n{name}[(1,)](q, k, v, o, D=64)"),
    "function": (
        """
def run(q, k, v):
    o = torch.empty_like(v)
    {name}[(1,)](q, k, v, o, D=64)
    return o
""",
        "o = run(q, k, v)",
    ),
    "autograd": (
        """
class Run(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        o = torch.empty_like(v)
        {name}[(1,)](q, k, v, o, D=64)
        return o

    @staticmethod
    def backward(ctx, do):
        return do, do, do
""",
        "o = Run.apply(q, k, v)",
    ),
    "contract": (
        """
def run(q, k, v):
    assert q.dtype == k.dtype == v.dtype, "one dtype for all"
    o = torch.empty_like(v)
    {name}[(1,)](q, k, v, o, D=64)
    return o
""",
        "o = run(q, k, v)",
    ),
}
_FILE = """import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional as F

{kernel}
{helper}

class Mixer(nn.Module):
    def __init__(self, hidden_size: int = 64):
        super().__init__()
        self.to_q = nn.Linear(hidden_size, hidden_size)
        self.to_k = nn.Linear(hidden_size, hidden_size)
        self.to_v = nn.Linear(hidden_size, hidden_size)
        self.norm = nn.LayerNorm(hidden_size)
        self.groups = nn.GroupNorm(4, hidden_size)
        self.conv = nn.Conv1d(hidden_size, hidden_size, 3, padding=1)
        self.gain = nn.Parameter(torch.ones(hidden_size))
        self.scale = nn.Parameter(torch.zeros(1))
        self.register_buffer("table", torch.ones(hidden_size))
        self.register_buffer("places", torch.zeros(2048, hidden_size))

    def turn(self, x):
        return torch.cat([x[..., 32:], x[..., :32]], -1)

    def forward(self, hidden_states):
        T = hidden_states.shape[1]
        q = self.to_q(hidden_states)
        k = self.to_k(hidden_states)
        v = self.to_v(hidden_states)
{body}
        return o
"""
# X is the operand. Autocast computes in float32, or an operand of the line is float32.
PROMOTIONS = {
    "softmax": "X = X.softmax(-1)",
    "log_softmax": "X = F.log_softmax(X, dim=-1)",
    "normalize": "X = F.normalize(X, dim=-1)",
    "layer_norm": "X = F.layer_norm(X, (64,))",
    "LayerNorm": "X = self.norm(X)",
    "GroupNorm": "X = self.groups(X.transpose(1, 2)).transpose(1, 2)",
    "exp": "X = X.exp()",
    "cumsum": "X = X.cumsum(1)",
    "cumprod": "X = torch.cumprod(X, 1)",
    "logsumexp": "X = X - X.logsumexp(-1, keepdim=True)",
    "stack": "X = torch.stack([X, X]).sum(0)",
    "rms": "X = X.float() * torch.rsqrt(X.float().pow(2).mean(-1, keepdim=True) + 1e-6)",
    "rotary": "X = X * self.table + self.turn(X) * self.table",
    "float": "X = X.float()",
    "gain": "X = X * self.gain",
    "scale": "X = X * self.scale.exp()",
    "residual": "X = X + hidden_states",
    "positions": "X = X + self.places[:T]",
    "pow": "X = X.pow(2)",
    "power": "X = X ** 2",
    "rsqrt": "X = torch.rsqrt(X + 1)",
    "softplus": "X = F.softplus(X)",
    "norm": "X = X / X.norm(dim=-1, keepdim=True)",
    "sum": "X = X / X.sum(-1, keepdim=True)",
    "prod": "X = X * X.prod(-1, keepdim=True)",
    "where": "X = torch.where(X > 0, X, self.table)",
    "cat": "X = torch.cat([X[..., :32], hidden_states[..., 32:]], -1)",
    "decay": "X = X * torch.linspace(0, 1, T, device=X.device)[:, None]",
    "lerp": "X = X + (hidden_states - X) * 0.5",
    "log": "X = X.abs().log()",
    "ones": "X = X * torch.ones(64, device=X.device)",
    "maximum": "X = torch.maximum(X, self.table)",
    "cosine": "X = X * F.cosine_similarity(X, X, dim=-1)[..., None]",
    "to": "X = X.to(torch.float32)",
    "dtype": "X = X.softmax(-1, dtype=torch.float32)",
}
# These leave one dtype: a cast, an operation in half, all operands wide, or one that is not kept.
CLEAN = {
    "cast back": "X = X.softmax(-1).to(q.dtype if q.dtype != torch.float32 else k.dtype)",
    "type_as": "X = F.normalize(X, dim=-1).type_as(X)",
    "rms cast": "X = (X.float() * torch.rsqrt(X.float().pow(2).mean(-1, keepdim=True))).to(X.dtype)",
    "silu": "X = F.silu(X)",
    "gelu": "X = F.gelu(X)",
    "sigmoid": "X = X * torch.sigmoid(X)",
    "tanh": "X = torch.tanh(X)",
    "relu": "X = F.relu(X) ** 1 if False else F.relu(X)",
    "number": "X = X * 0.125",
    "scalar tensor": "X = X * torch.tensor(0.5, device=X.device)",
    "mean": "X = X - X.mean(-1, keepdim=True)",
    "matmul": "X = torch.matmul(X, X.transpose(1, 2)) @ X",
    "conv": "X = self.conv(X.transpose(1, 2)).transpose(1, 2)",
    "dropout": "X = F.dropout(X, 0.1, training=self.training)",
    "gain cast": "X = X * self.gain.to(X.dtype)",
    "all wide": "q, k, v = q.float(), k.float(), v.float()",
    "masked": "X = X.masked_fill(X > 4, 0.0)",
    "view": "X = X.view(-1, T, 4, 16).transpose(2, 3).reshape(X.shape)",
    "einsum": "X = torch.einsum('btd,btd->btd', X, X)",
    "attention": "X = F.scaled_dot_product_attention(X, X, X)",
    "not kept": "wide = X.float().softmax(-1).sum()",
    "where half": "X = torch.where(X > 0, X, torch.zeros_like(X))",
    "copied": "X = torch.empty_like(X).copy_(X.softmax(-1))",
    "gate": "X = X * torch.sigmoid(hidden_states).to(X.dtype)",
}
# What may stand before and after, and changes no dtype.
_AROUND = (
    "scale = 64 ** -0.5",
    "q = q * 0.5",
    "k = F.silu(k)",
    "v = v.contiguous()",
    "v = v + 1",
    "k = k.transpose(1, 2).transpose(1, 2)",
    "q = F.relu(q)",
    "unused = hidden_states.softmax(-1)",
    "v = torch.tanh(v)",
)


@dataclass(frozen=True)
class DrawnModule:
    """A module's text with the line of its promotion; a clean one has line 0."""

    name: str
    kind: str
    text: str
    line: int


def draw(seed: int, promotions: int = 60, clean: int = 30) -> list[DrawnModule]:
    """Return the modules of a seed: every kind once before any comes twice."""
    randomness = random.Random(seed)
    modules = []
    for lines, count, prefix in ((PROMOTIONS, promotions, "wide"), (CLEAN, clean, "clean")):
        kinds: list[str] = []
        while len(kinds) < count:
            kinds += randomness.sample(sorted(lines), len(lines))
        for number, kind in enumerate(kinds[:count]):
            name = f"{prefix}_{number:02}"
            modules.append(_module(randomness, name, kind, lines[kind], prefix == "wide"))
    return modules


def _module(
    randomness: random.Random, name: str, kind: str, line: str, is_wide: bool
) -> DrawnModule:
    kernel = randomness.choice(sorted(_KERNELS))
    helper, launch = _LAUNCHES[randomness.choice(sorted(_LAUNCHES))]
    operand = randomness.choice(_FACTORS[kernel])
    line = line.replace("X", operand)
    before = randomness.sample(_AROUND, randomness.randrange(3))
    body = [*before, line]
    # A later line of the operand in half would be named in place of this one, if it were wide.
    after = [each for each in _AROUND if not each.startswith(f"{operand} =")]
    body += randomness.sample(after, randomness.randrange(2))
    body += launch.format(name=f"{kernel}_kernel").splitlines()
    text = _FILE.format(
        kernel=_KERNELS[kernel].format(name=f"{kernel}_kernel"),
        helper=helper.format(name=f"{kernel}_kernel"),
        body="\n".join(f"        {each}" for each in body),
    )
    at = 0
    if is_wide:
        at = text.splitlines().index(f"        {line}") + 1
    return DrawnModule(name, kind, text, at)


def measure(modules: list[DrawnModule], folder: Path, mend: bool) -> None:
    """Follow the modules in one call, and print what was found."""
    targets = []
    for module in modules:
        file = folder / f"{module.name}.py"
        file.write_text(module.text, encoding="utf-8")
        targets.append(f"{file}:Mixer")
    result = flacheck.dtypes(
        targets, autocast="bf16", costs=False, mend=mend, store=folder / "store"
    )
    lines_by_file: dict[str, set[int]] = {}
    for finding in result.findings:
        lines_by_file.setdefault(Path(finding.file).stem, set()).add(finding.line)
    count = 0
    false_alarms = 0
    for module in modules:
        lines = lines_by_file.get(module.name, set())
        if module.line in lines:
            count += 1
        elif module.line:
            print(f"missed: {module.name} {module.kind}, line {module.line}: named {sorted(lines)}")
        elsewhere = sorted(lines - {module.line})
        if elsewhere:
            false_alarms += 1
            print(f"false alarm: {module.name} {module.kind}: named {elsewhere}")
    plants = sum(module.line > 0 for module in modules)
    print(f"{count} of {plants} promotions at their line, {false_alarms} modules with another")
    for missing in result.not_followed:
        print(f"not followed: {missing.subject}: {missing.reason}")
    if result.fix_result is not None:
        remaining = result.fix_result.remaining
        print(f"casts in a copy: {len(remaining)} findings remain")
        for finding in remaining:
            print(f"  {finding.file}:{finding.line}: {finding.source}")
        for finding in result.fix_result.not_fixed:
            print(f"  without a cast: {finding.file}:{finding.line}: {finding.source}")


def main() -> None:
    """Draw, follow and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--promotions", type=int, default=60)
    parser.add_argument("--clean", type=int, default=30)
    parser.add_argument("--mend", action="store_true", help="apply the casts in a copy, too")
    parser.add_argument("--keep", type=Path, help="write the modules here, and keep them")
    arguments = parser.parse_args()
    modules = draw(arguments.seed, arguments.promotions, arguments.clean)
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        measure(modules, arguments.keep, arguments.mend)
        return
    with tempfile.TemporaryDirectory() as name:
        measure(modules, Path(name), arguments.mend)


if __name__ == "__main__":
    main()
