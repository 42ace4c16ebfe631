"""A driver for a GPU that is not present. Every release reads its compile target from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import releases
from .messages import CardRow


def nothing(*args: object, **kwargs: object) -> None:
    """Do nothing, in place of a method that would use a card."""


def constant(value: object) -> Callable[..., Any]:
    """Return a function that always returns this value."""
    return lambda *args, **kwargs: value


class Launcher:
    """A stand-in for a compiled launcher: a launch ends here, and nothing runs."""

    __init__ = __call__ = nothing


class TargetDriver:
    """Triton's driver protocol, as far as compiling and autotuning use it."""

    launcher_cls = Launcher
    set_current_device = get_empty_cache_for_benchmark = clear_cache = unload_module = nothing
    get_current_stream = constant(0)
    is_active = constant(True)
    # The release's class for targets, set when Triton has been imported.
    target_class: Callable[..., object]

    def __init__(self) -> None:
        self.card: CardRow = {}
        self._indices: dict[str, int] = {}
        # Triton reads a card's properties and loads a binary through the driver's `utils`.
        self.utils = self

    def select(self, card: CardRow) -> None:
        """Make this card the current device."""
        self.card = card

    def get_current_device(self) -> int:
        """Return one index a target, so that a release that caches by device separates targets."""
        return self._indices.setdefault(self.card["name"], len(self._indices))

    def get_current_target(self) -> object:
        return self.target_class(self.card["backend"], self.card["arch"], self.card["warp_size"])

    def get_device_capability(self, device: int = 0) -> tuple[int, ...]:
        return tuple(self.card["capability"])

    def get_active_torch_device(self) -> Any:
        import torch

        # With the index, as the real driver returns it: tensors on the card have one, and programs
        # compare devices. In torch every imitated card is the first.
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda

    def get_benchmarker(self) -> Callable[..., list[float]]:
        return lambda kernel_call, quantiles=None, **_: [1.0, 1.0, 1.0]

    def map_python_to_cpp_type(self, name: str) -> str:
        return name

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Return the properties of the real card that stands for the target."""
        card = self.card
        return {
            "max_shared_mem": card["shared_limit"],
            "multiprocessor_count": card["multiprocessors"],
            "max_num_regs": card["registers"],
            "warpSize": card["warp_size"],
            # Arbitrary speeds: they only affect estimates of a run time, and nothing runs.
            "sm_clock_rate": 1_000_000,
            "mem_clock_rate": 1_000_000,
            "mem_bus_width": 1024,
        }

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[int, ...]:
        """Return the result of loading a binary, as `binary_handles` has it."""
        return releases.binary_handles(self.card["max_threads"])
