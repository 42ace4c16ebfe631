"""A driver for a GPU that is not there: every release asks it which target it compiles for.

The device's index is the target's, so that releases which cache a backend by device keep targets
apart.
"""

from __future__ import annotations

from . import releases


class Utils:
    """Properties of the real card that stands for the target."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def get_device_properties(self, device: int = 0) -> dict:
        card = self._driver.card
        return {
            "max_shared_mem": card["shared_limit"],
            "multiprocessor_count": card["multiprocessors"],
            "max_num_regs": card["registers"],
            "warpSize": card["warp_size"],
            "sm_clock_rate": 1_000_000,
            "mem_clock_rate": 1_000_000,
            "mem_bus_width": 1024,
        }

    def load_binary(self, name: str, kernel, shared: int, device: int) -> tuple:
        """What loading onto the card says: module, function, registers, spills and, since 3.5, the
        most threads.
        """
        return releases.loaded(self._driver.card["max_threads"])

    def unload_module(self, module) -> None:
        pass


class Launcher:
    """Stands where a release compiles its launcher: a launch gets this far, and nothing runs."""

    def __init__(self, src, metadata) -> None:
        pass

    def __call__(self, *args, **kwargs) -> None:
        pass


class Driver:
    """Triton's driver protocol, as far as compiling and autotuning reach. `card` is a row of
    flacheck's target table: backend, arch, warp_size, shared_limit, multiprocessors, registers,
    max_threads.
    """

    launcher_cls = Launcher

    def __init__(self) -> None:
        self.card: dict = {}
        self._indices: dict[str, int] = {}
        self.utils = Utils(self)
        self.target_class = None

    def select(self, card: dict) -> None:
        self.card = card

    def get_current_device(self) -> int:
        return self._indices.setdefault(self.card["name"], len(self._indices))

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_current_target(self):
        return self.target_class(self.card["backend"], self.card["arch"], self.card["warp_size"])

    def get_device_capability(self, device: int = 0) -> tuple:
        return tuple(self.card["capability"])

    def get_active_torch_device(self):
        import torch

        return torch.device("cuda")

    def get_device_interface(self):
        import torch

        return torch.cuda

    def get_benchmarker(self):
        return lambda kernel_call, quantiles=None, **_: [1.0, 1.0, 1.0]

    def get_empty_cache_for_benchmark(self):
        return None

    def clear_cache(self, cache) -> None:
        pass

    def map_python_to_cpp_type(self, name: str) -> str:
        return name

    def is_active(self) -> bool:
        return True
