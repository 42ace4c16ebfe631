"""Cards by name: the properties that the guest receives, and the target of each card."""

from __future__ import annotations

import pytest

from flacheck.errors import UsageError
from flacheck.subjects.captures.cards import CARDS, card, target_of
from flacheck.tables.targets import TARGETS


def test_a_card_is_its_targets_row_with_its_own_size() -> None:
    """Packages read the name and count multiprocessors."""
    assert (card("h100")["gpu"], card("h100")["multiprocessors"]) == ("NVIDIA H100 80GB HBM3", 132)
    assert (card("H20")["gpu"], card("H20")["multiprocessors"]) == ("NVIDIA H20", 78)
    assert card("h20")["shared_limit"] == card("h100")["shared_limit"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("h3000", "unknown target 'h3000'"), ("mi300x", "flacheck capture --device real")],
)
def test_a_card_that_cannot_be_imitated_is_an_error(name: str, message: str) -> None:
    """The card is unknown, or a torch for another card is installed."""
    with pytest.raises(UsageError, match=message):
        card(name)


@pytest.mark.parametrize(
    ("gpu", "target"),
    [
        *((row.gpu, name) for name, row in TARGETS.items()),
        *((driver, card(name)["name"]) for name, (driver, _, _) in CARDS.items()),
        ("NVIDIA H100 PCIe", "sm90"),
        ("NVIDIA H100 NVL", "sm90"),
        ("NVIDIA A100-PCIE-40GB", "sm80"),
        ("Tesla V100-PCIE-16GB", "sm70"),
        ("NVIDIA A10G", "sm86"),
        ("NVIDIA GeForce GTX 1080", None),
        ("NVIDIA", None),
        ("real", None),
        ("", None),
    ],
)
def test_a_drivers_name_leads_to_the_target(gpu: str, target: str | None) -> None:
    """The name may contain a board and a memory size; a card outside the table has no target."""
    assert target_of(gpu) == target
