"""The last part of a script: how the kernel is handed to the compiler, in the form that each
release takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.types import NAMES

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
_TORCH = """\
sys.modules.setdefault("torch", types.ModuleType("torch"))  # 3.0 and 3.1 import it, and use nothing of it here
"""
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


@dataclass(frozen=True)
class Form:
    """One way of compiling a kernel from a script: what it imports beside triton, what has to stand
    before the kernel (given the target), and what comes after it (given the target and what is done
    with the finished compile).
    """

    imports: tuple[str, ...]
    render: Callable[[Specimen, str, str], str]
    before: Callable[[str], str] = lambda target: ""


def _plain(specimen: Specimen, target: str, check: str) -> str:
    types = ", ".join(f'"{name}": "*{spec["dtype"]}"' for name, spec in specimen.args.items())
    options = _options(specimen)
    call = f"triton.compile(source, target={target}, options={options})"
    return f"source = ASTSource({specimen.name}, {{{types}}}, {{}})\n" + _checked(call, check)


def _options(specimen: Specimen) -> str:
    return "{" + ", ".join(f'"{name}": {value!r}' for name, value in specimen.options.items()) + "}"


def _checked(call: str, check: str) -> str:
    return f"compiled = {call}\n{check}" if check else f"{call}\n"


def _launched(specimen: Specimen, target: str, check: str) -> str:
    call = _call(specimen, [f"{name}={value!r}" for name, value in specimen.options.items()])
    return _DRIVER.format(target=target, more="") + _checked(call, check)


def _call(specimen: Specimen, more: list[str]) -> str:
    arguments = [f"{name}={argument(spec)}" for name, spec in specimen.args.items()]
    lines = "".join(f"    {part},\n" for part in [*arguments, *more])
    return f"{specimen.name}.run(\n{lines}    grid=None,\n    warmup=True,\n)"


def argument(spec: Any) -> str:
    """The Python expression for one argument of a launch."""
    if not isinstance(spec, Mapping):
        return repr(spec)
    if "dtype" in spec:
        align = spec.get("align", 16)
        return f'Pointer("{NAMES[spec["dtype"]]}"' + (f", {align})" if align % 16 else ")")
    if "constexpr" in spec:
        return _constant(spec["constexpr"])
    if "tuple" in spec:
        return "(" + "".join(f"{argument(item)}, " for item in spec["tuple"]).rstrip(" ") + ")"
    return repr(next(iter(spec.values())))


def _constant(value: Any) -> str:
    if isinstance(value, Mapping):
        if "dtype" in value:
            return f"tl.{NAMES.get(value['dtype'], value['dtype'])}"
        if "tuple" in value:
            return (
                "(" + "".join(f"{_constant(item)}, " for item in value["tuple"]).rstrip(" ") + ")"
            )
        return str(value.get("function"))
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return f'float("{value}")'
    return repr(value)


def _configured(specimen: Specimen, target: str, check: str) -> str:
    """Only the timing is replaced: the key is looked up, and the kernel compiled, by the autotuner
    itself.
    """
    timing = f"{specimen.name}._bench = lambda *args, **kwargs: [1.0, 1.0, 1.0]\n"
    return timing + _checked(_call(specimen, []), check)


def _tuning(target: str) -> str:
    """Autotuners look at the driver, the old ones also for torch, as soon as they are made."""
    return _TORCH + "\n\n" + _DRIVER.format(target=target, more=_TUNING) + "\n\n"


def _imported(specimen: Specimen, target: str, check: str) -> str:
    return 'print("the kernel was decorated")\n'


PLAIN = Form(("from triton.compiler import ASTSource",), _plain)
LAUNCHED = Form((), _launched)
CONFIGURED = Form(("import types",), _configured, _tuning)
IMPORTED = Form(("import types",), _imported, _tuning)
