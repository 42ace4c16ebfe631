"""Cards by name: a target's row with the size of the card that was asked for."""

import re
from dataclasses import asdict

from flacheck.errors import UsageError
from flacheck.model import Json
from flacheck.tables import targets

# name → (what its driver calls it, multiprocessors, GiB of memory), where it differs from its
# target's own card; from the vendors' data sheets. The names are those that torch gives, for
# packages choose kernels by them.
CARDS = {
    "h200": ("NVIDIA H200", 132, 140),
    "h800": ("NVIDIA H800", 132, 80),
    "h20": ("NVIDIA H20", 78, 96),
    "gh200": ("NVIDIA GH200 480GB", 132, 96),
    "a800": ("NVIDIA A800-SXM4-80GB", 108, 80),
    "a30": ("NVIDIA A30", 56, 24),
    "a10": ("NVIDIA A10", 72, 24),
    "a40": ("NVIDIA A40", 84, 48),
    "a6000": ("NVIDIA RTX A6000", 84, 48),
    "l4": ("NVIDIA L4", 58, 24),
    "l40": ("NVIDIA L40", 142, 48),
    "l40s": ("NVIDIA L40S", 142, 48),
}


def card(name: str) -> Json:
    """The card as the guest takes it: a row of the target table, by the card's or the target's
    name.

    Raises UsageError for an unknown one, and for AMD's, whose torch is another.
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
    """The target of a card by what its driver calls it; None for one that is in no table."""
    named = next((name for name, (driver, _, _) in CARDS.items() if driver == gpu), None)
    if named is not None:
        return targets.find(named).name
    # Drivers add the board and its memory to the model's name: "NVIDIA H100 PCIe".
    words = re.split(r"[\s-]+", gpu)
    for count in range(len(words), 0, -1):
        try:
            return targets.find("".join(words[:count])).name
        except UsageError:
            continue
    return None
