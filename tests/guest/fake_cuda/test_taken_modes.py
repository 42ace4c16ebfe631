"""A call that is ended inside torch may remove the fake card's modes: later calls get them back."""

from __future__ import annotations

from pathlib import Path

from tests.guest.search.test_drive import KERNELS, driven, package, pytestmark  # noqa: F401

TAKING = """
import torch
from torch.utils._python_dispatch import _pop_mode
from tiny.kernels import rare, scale

def first(x: torch.Tensor):
    rare[(1,)](x, torch.empty_like(x), K=16)
    while True:
        _pop_mode()

def second(x: torch.Tensor):
    scale[(1,)](x, torch.empty_like(x) + 1, x, 1, K=32)
"""


def test_the_calls_after_it_launch(tmp_path: Path) -> None:
    """The later calls launch kernels with tensors on the card."""
    folder = package(tmp_path, kernels=KERNELS, taking=TAKING)
    launches, _ = driven(folder)
    assert {launch.kernel for launch in launches.launches} == {
        "tiny.kernels:rare",
        "tiny.kernels:scale",
    }
