"""The last part of a script: how the kernel is handed to the compiler, in the form that each
release takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from flacheck.repro.kernel.block_types import NAMES
from flacheck.repro.kernel.specimen import Specimen

_DRIVER = '''\
class Driver:
    """A GPU that is not there, as far as compiling reaches."""

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0

    def get_current_target(self):
        return {target}
{more}

class Pointer:
    """A tensor without data."""

    def __init__(self, dtype, align=16):
        self.dtype, self.align = dtype, align

    def data_ptr(self):
        return self.align

    def ptr_range(self):
        return 2**31 - 1


triton.runtime.driver.set_active(Driver())
'''
_TUNING = """
    def get_benchmarker(self):
        return lambda *args, **kwargs: [1.0, 1.0, 1.0]

    def get_active_torch_device(self):
        return None

    def get_empty_cache_for_benchmark(self):
        return None

    def clear_cache(self, cache):
        pass
"""

# Autotuners look at the driver as soon as they are made, those of 3.0 and 3.1 also for torch.
_TORCH = """\
# Triton 3.0 and 3.1 import torch here and use nothing of it.
sys.modules.setdefault("torch", types.ModuleType("torch"))


"""


def of_types(specimen: Specimen, target: str, check: str) -> str:
    """A compile of a kernel whose parameters are all pointers of no known alignment."""
    types = ", ".join(f'"{name}": "*{spec["dtype"]}"' for name, spec in specimen.args.items())
    options = ", ".join(f'"{name}": {value!r}' for name, value in specimen.options.items())
    call = f"triton.compile(source, target={target}, options={{{options}}})"
    return f"source = ASTSource({specimen.name}, {{{types}}}, {{}})\n" + _checked(call, check)


def of_launch(specimen: Specimen, target: str, check: str) -> str:
    """The kernel's own launch, on a GPU that is not there."""
    options = [f"{name}={value!r}" for name, value in specimen.options.items()]
    call = _call(specimen, options)
    return _DRIVER.format(target=target, more="") + _checked(call, check)


def before_autotuner(target: str) -> str:
    """What has to stand before a kernel with an autotuner."""
    return _TORCH + _DRIVER.format(target=target, more=_TUNING) + "\n\n"


def of_autotuner(specimen: Specimen, check: str) -> str:
    """Only the timing is replaced: the key is looked up, and the kernel compiled, by the autotuner
    itself. A kernel whose import fails needs no launch.
    """
    if specimen.stage == "import":
        return 'print("the kernel was decorated")\n'
    timing = f"{specimen.name}._bench = lambda *args, **kwargs: [1.0, 1.0, 1.0]\n"
    return timing + _checked(_call(specimen, []), check)


def _checked(call: str, check: str) -> str:
    """The compile, its result kept where something is done with it."""
    if check:
        return f"compiled = {call}\n{check}"
    return f"{call}\n"


def _call(specimen: Specimen, options: list[str]) -> str:
    arguments = [f"{name}={_argument(spec)}" for name, spec in specimen.args.items()]
    lines = "".join(f"    {part},\n" for part in [*arguments, *options])
    return f"{specimen.name}.run(\n{lines}    grid=None,\n    warmup=True,\n)"


def _argument(spec: Any) -> str:
    """The Python expression for one argument of a launch."""
    if not isinstance(spec, Mapping):
        return repr(spec)
    if "dtype" in spec:
        pointer = f'Pointer("{NAMES[spec["dtype"]]}"'
        align = spec.get("align", 16)
        # Compilers only ask whether an address is a multiple of 16 bytes.
        if align % 16:
            pointer += f", {align}"
        return f"{pointer})"
    if "constexpr" in spec:
        return _constant(spec["constexpr"])
    if "tuple" in spec:
        return _tuple([_argument(item) for item in spec["tuple"]])
    return repr(next(iter(spec.values())))


def _constant(value: Any) -> str:
    """The Python expression for a constexpr."""
    if isinstance(value, Mapping):
        if "dtype" in value:
            return f"tl.{NAMES.get(value['dtype'], value['dtype'])}"
        if "tuple" in value:
            return _tuple([_constant(item) for item in value["tuple"]])
        return str(value.get("function"))
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _tuple(parts: list[str]) -> str:
    return "(" + "".join(f"{part}, " for part in parts).rstrip(" ") + ")"
