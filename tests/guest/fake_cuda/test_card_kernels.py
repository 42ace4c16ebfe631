"""Operators on the imitated card while torch's modes are off, as where its compiler computes."""

from __future__ import annotations

from pathlib import Path

from tests.captured import exit_code, needs_torch

CREATIONS = """
from torch.utils._python_dispatch import _disable_current_modes

creations = {
    "torch.full((2,), 1.5, device='cuda')": [3.0, 3.0],
    "torch.full((1,), True, dtype=torch.bool, device='cuda')": [True],
    "torch.tensor([1.0, 2.0], device='cuda')": [2.0, 4.0],
    "torch.arange(3, device='cuda:0')": [0, 2, 4],
    "torch.tril_indices(2, 2, device='cuda')[0]": [0, 2, 2],
    "torch.ones(2).cuda()": [2.0, 2.0],
}
for creation, doubled in creations.items():
    with _disable_current_modes():
        made = eval(creation)
        assert made.device == torch.device("cuda", 0), (creation, made.device)
        assert (made + made).tolist() == doubled, creation
launch(torch.empty(64, device="cuda"))
"""


@needs_torch
def test_a_tensor_that_is_made_outside_of_the_modes_has_its_value(tmp_path: Path) -> None:
    """The compiler folds constants with such tensors and reads them."""
    assert exit_code(tmp_path, CREATIONS) == 0


@needs_torch
def test_random_tensors_and_products_outside_of_the_modes_have_a_form(tmp_path: Path) -> None:
    """Random tensors as large as those of the compiler's benchmarks have a form without values."""
    program = """
    from torch.utils._python_dispatch import _disable_current_modes

    outside = torch.randn(8, 8, device="cuda")
    with _disable_current_modes():
        product = torch.randn(4, 8, device="cuda") @ outside
        assert product.shape == (4, 8) and product.device.type == "cuda"
        leaf = torch.nn.Linear(8, 2).cuda()
        leaf(product).sum().backward()
        assert leaf.weight.grad.shape == (2, 8)
    launch(outside)
    """
    assert exit_code(tmp_path, program) == 0


@needs_torch
def test_a_gru_cell_runs_with_its_backward_pass(tmp_path: Path) -> None:
    """Only the card has the cell's fused kernel, so torch lacks a rule for its form."""
    program = """
    cell = torch.nn.GRUCell(8, 16).cuda()
    state = cell(torch.randn(4, 8, device="cuda"))
    assert state.shape == (4, 16)
    state.sum().backward()
    assert all(each.grad.shape == each.shape for each in cell.parameters())
    launch(state)
    """
    assert exit_code(tmp_path, program) == 0
