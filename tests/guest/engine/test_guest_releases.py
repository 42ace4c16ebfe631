"""Differences between Triton's releases, beside the installed one and small stand-ins."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

from flacheck.guest.engine import releases
from flacheck.guest.engine.assembler import Assembler
from flacheck.guest.engine.driver import TargetDriver

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
CARD: Any = {
    "name": "sm90",
    "backend": "cuda",
    "arch": 90,
    "warp_size": 32,
    "capability": [9, 0],
    "shared_limit": 232_448,
    "multiprocessors": 132,
    "registers": 65_536,
    "max_threads": 1024,
}
PTXAS = """\
ptxas info    : Compiling entry function 'kernel' for 'sm_90a'
ptxas info    : Function properties for kernel
    16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers
"""
AMDGCN = """\
    .private_segment_fixed_size: 8
    .vgpr_count:     12
    .vgpr_spill_count: 3
"""


def positional() -> SimpleNamespace:
    """An autotuner as 3.0 and 3.1 have them."""
    return SimpleNamespace(arg_names=["x", "n", "BLOCK", "FLAG"], key_idx=[1, 3])


def by_name() -> SimpleNamespace:
    """An autotuner as later releases have them."""
    return SimpleNamespace(arg_names=["x", "n", "BLOCK", "FLAG"], keys=["n", "FLAG"])


@pytest.mark.parametrize("tuner", [positional(), by_name()])
def test_keys_have_names_under_every_release(tuner: SimpleNamespace) -> None:
    """Keys are read and set alike under every release."""
    assert releases.key_names(tuner) == ["n", "FLAG"]
    releases.set_keys(tuner, ["BLOCK"])
    assert releases.key_names(tuner) == ["BLOCK"]
    releases.set_keys(tuner, [])
    assert releases.key_names(tuner) == []


def test_old_releases_keep_positions() -> None:
    """Only old releases may read past the end of the passed arguments."""
    assert releases.has_positional_keys(positional())
    assert not releases.has_positional_keys(by_name())


def test_a_borrowed_autotuner_is_as_before() -> None:
    """Additions are removed too, and an error leaves the autotuner unchanged."""
    tuner = by_name()
    with pytest.raises(ValueError), releases.restore_autotuner(tuner):
        tuner.keys, tuner.cache = [], {1: 2}
        raise ValueError
    assert vars(tuner) == vars(by_name())


def test_compiled_kernels_are_forgotten_under_every_release() -> None:
    """Up to 3.2 there is one cache; later there are one or two for each device."""
    old = SimpleNamespace(cache={"key": "compiled"})
    backend = {"not": "a cache"}
    new = SimpleNamespace(device_caches={0: ({"key": "compiled"}, {"key": 1}, backend)})
    releases.forget_compiled(old)
    releases.forget_compiled(new)
    assert old.cache == {}
    assert new.device_caches[0] == ({}, {}, {"not": "a cache"})


@needs_triton
def test_decorators_are_seen_through() -> None:
    """Heuristics supply the arguments that the launch leaves out, and nothing else."""
    import triton

    @triton.jit
    def kernel(x, n, HALF):  # type: ignore[no-untyped-def]
        pass

    autotuner = releases.add_autotuner(kernel, [])
    function = triton.heuristics({"HALF": lambda args: args["n"] // 2})(autotuner)
    assert releases.unwrap(function) is kernel
    assert releases.strip_decorators(function) is kernel
    assert releases.autotuner(function) is autotuner
    assert releases.autotuner(kernel) is None
    assert releases.with_heuristics(function, {"n": 8}) == {"n": 8, "HALF": 4}
    assert releases.with_heuristics(function, {"n": 8, "HALF": 1}) == {"n": 8, "HALF": 1}


@needs_triton
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
def test_a_recorded_heuristic_is_not_computed_again() -> None:
    """A heuristic may read a tensor's shape, and its recorded result is used since no tensor
    exists."""
    from triton.runtime.autotuner import Heuristics

    def heuristic(arguments: dict[str, Any]) -> Any:
        return arguments["x"].shape[0]

    kernel = Heuristics(SimpleNamespace(fn=None), ["x", "N"], {"N": heuristic})
    assert releases.with_heuristics(kernel, {"x": 1, "N": 5}) == {"x": 1, "N": 5}
    x = SimpleNamespace(shape=(7,))
    assert releases.with_heuristics(kernel, {"x": x})["N"] == 7


def test_the_driver_is_the_card() -> None:
    """The driver has the card's properties, and another index for each target."""
    from triton.backends.compiler import GPUTarget

    driver = TargetDriver()
    driver.target_class = GPUTarget
    driver.select(CARD)
    assert driver.get_current_target() == GPUTarget("cuda", 90, 32)
    assert driver.utils.get_device_properties()["max_shared_mem"] == 232_448
    assert driver.get_device_capability() == (9, 0)
    assert driver.get_current_device() == 0
    driver.select({**CARD, "name": "sm80"})
    assert driver.get_current_device() == 1
    driver.select(CARD)
    assert driver.get_current_device() == 0


def test_the_assemblers_log_gives_registers_stack_and_spills(tmp_path: Any) -> None:
    """Read from its run; of AMD's from the text that it assembles."""
    assembler = Assembler(str(tmp_path))
    log = tmp_path / "log"
    log.write_text(PTXAS)
    assembler._run = lambda *args, **kwargs: SimpleNamespace(returncode=0)  # type: ignore[assignment, return-value]
    with log.open() as stderr:
        assembler._run_and_read(["ptxas"], stderr=stderr)
    nvidia = SimpleNamespace(asm={"ptx": "", "cubin": b""})
    amd = SimpleNamespace(asm={"amdgcn": AMDGCN})
    assert assembler.usage(nvidia) == {"registers": 40, "stack": 16, "spills": 24}
    assert assembler.usage(amd) == {"registers": 12, "stack": 8, "spills": 3}


def test_a_release_that_hides_the_log_has_its_binary_read(tmp_path: Any) -> None:
    """cuobjdump gives all figures of the binary but the spills."""
    cuobjdump = tmp_path / "cuobjdump"
    cuobjdump.write_text("#!/bin/sh\necho ' Function k:' ; echo '  REG:17 STACK:0 SHARED:0'\n")
    cuobjdump.chmod(0o755)
    binary = SimpleNamespace(asm={"cubin": b"\x7fELF"})
    assert Assembler(str(tmp_path)).usage(binary) == {"registers": 17, "stack": 0}
