"""Cards by name: a target's row with the size of a card."""

import re
from dataclasses import asdict

from flacheck.errors import UsageError
from flacheck.model import Json
from flacheck.tables import targets

# name → (the driver's name, multiprocessors, GiB of memory) of cards other than their target's own;
# from the vendors' data sheets. We found none of NVIDIA for A10G, which EC2 has: its capability is
# in github.com/pytorch/test-infra/pull/769, its 80 multiprocessors are in texts of others alone.
# The names are torch's, because packages choose kernels by them.
CARDS = {
    "h200": ("NVIDIA H200", 132, 140),
    "h800": ("NVIDIA H800", 132, 80),
    "h20": ("NVIDIA H20", 78, 96),
    "gh200": ("NVIDIA GH200 480GB", 132, 96),
    "a800": ("NVIDIA A800-SXM4-80GB", 108, 80),
    "a30": ("NVIDIA A30", 56, 24),
    "a10": ("NVIDIA A10", 72, 24),
    "a10g": ("NVIDIA A10G", 80, 24),
    "a40": ("NVIDIA A40", 84, 48),
    "a6000": ("NVIDIA RTX A6000", 84, 48),
    "l4": ("NVIDIA L4", 58, 24),
    "l40": ("NVIDIA L40", 142, 48),
    "l40s": ("NVIDIA L40S", 142, 48),
}


def card(name: str) -> Json:
    """Return the guest's description of a card: a row of the target table.

    Raises UsageError for an unknown card or target, and for AMD's, which need another torch.
    """
    target = targets.find(name)
    if target.backend != "cuda":
        raise UsageError(
            f"--device {name}: only NVIDIA cards can be imitated. Record the launches on the card "
            "itself: flacheck capture --device real -- COMMAND"
        )
    row: Json = asdict(target)
    if name.lower() in CARDS:
        row["gpu"], row["multiprocessors"], row["memory_gb"] = CARDS[name.lower()]
    return row


def target_of(gpu: str) -> str | None:
    """Return the target of a card by its driver's name; None for an unknown card."""
    for name, (driver_name, _, _) in CARDS.items():
        if driver_name == gpu:
            return targets.find(name).name
    # Drivers add the board and its memory to the model's name: "NVIDIA H100 PCIe".
    words = re.split(r"[\s-]+", gpu)
    for count in range(len(words), 0, -1):
        try:
            return targets.find("".join(words[:count])).name
        except UsageError:
            continue
    return None
