"""A driver for a GPU that is not there: every release asks it which target it compiles for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import releases
from .messages import CardRow


def nothing(*args: object, **kwargs: object) -> None:
    """Stands for whatever a card would do."""


def constant(value: object) -> Callable[..., Any]:
    """Says always the same, whatever it is asked."""
    return lambda *args, **kwargs: value


class Launcher:
    """Stands where a release compiles its launcher: a launch gets this far, and nothing runs."""

    __init__ = __call__ = nothing


class TargetDriver:
    """Triton's driver protocol, as far as compiling and autotuning reach."""

    launcher_cls = Launcher
    set_current_device = get_empty_cache_for_benchmark = clear_cache = unload_module = nothing
    get_current_stream = constant(0)
    is_active = constant(True)
    # The release's class for targets, set when Triton has been imported.
    target_class: Callable[..., object]

    def __init__(self) -> None:
        self.card: CardRow = {}
        self._indices: dict[str, int] = {}
        # Triton asks the driver's `utils` for a card's properties and to load a binary.
        self.utils = self

    def select(self, card: CardRow) -> None:
        """From now on this card is the current device."""
        self.card = card

    def get_current_device(self) -> int:
        """One index a target: releases that cache a backend by device then keep targets apart."""
        return self._indices.setdefault(self.card["name"], len(self._indices))

    def get_current_target(self) -> object:
        return self.target_class(self.card["backend"], self.card["arch"], self.card["warp_size"])

    def get_device_capability(self, device: int = 0) -> tuple[int, ...]:
        return tuple(self.card["capability"])

    def get_active_torch_device(self) -> Any:
        import torch

        # As the real driver has it, with its number: tensors on the card say theirs, and programs
        # compare. To torch every imitated card is the first.
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda

    def get_benchmarker(self) -> Callable[..., list[float]]:
        return lambda kernel_call, quantiles=None, **_: [1.0, 1.0, 1.0]

    def map_python_to_cpp_type(self, name: str) -> str:
        return name

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Properties of the real card that stands for the target."""
        card = self.card
        return {
            "max_shared_mem": card["shared_limit"],
            "multiprocessor_count": card["multiprocessors"],
            "max_num_regs": card["registers"],
            "warpSize": card["warp_size"],
            # Speeds of no card: they go into estimates of a run time, and nothing runs.
            "sm_clock_rate": 1_000_000,
            "mem_clock_rate": 1_000_000,
            "mem_bus_width": 1024,
        }

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[int, ...]:
        """What loading says: module, function, registers, spills; since 3.4 the most threads."""
        return releases.binary_handles(self.card["max_threads"])
