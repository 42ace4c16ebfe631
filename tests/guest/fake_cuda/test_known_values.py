"""Known values of tensors on the fake device, and guesses for unknown ones.

Most of these programs contain assertions, and end with 0 if all hold.
"""

from __future__ import annotations

from pathlib import Path

from tests.captured import exit_code, needs_torch, recorded

VALUES = """
cuts = torch.arange(16, 64)[torch.randperm(48)[:3]]
cu = torch.cat([torch.tensor([0]), cuts, torch.tensor([64])]).cuda().sort()[0]
lengths = cu[1:] - cu[:-1]
assert cu.tolist()[0] == 0 and int(lengths.sum()) == 64
assert lengths.max().item() == max(lengths.tolist())
chunks = torch.cat([torch.arange(n) for n in ((lengths + 15) // 16).tolist()])
assert int(chunks.eq(0).sum()) == 4 and (lengths > 0).nonzero().shape == (4, 1)
lengths[0] = 5
assert lengths.tolist()[0] == 5
lengths.copy_(torch.randn(4).cuda())
x = torch.randn(4, device="cuda")
assert x.item if x.sum().item() == 0.0 else False
assert torch.allclose(x, x + 1) and x[x > 0].shape == (4,)
assert x.cpu().detach().numpy().shape == (4,)
launch(torch.empty(lengths.numel(), device="cuda"), int(cu[1]) - int(cu[1]) + 9)
"""


@needs_torch
def test_small_integers_have_values(tmp_path: Path) -> None:
    """`cu_seqlens.tolist()` returns the program's own values; floats are not computed."""
    (one,) = recorded(tmp_path, VALUES).launches
    assert one.launch.args["n"] == {"int": 9}


ASSERTIONS = """
import numpy
x = torch.randn(2000, 300, device="cuda")
y = x + 1
assert not torch.isnan(x).any() and not x.isinf().any()
assert x.isfinite().all() and not (x != x).any()
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
    """Assertions on computed values hold.

    Assertions on known values are evaluated.
    """
    assert exit_code(tmp_path, ASSERTIONS) == 0


OUT_OF_RANGE = """
host, indices = torch.arange(5), torch.tensor([7])
refused = 0
wrong = (lambda: host[indices], lambda: host.take(indices), lambda: host.index_fill(0, indices, 1))
for ask in wrong:
    try:
        ask()
    except IndexError:
        refused += 1
launch(torch.empty(64, device="cuda"), refused)
launch(host.cuda()[indices.cuda()], 8)
"""


@needs_torch
def test_an_index_out_of_range_is_the_programs_own_error(tmp_path: Path) -> None:
    """The error occurs in host memory only; on the card a kernel may have written the index."""
    file = recorded(tmp_path, OUT_OF_RANGE)
    assert [one.launch.args["n"]["int"] for one in file.launches] == [3, 8]


WRITES = """
from flacheck_guest.fake_cuda.known_values import value_of
offsets = torch.tensor([0, 5, 64], device="cuda")
filled = torch.empty(4, dtype=torch.int32, device="cuda").fill_(7)
count, state = torch.empty_like(offsets), torch.empty(4, device="cuda").fill_(float("nan"))
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
    """Floats and fresh memory become unknown; offsets that the program made stay known."""
    assert exit_code(tmp_path, WRITES) == 0


SHORTCUT = """
from flacheck_guest.fake_cuda.shortcut import Shortcut
asked = []
def form(t): return t.shape, t.stride(), t.dtype, t.device, t.untyped_storage().size()
def computed(x, half, i):
    w = x.transpose(0, 1)
    return [x * 2, i * 2, i * 2.0, x + half, w @ x, w.exp(), x.sum(-1, keepdim=True),
            x.to(torch.float64), x.half(), x[1], x[:, 1:], x.view(-1), x[None].expand(3, -1, -1),
            torch.softmax(x, -1), torch.where(x > 0, x, 0.0), x.contiguous(), w.contiguous(),
            x.to(memory_format=torch.contiguous_format), x.to("cpu"), *x.unbind(0)]
x, half = torch.randn(4, 4, device="cuda"), torch.randn(4, device="cuda", dtype=torch.float16)
i = torch.arange(1 << 20, device="cuda")
first, again = computed(x, half, i), computed(x, half, i)
def without(self, operator, args, kwargs):
    asked.append(operator)
    return operator(*args, **kwargs)
Shortcut.__call__ = without
plain = computed(x, half, i)
assert asked
assert [form(t) for t in first] == [form(t) for t in again] == [form(t) for t in plain]
for one, other in zip(again, plain):
    assert (one.data_ptr() == x.data_ptr()) == (other.data_ptr() == x.data_ptr())
    assert one.is_contiguous() == other.is_contiguous()
"""


@needs_torch
def test_the_shortcut_gives_what_the_fake_mode_gives(tmp_path: Path) -> None:
    """Shapes, strides, dtypes, devices and shared memory, the first time and the next."""
    assert exit_code(tmp_path, SHORTCUT) == 0
