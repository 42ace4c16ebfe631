"""The autograd engine of the fake device against torch's own: one program, run plainly and under
capture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.subjects.captures.test_capture import needs_torch

FUNCTIONS = """
import torch
from torch.utils.checkpoint import checkpoint

def form(g): return None if g is None else (tuple(g.shape), str(g.dtype), g.is_contiguous(), g.requires_grad)
def forms(values): return [form(value) for value in values]
def leaf(*shape): return torch.randn(*shape, requires_grad=True)

class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, x, *more):
        ctx.name, ctx.count = name, len(more)
        ctx.save_for_backward(x, *more)
        return x * 2, x + 1

    @staticmethod
    def backward(ctx, *g):
        print(ctx.name, forms(g), ctx.needs_input_grad, forms(ctx.saved_tensors))
        return None, g[0] if ctx.name != "none" else None, *([g[1]] * ctx.count)

class Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        outputs = x * 2, x.argmax(-1), x + 1, None
        ctx.mark_non_differentiable(*outputs[1:3])
        return outputs

    @staticmethod
    def backward(ctx, *g):
        print("marked", forms(g))
        return g[0]

class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        print("dirty", form(g))
        return g

class Sparing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x * 2, y * 2

    @staticmethod
    def backward(ctx, *g):
        print("sparing", forms(g), ctx.needs_input_grad)
        return g

class Apart(torch.autograd.Function):
    @staticmethod
    def forward(x, k): return x * k, None

    @staticmethod
    def setup_context(ctx, inputs, output): ctx.k = inputs[1]

    @staticmethod
    def backward(ctx, g, nothing):
        print("apart", form(g), nothing)
        return g * ctx.k, None

class Itself(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g): return ctx.saved_tensors[0]

x = leaf(3)
Itself.apply(x).sum().backward()
print(form(x.grad), x.grad is x)

x = leaf(3)
first, _ = Pair.apply("below none", x)
Pair.apply("none", first)[0].sum().backward()
print(form(x.grad))
first, second = Pair.apply("below one", x)
Pair.apply("none", first, second)[1].sum().backward()
x = leaf(2, 3)
outputs = Marked.apply(x)
outputs[0].sum().backward()
print(form(x.grad), [o.requires_grad for o in outputs[:3]])
y = leaf(3).clone()
Dirty.apply(y)
y.sum().backward()
for x, y in ((leaf(3), leaf(3)), (leaf(3), torch.randn(3))):
    Sparing.apply(x, y)[0].sum().backward()
    print(form(x.grad), form(y.grad))
Apart.apply(leaf(3), 3)[0].sum().backward()

uses = {
    "expanded": lambda a: a,
    "transposed": lambda a: a.t().contiguous() * 2,
    "viewed": lambda a: a.view(6, 4) @ torch.ones(4, 2),
    "sliced": lambda a: a[1:, ::2],
    "indexed": lambda a: a[torch.tensor([0, 2])],
    "chunked": lambda a: a.chunk(2, -1)[0],
    "stacked": lambda a: torch.stack([a, a + 1, a]),
    "contracted": lambda a: torch.einsum("ij,kj->ik", a, a),
    "detached": lambda a: a.detach() * a,
    "normed": lambda a: torch.nn.functional.layer_norm(a, (6,)),
    "in another dtype": lambda a: a.half().float(),
}
for name, use in uses.items():
    x = leaf(4, 6)
    use(Pair.apply(name, x)[0]).sum().backward()
    print(form(x.grad))
x = torch.randn(6, 4).t().requires_grad_()
Pair.apply("strided leaf", x)[0].sum().backward()
print(x.grad.stride())

x = leaf(3)
a, _ = Pair.apply("first", x)
b, _ = Pair.apply("second", x)
(Pair.apply("third", a + b)[0] + a).sum().backward()
a, _ = Pair.apply("twice", x, x)
a.sum().backward(retain_graph=True)
a.sum().backward()
x, y = leaf(3), leaf(3)
a, b = Pair.apply("left", x)[0], Pair.apply("right", y)[0]
print(forms(torch.autograd.grad((a * b).sum(), x, retain_graph=True)), form(x.grad))
b, _ = Pair.apply("from", a)
torch.autograd.grad(b.sum(), a, retain_graph=True)
b.sum().backward(inputs=[x])
print(form(x.grad))
torch.autograd.backward([*Pair.apply("both", x)], [torch.ones(3), torch.ones(3)])
def block(t):
    print("block")
    return Pair.apply("upper", torch.relu(Pair.apply("lower", t.exp())[0]).sin())[1]
for reentrant in (True, False):
    checkpoint(block, x, use_reentrant=reentrant).sum().backward()

x = leaf(3)
inner = x * 2
inner.retain_grad()
first = inner.register_hook(lambda g: print("first", form(g)))
second = inner.register_hook(lambda g: print("second", form(g)))
x.register_hook(lambda g: print("leaf", form(g)))
inner.sum().backward(retain_graph=True)
print(form(inner.grad), form(x.grad))
first.remove()
with second:
    inner.sum().backward(retain_graph=True)
inner.sum().backward()
"""


def output_lines(*command: str, code: int = 0) -> list[str]:
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == code, result.stderr
    return result.stdout.splitlines()


@needs_torch
def test_functions_are_called_as_torchs_engine_calls_them(tmp_path: Path) -> None:
    """The same functions are called in the same order, with gradients of the same form or None.

    Leaves have the same form.
    """
    program = tmp_path / "program.py"
    program.write_text(FUNCTIONS)
    plain = output_lines(sys.executable, str(program))
    capture = [sys.executable, "-m", "flacheck", "capture", "-o", str(tmp_path / "l.jsonl"), "--"]
    assert len(plain) > 40
    # Exit code 4: no kernel is launched.
    assert output_lines(*capture, sys.executable, str(program), code=4) == plain
