"""Recorded launches under this machine's own Triton and torch: compiled, called, and spoilt."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import re
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch
import triton
from msgspec import convert

from flacheck.guest.card.memory import Layout
from flacheck.guest.engine import releases
from flacheck.guest.workers import values
from flacheck.guest.workers.interpreter_worker import HostMemory, Tensors, recorded_arguments
from flacheck.guest.workers.launchable import describe_binary
from flacheck.model import digest
from flacheck.pipeline.measurement.bundle import Binary, BundledLaunch, Variant
from flacheck.pipeline.measurement.collecting import bundled_launch
from flacheck.pipeline.measurement.launches import MeasuredLaunch
from flacheck.subjects.inputs.launches import RecordedLaunch

TOOLCHAIN = f"triton=={triton.__version__}"
_numbers = itertools.count()


def load(entry: RecordedLaunch) -> Any:
    """Return the function of a recorded launch from its source."""
    assert entry.text is not None
    file = Path(tempfile.mkdtemp()) / f"original_{next(_numbers)}.py"
    file.write_text(entry.text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return releases.unwrap(getattr(module, entry.qualname))


@dataclass
class Original:
    """A recorded launch in one configuration, on tensors of this machine's GPU."""

    entry: RecordedLaunch
    config: Mapping[str, Any]
    grid: tuple[int, ...]
    call: Callable[[], object] = field(init=False)
    compiled: Any = field(init=False)

    def __post_init__(self) -> None:
        entry = self.entry
        assert entry.memory is not None
        function = load(entry)
        launch = entry.without_decorators()
        names = function.fn.__globals__
        request: Any = {"launch": {"args": dict(launch.args)}, "options": {}}
        tensors = msgspec.to_builtins(bundled_launch(MeasuredLaunch(entry, ()), ()).tensors)
        layout = Layout({"storages": list(entry.memory.storages), "tensors": tensors})
        memory = HostMemory(layout.size)
        layout.fill(memory, 0, "normal", 0)
        arguments = recorded_arguments(request, function, Tensors(layout, memory, "cuda").make)
        constants = values.constants(self.config.get("kwargs", {}), names)
        options = {name: each for name, each in self.config.items() if name != "kwargs"}
        settings = {
            **constants,
            **{name: each for name, each in options.items() if each is not None},
        }
        bound = {**arguments, **settings}
        self.compiled = function.run(grid=self.grid, warmup=False, **bound)
        torch.cuda.synchronize()
        # Below the launcher, whose time on the host exceeds that of many kernels on the GPU.
        ordered = [bound.get(name) for name in function.arg_names]
        grid = (*self.grid, 1, 1)[:3]
        self.call = lambda: self.compiled[grid](*ordered)
        arguments = values.arguments(dict(launch.args), names)
        self.description = describe_binary(self.compiled, {**arguments, **settings}, 32)

    def milliseconds(self) -> float:
        """Return the median time by Triton's own benchmark."""
        time: float = triton.testing.do_bench(self.call, return_mode="median")
        return time

    def variant(self, folder: Path, name: str, code: bytes | None = None) -> Variant:
        """Return the binary as a variant under this name, or other code in its place."""
        code = code or self.compiled.asm["cubin"]
        plain = {key: self.description[key] for key in Binary.__struct_fields__}
        plain["digest"] = hashlib.sha256(code).hexdigest()
        (folder / plain["digest"]).write_bytes(zlib.compress(code))
        key = digest([self.entry.kernel, name, plain["digest"]])
        toolchain = f"{TOOLCHAIN}+{name}"
        config = dict(self.config)
        return Variant(toolchain, key, config, self.grid, convert(plain, Binary))

    def bundled(self, *variants: Variant) -> BundledLaunch:
        """Return the launch with these variants."""
        return bundled_launch(MeasuredLaunch(self.entry, ()), variants)


_FLOAT = re.compile(r"0f([0-9A-F]{8})")
_STORE = re.compile(r"(st\.global[^\[\n]*\[\s*%rd\d+)(?:\s*\+\s*(-?\d+))?\s*\]")
_BARRIER = re.compile(r"^\s*(?:@\S+\s+)?(?:bar\.sync|barrier\.sync)[^\n]*\n", re.MULTILINE)
_BEYOND = 16


def spoilt(ptx: str) -> Iterator[tuple[str, str]]:
    """Yield wrong forms of a kernel: a changed constant, a lost barrier, a shifted store."""
    for match in _FLOAT.finditer(ptx):
        number = struct.unpack(">f", bytes.fromhex(match[1]))[0]
        if 1e-30 < abs(number) < 1e30:
            changed = struct.pack(">f", number * 1.25).hex().upper()
            yield "constant", ptx[: match.start(1)] + changed + ptx[match.end(1) :]
            break
    if _BARRIER.search(ptx):
        yield "barrier", _BARRIER.sub("", ptx)
    if _STORE.search(ptx):
        yield (
            "store",
            _STORE.sub(lambda match: f"{match[1]}+{int(match[2] or 0) + _BEYOND}]", ptx),
        )


def assemble(ptx: str) -> bytes | None:
    """Return the binary of an assembly text by the release's own assembler; None if refused."""
    from triton.backends.nvidia.compiler import get_ptxas

    major, minor = torch.cuda.get_device_capability()
    suffix = "a" if major >= 9 else ""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
        source.write_text(ptx)
        name = f"sm_{major}{minor}{suffix}"
        tool = get_ptxas(major * 10 + minor).path if _takes_arch(get_ptxas) else get_ptxas().path
        command = [tool, f"--gpu-name={name}", str(source), "-o", str(out)]
        if subprocess.run(command, capture_output=True).returncode:
            return None
        return out.read_bytes()


def _takes_arch(function: Callable[..., Any]) -> bool:
    code = getattr(function, "__wrapped__", function).__code__
    return bool(code.co_argcount)
