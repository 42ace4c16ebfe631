"""The fake device: tensors on `cuda` with a shape, a dtype and no data, on a machine without a GPU.
torch's own fake tensors give shapes, dtypes and autocast as CUDA's are. What they lack without a
device is put in its place: a device guard that does nothing, an autograd engine, and `torch.cuda`'s
knowledge of the card."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

from ..engine.driver import nothing
from ..engine.messages import CardRow
from . import compiler

TESTED = ("2.11", "2.13")
# c10's table of device guards, one for each of its DeviceTypes, of which CUDA is number 1.
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_CUDA, _SLOTS = 1, 22


class UntestedTorch(RuntimeError):
    """This torch was never tried: its insides may differ where the fake device reaches into it."""

    def __init__(self, version: str) -> None:
        tested = " and ".join(f"{each}.x" for each in TESTED)
        super().__init__(
            f"flacheck's fake device is tested with torch {tested}, and this is torch {version}. "
            f"Install torch {TESTED[-1]} for capturing, or record on a GPU with --device real."
        )


class UnusableTorch(RuntimeError):
    """This build of torch asks for a real GPU where others do not."""

    def __init__(self, version: str, said: str) -> None:
        super().__init__(
            f"torch {version} asks for a GPU that is not there ({said}). Beside flacheck install "
            f"torch's CPU build, of {' or '.join(f'{each}.x' for each in TESTED)}, or record on a "
            "GPU with --device real."
        )


def check(version: str) -> None:
    """Raises UntestedTorch unless the fake device was tested with this torch."""
    if ".".join(version.split(".")[:2]) not in TESTED:
        raise UntestedTorch(version)


class FakeDevice:
    """The card as the process sees it. `guessed` is told what kind of value was made up, each time
    the program reads one that nobody computed."""

    def __init__(self, card: CardRow, guessed: Callable[[str], None]) -> None:
        import torch
        from torch._subclasses import fake_tensor

        check(torch.__version__)
        compiler.put_off()
        # Only now: these reach into torch when they are imported.
        from ..workers import torch_cuda
        from . import autograd, known_values, registrations, tensor_moves

        self._mode = known_values.NoDeviceMode(allow_non_fake_inputs=True)
        self._values = known_values.KnownValues(self._mode, guessed)
        self._run_thread = threading.Thread.run
        # A kernel was launched with these arguments: what it wrote to them nobody knows.
        self.forget_written: Callable[[Iterable[object]], None] = known_values.forget_written
        known_values.install_readers(guessed)
        # torch logs what it then raises.
        logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
        # A torch without CUDA has no guard for it: any other accelerator's stand-in does for one.
        library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
        registry = (ctypes.c_void_p * _SLOTS).in_dll(library, _REGISTRY)
        registry[_CUDA] = next(guard for guard in registry[_CUDA + 1 :] if guard)
        torch_cuda.turn(card)
        autograd.install()
        tensor_moves.install()
        registrations.install()
        torch_cuda.leave_functions_uncompiled()
        # torch would make a real tensor first, for the engine in C++ that is not used here: a build
        # with CUDA refuses to without a GPU.
        fake_tensor.init_gpu_context = nothing
        self._probe(torch)

    def _probe(self, torch: Any) -> None:
        """Raises UnusableTorch when not even one tensor can be made."""
        try:
            with self._mode:
                torch.ones(1, device="cuda") + 1
        except RuntimeError as error:
            said = str(error).strip().partition("\n")[0]
            raise UnusableTorch(torch.__version__, said) from error

    def enter(self) -> None:
        """From here on every tensor is fake, in this thread and in those that start later."""

        # A thread of Python's begins without the modes of the one that started it.
        def run_faked(thread: threading.Thread) -> None:
            with self._mode, self._values:
                self._run_thread(thread)

        setattr(threading.Thread, "run", run_faked)  # noqa: B010
        self._mode.__enter__()
        self._values.__enter__()

    def hold(self) -> None:
        """Enter again what a call took along: one that is ended in the middle of torch's own work,
        which leaves a mode for a moment, never comes back to it."""
        from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

        self._mode.in_kernel_invocation = False
        there = _get_current_dispatch_mode_stack()
        for mode in (self._mode, self._values):
            if not any(each is mode for each in there):
                mode.__enter__()

    def leave(self) -> None:
        """Tensors are real again; what was patched stays patched."""
        setattr(threading.Thread, "run", self._run_thread)  # noqa: B010
        for mode in (self._values, self._mode):
            # What was ended in the middle of torch's own work may have left a mode before.
            with contextlib.suppress(RuntimeError):
                mode.__exit__(None, None, None)
