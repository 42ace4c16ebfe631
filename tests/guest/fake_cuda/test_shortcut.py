"""Results of operations that skip torch's fake mode, beside those of the mode itself."""

from __future__ import annotations

from pathlib import Path

from tests.captured import exit_code, needs_torch

# A tensor on the CPU takes the fake mode's own way, so that it gives the expected form.
FORMS = """
F = torch.nn.functional

def tensor(device, *shape, dtype=torch.bfloat16):
    return torch.empty(*shape, device=device, dtype=dtype)

def form(result):
    return result.shape, result.stride(), result.dtype, result.storage_offset()

OPERATIONS = (
    lambda d: torch.empty_like(tensor(d, 4, 6).t()),
    lambda d: torch.zeros_like(tensor(d, 4, 6), dtype=torch.float32),
    lambda d: torch.full_like(tensor(d, 4, 1).expand(4, 6), 2.0),
    lambda d: tensor(d, 4, 6).new_empty(3, 2),
    lambda d: tensor(d, 4, 6).t().clone(),
    lambda d: tensor(d, 4, 6).t().contiguous(),
    lambda d: tensor(d, 2, 3, 4).transpose(0, 2).to(torch.float32),
    lambda d: tensor(d, 4, 1).expand(4, 6).float(),
    lambda d: tensor(d, 4, 6) @ tensor(d, 6, 5),
    lambda d: tensor(d, 3, 4, 6) @ tensor(d, 3, 6, 5),
    lambda d: F.linear(tensor(d, 2, 4, 6), tensor(d, 5, 6)),
    lambda d: F.linear(tensor(d, 4, 6), tensor(d, 5, 6), tensor(d, 5)),
    lambda d: tensor(d, 4, 6).t() * tensor(d, 6, 1, dtype=torch.float32),
    lambda d: tensor(d, 4, 6) + tensor(d, 6, 4).t(),
    lambda d: tensor(d, 4, 6) - 2.5,
    lambda d: tensor(d, 4, dtype=torch.int32) / tensor(d, 4, dtype=torch.int32),
    lambda d: tensor(d, 2, 3, 4).sum((0, -1)),
    lambda d: tensor(d, 4, 6, dtype=torch.int32).sum(1, keepdim=True),
    lambda d: tensor(d, 2, 3, 4).permute(2, 0, 1).exp(),
    lambda d: tensor(d, 4, dtype=torch.int32).sigmoid(),
    lambda d: torch.randn(3, 4, device=d),
    lambda d: torch.full((3, 4), 7, device=d),
)
for operation in OPERATIONS:
    expected = form(operation("cpu"))
    # The second result comes from the cache.
    for _ in range(2):
        result = operation("cuda")
        assert form(result) == expected
        assert result.device == torch.device("cuda", 0)
"""

IN_PLACE = """
x, y = torch.empty(4, 6, device="cuda"), torch.empty(6, device="cuda")
for number in range(1, 4):
    version = x._version
    assert x.add_(y) is x and x._version == version + 1
for _ in range(2):
    try:
        y.add_(x)
    except RuntimeError:
        continue
    raise AssertionError("a result of another shape")
assert x.t_().shape == (6, 4) and x.unsqueeze_(0).shape == (1, 6, 4)
assert x.resize_(2, 3).shape == (2, 3)
known = torch.tensor([3, 4], device="cuda")
for _ in range(2):
    known.mul_(2)
assert known.tolist() == [12, 16]
leaf = torch.ones(3, device="cuda", requires_grad=True)
flat = (leaf * 2).view(3, 1)
assert flat.untyped_storage()._cdata == flat.t().untyped_storage()._cdata
flat.sum().backward()
assert leaf.grad.shape == (3,)
"""


@needs_torch
def test_a_result_has_the_form_that_the_fake_mode_gives_it(tmp_path: Path) -> None:
    """Shape, strides and dtype are the fake mode's, at the first time and from the cache."""
    assert exit_code(tmp_path, FORMS) == 0


@needs_torch
def test_an_in_place_operation_keeps_its_tensor(tmp_path: Path) -> None:
    """It returns its tensor, counts versions, raises errors, and computes known values."""
    assert exit_code(tmp_path, IN_PLACE) == 0
