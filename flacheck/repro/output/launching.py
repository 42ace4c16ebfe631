"""The last part of a script: how the kernel is handed to the compiler, in the form that each
release takes."""

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


def launched(specimen: Specimen, target: str, check: str, typed: bool) -> tuple[str, str, str]:
    """What the script imports, what stands before the kernel, and its launch; `typed` says nothing
    but that all parameters are pointers of no known alignment."""
    if typed:
        types = ", ".join(f'"{name}": "*{spec["dtype"]}"' for name, spec in specimen.args.items())
        options = ", ".join(f'"{name}": {value!r}' for name, value in specimen.options.items())
        source = f"source = ASTSource({specimen.name}, {{{types}}}, {{}})\n"
        call = f"triton.compile(source, target={target}, options={{{options}}})"
        imports = "    from triton.compiler import ASTSource\n"
        return imports, "", source + _checked(call, check)
    if specimen.stage == "compile":
        driver = _DRIVER.format(target=target, more="")
        return "", "", driver + _checked(_call(specimen, specimen.options), check)
    # A kernel whose import fails needs no launch.
    launch = 'print("the kernel was decorated")\n'
    if specimen.stage == "autotune":
        # Only the timing is replaced: the autotuner itself looks up the key and compiles.
        launch = f"{specimen.name}._bench = lambda *args, **kwargs: [1.0, 1.0, 1.0]\n"
        launch += _checked(_call(specimen, {}), check)
    driver = _DRIVER.format(target=target, more=_TUNING)
    return "    import types\n", _TORCH + driver + "\n\n", launch


def _checked(call: str, check: str) -> str:
    """The compile, its result kept where something is done with it."""
    if check:
        return f"compiled = {call}\n{check}"
    return f"{call}\n"


def _call(specimen: Specimen, options: Mapping[str, Any]) -> str:
    arguments = {name: _argument(spec) for name, spec in specimen.args.items()}
    arguments |= {name: repr(value) for name, value in options.items()}
    lines = "".join(f"    {name}={value},\n" for name, value in arguments.items())
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
