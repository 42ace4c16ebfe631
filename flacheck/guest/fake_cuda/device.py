"""The fake device: tensors on `cuda` with a shape, a dtype and no data, on a machine without a GPU.

torch's own fake tensors give shapes, dtypes and autocast as CUDA's are. What they lack without a
device is put in its place: a device guard that does nothing, an autograd engine, and `torch.cuda`'s
knowledge of the card.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading

TESTED = ("2.11", "2.13")
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_CUDA, _SLOTS = 1, 22


class UntestedTorch(RuntimeError):
    """This torch was never tried: its insides may differ where the fake device reaches into them."""

    def __init__(self, version: str) -> None:
        tested = " and ".join(f"{each}.x" for each in TESTED)
        super().__init__(
            f"flacheck's fake device is tested with torch {tested}, and this is torch {version}. "
            f"Install torch {TESTED[-1]} for capturing, or record on a GPU with --device real."
        )


def check(version: str) -> None:
    """Raises UntestedTorch unless the fake device was tested with this torch."""
    if ".".join(version.split(".")[:2]) not in TESTED:
        raise UntestedTorch(version)


class FakeDevice:
    """The card as the process sees it. `card` is a row of flacheck's target table; `guessed` is
    told what kind of value was made up, each time the program reads one that nobody computed.
    """

    def __init__(self, card: dict, guessed) -> None:
        import torch

        check(torch.__version__)
        from ..workers import torch_cuda
        from . import autograd, known_values, pickled, placement

        self.mode = known_values.NoDeviceMode(allow_non_fake_inputs=True)
        self.values = known_values.KnownValues(self.mode, guessed)
        known_values.install_readers(guessed)
        logging.getLogger("torch._subclasses.fake_tensor").setLevel(
            logging.CRITICAL
        )  # it logs what it then raises
        _install_guard(torch)
        torch_cuda.turn(card)
        autograd.install()
        pickled.install()
        placement.install()
        torch_cuda.leave_functions_uncompiled()
        _install_tensors(torch)

    def enter(self) -> None:
        """From here on every tensor is fake, in this thread and in those that start later."""
        self._run_thread = threading.Thread.run
        threading.Thread.run = lambda thread: self._run_faked(thread)
        self.mode.__enter__()
        self.values.__enter__()

    def _run_faked(self, thread) -> None:
        with self.mode, self.values:
            self._run_thread(thread)

    def launched(self, arguments) -> None:
        """A kernel had these arguments: what it wrote to, nobody knows."""
        from .known_values import forget_written

        forget_written(arguments)

    def leave(self) -> None:
        threading.Thread.run = self._run_thread
        self.values.__exit__(None, None, None)
        self.mode.__exit__(None, None, None)


def _install_guard(torch) -> None:
    """A torch built without CUDA has no guard for its tensors: any other accelerator's stand-in
    does for one.
    """
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
    registry = (ctypes.c_void_p * _SLOTS).in_dll(library, _REGISTRY)
    registry[_CUDA] = next(guard for guard in registry[_CUDA + 1 :] if guard)


def _install_tensors(torch) -> None:
    torch.utils.swap_tensors = _swap_tensors
    torch.Tensor.pin_memory = lambda self, *_: self
    torch.Tensor.is_pinned = lambda self, *_: False
    torch.Tensor.record_stream = lambda self, *_: None


def _swap_tensors(mine, other) -> None:
    """What a module does to its parameters when it moves; torch's own gives up on fake ones that
    are referred to.
    """
    from .known_values import copy_value

    mine.data = other
    mine.fake_device = other.fake_device
    copy_value(other, mine)
