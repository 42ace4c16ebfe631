"""The fake device: tensors on `cuda` without data, on a machine without a GPU.

torch's own fake tensors have shapes, dtypes and autocast as on CUDA. This module adds the parts
that they lack without a device: a device guard that does nothing, an autograd engine, and the
properties of the card in `torch.cuda`.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..engine.driver import nothing
from ..engine.messages import CardRow
from . import compiler

TESTED_RELEASES = ("2.11", "2.13")
# c10's table of device guards, with one for each DeviceType; CUDA is number 1.
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_CUDA, _SLOTS = 1, 22


class UntestedTorch(RuntimeError):
    """A torch release that was never tested: the internals that the fake device uses may differ."""

    def __init__(self, version: str) -> None:
        releases = " and ".join(f"{each}.x" for each in TESTED_RELEASES)
        super().__init__(
            f"flacheck's fake device is tested with torch {releases}, and this is torch {version}. "
            f"Install torch {TESTED_RELEASES[-1]} for capturing, or record on a GPU with "
            "--device real."
        )


class UnusableTorch(RuntimeError):
    """A build of torch that needs a real GPU where others do not."""

    def __init__(self, version: str, reason: str) -> None:
        releases = " or ".join(f"{each}.x" for each in TESTED_RELEASES)
        super().__init__(
            f"torch {version} asks for a GPU that is not there ({reason}). Beside flacheck install "
            f"torch's CPU build, of {releases}, or record on a GPU with --device real."
        )


def check(version: str) -> None:
    """Raise UntestedTorch unless the fake device was tested with this torch."""
    release = ".".join(version.split(".")[:2])
    if release not in TESTED_RELEASES:
        raise UntestedTorch(version)


class FakeDevice:
    """The imitated card of this process.

    `on_guess` is called with the kind of value each time the program reads a value that was not
    computed.
    """

    def __init__(
        self, card: CardRow, on_guess: Callable[[str], None], compiles: bool = False
    ) -> None:
        import torch
        from torch._subclasses import fake_tensor

        check(torch.__version__)
        compiler.put_off()
        # Only now, because these modules use torch's internals when they are imported.
        from ..workers import torch_cuda
        from . import (
            autograd,
            card_kernels,
            inductor,
            known_values,
            registrations,
            tensor_moves,
        )

        self._mode = known_values.NoDeviceMode(allow_non_fake_inputs=True)
        self._values = known_values.KnownValues(self._mode, on_guess)
        self._run_thread = threading.Thread.run
        # Called with the arguments of a launch, whose results are unknown.
        self.forget_written: Callable[[Iterable[object]], None] = known_values.forget_written
        known_values.install_readers(on_guess)
        # torch also logs the errors that it raises.
        logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
        # A torch without CUDA lacks its guard; that of another accelerator's stand-in works too.
        folder = os.path.dirname(torch.__file__)
        path = os.path.join(folder, "lib", "libc10.so")
        library = ctypes.CDLL(path)
        registry = (ctypes.c_void_p * _SLOTS).in_dll(library, _REGISTRY)
        registry[_CUDA] = next(guard for guard in registry[_CUDA + 1 :] if guard)
        torch_cuda.turn(card)
        # Before the registrations of a program are noted.
        card_kernels.install(self._mode, self.entered)
        autograd.install()
        tensor_moves.install()
        registrations.install()
        torch_cuda.disable_torchscript()
        # Called after the import of modules of torch's compiler.
        self.compiler_actions: dict[str, Callable[[], None]] = {}
        if compiles:
            inductor.install()
            self.compiler_actions = inductor.actions()
        else:
            torch_cuda.leave_functions_uncompiled()
            # Nothing is compiled, so no operation needs torch's guard against the compiler.
            dispatch = inspect.unwrap(known_values.KnownValues.__torch_dispatch__)
            setattr(known_values.KnownValues, "__torch_dispatch__", dispatch)  # noqa: B010
        # torch would first make a real tensor for the C++ engine, which is not used here. A build
        # with CUDA cannot do so without a GPU.
        fake_tensor.init_gpu_context = nothing
        self._probe(torch)

    def _probe(self, torch: Any) -> None:
        """Raise UnusableTorch if not even one tensor can be made."""
        try:
            with self._mode:
                torch.ones(1, device="cuda") + 1
        except RuntimeError as error:
            reason = str(error).strip().partition("\n")[0]
            raise UnusableTorch(torch.__version__, reason) from error

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Make tensors fake in this thread until the block ends."""
        with self._mode, self._values:
            yield

    def enter(self) -> None:
        """Make every tensor fake from now on, in this thread and in later threads."""

        # A Python thread starts without the modes of its parent thread.
        def run_faked(thread: threading.Thread) -> None:
            with self.entered():
                self._run_thread(thread)

        setattr(threading.Thread, "run", run_faked)  # noqa: B010
        self._mode.__enter__()
        self._values.__enter__()

    def hold(self) -> None:
        """Enter the modes again if a call that was ended has left them.

        torch's own work leaves a mode for a moment. A call that is ended at that point does not
        return to the mode.
        """
        from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

        self._mode.in_kernel_invocation = False
        active_modes = _get_current_dispatch_mode_stack()
        for mode in (self._mode, self._values):
            if not any(each is mode for each in active_modes):
                mode.__enter__()

    def leave(self) -> None:
        """Make tensors real again; patches stay."""
        setattr(threading.Thread, "run", self._run_thread)  # noqa: B010
        for mode in (self._values, self._mode):
            # A call that was ended in the middle of torch's own work may have left a mode already.
            with contextlib.suppress(RuntimeError):
                mode.__exit__(None, None, None)
