"""The standalone script, which imports only triton; its exit status shows the verdict.

The compile runs in a child process of the script, because it may crash. It goes through the
kernel's own launch; the short script compiles types with `triton.compile`.
"""

import ast
import math
import re
from collections.abc import Mapping
from typing import Any

from flacheck.capabilities.repro.kernel.expression_types import NAMES
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.output.symptom import Symptom
from flacheck.tables import targets

_HARNESS = '''\
"""{title}

Exit status: 0 the failure shows, 1 it does not, 125 this Triton cannot tell. {needs}
With --expect-pass, for `git bisect run`: 0 it compiles, 1 the failure shows, 125 anything else.
"""

import os
{signal}import subprocess
import sys

{decisive}

if "--compile" not in sys.argv:  # compile in a child: the compiler may crash its process
    environment = {{**os.environ, "TRITON_ALWAYS_COMPILE": "1"}}
    command = [sys.executable, os.path.abspath(__file__), "--compile"]
    try:
        child = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout={timeout}
        )
    except subprocess.TimeoutExpired:
        sys.exit(125)
    said = child.stdout + child.stderr
    print(said)
    last = "".join(said.splitlines()[-1:])
    lacks = last.startswith(("ImportError:", "ModuleNotFoundError:"))
    if {shows}:
        print("the failure shows")
        sys.exit(1 if "--expect-pass" in sys.argv else 0)
    if child.returncode{silent} or lacks:
        print("this Triton cannot tell")
        sys.exit(125)
    print("the failure does not show")
    if "--expect-pass" in sys.argv:
        broken = child.returncode or "error: " in child.stderr
        sys.exit(125 if broken else 0)
    sys.exit(1)

try:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
{imports}except ImportError as error:
    print(error)
    sys.exit(125)


{before}{kernel}


{launch}
'''

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
# Descriptors of the host read the bytes of an element.
_DTYPE = '''\
class DType(str):
    """A dtype by its name, with what a descriptor asks of it."""

    is_floating_point = True

    @property
    def itemsize(self):
        return max(int("".join(filter(str.isdigit, self.partition("e")[0]))) // 8, 1)


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

# The constructor of an autotuner reads the driver and, in 3.0 and 3.1, imports torch.
_TORCH = """\
# Triton 3.0 and 3.1 import torch here and use nothing of it.
sys.modules.setdefault("torch", types.ModuleType("torch"))


"""

# In launches for AMD, releases before 3.5 import torch to check each pointer.
_AMD_TORCH = """\
# Triton's AMD backend imports torch here and finds none of its tensors.
torch = types.ModuleType("torch")
torch.Tensor = type("Tensor", (), {})
sys.modules.setdefault("torch", torch)


"""

_SHORT_IMPORTS = """\
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
"""
# The lines of a check that a short script may have.
_CHECK_LINES = 3

# The script's exit status.
SHOWS, DOES_NOT, CANNOT_TELL = 0, 1, 125

# Symptoms of a compiler that crashes silently: the signal's name, the exit status.
_SIGNAL = re.compile(r"SIG[A-Z]+")
_EXIT_STATUS = re.compile(r"exit status (\d+)")


def render(specimen: Specimen, symptom: Symptom) -> str:
    """Return the script's text, which launches the kernel."""
    target = _target_text(specimen)
    if symptom.on_card:
        imports, before = "    import torch\n", ""
        launch = f"{_card_call(specimen)}\n{symptom.check}"
    else:
        imports, before, launch = render_launch(specimen, target, symptom.check)
    # Formatters prefer double quotes.
    message = f'"{symptom.words}"'
    if '"' in symptom.words or "\\" in symptom.words or not symptom.words.isprintable():
        message = repr(symptom.words)
    signal, decisive, shows = "", f"MESSAGE = {message}", "MESSAGE in said"
    if _SIGNAL.fullmatch(symptom.words):
        signal, decisive = "import signal\n", f'SIGNAL = "{symptom.words}"'
        shows = "child.returncode == -getattr(signal, SIGNAL)"
    status = _EXIT_STATUS.fullmatch(symptom.words)
    if status:
        decisive, shows = f"EXIT_STATUS = {status[1]}", "child.returncode == EXIT_STATUS"
    needs = "It needs this GPU and torch." if symptom.on_card else "No GPU is needed."
    return _HARNESS.format(
        needs=needs,
        title=symptom.title.replace("\\", "/").replace('"""', "'"),
        signal=signal,
        decisive=decisive,
        shows=shows,
        silent="" if symptom.on_card else " == 125",
        timeout=symptom.timeout,
        imports=imports,
        before=before,
        kernel=kernel_text(specimen),
        launch=symptom.prepare + launch.rstrip(),
    )


def render_short(specimen: Specimen, symptom: Symptom) -> str | None:
    """Return a script that compiles the kernel by its types, and nothing else.

    Return None if types and constants do not describe the launch, or a check takes many lines.
    """
    types, constants = [], []
    for name, spec in specimen.args.items():
        match spec:
            case {"dtype": dtype}:
                types.append(f'"{name}": "*{dtype}"')
            case {"int": number}:
                is_short = -(1 << 31) <= number < 1 << 31
                types.append(f'"{name}": "{"i32" if is_short else "i64"}"')
            case {"float": _}:
                types.append(f'"{name}": "fp32"')
            case {"constexpr": bool() | int() | str() as value}:
                types.append(f'"{name}": "constexpr"')
                constants.append(f'"{name}": {value!r}')
            case _:
                return None
    has_more = symptom.prepare or symptom.on_card
    if specimen.stage != "compile" or has_more or symptom.check.count("\n") > _CHECK_LINES:
        return None
    options = ", ".join(f'"{name}": {value!r}' for name, value in specimen.options.items())
    source = f"{specimen.name}, {{{', '.join(types)}}}, {{{', '.join(constants)}}}"
    call = f"triton.compile(source, target={_target_text(specimen)}, options={{{options}}})"
    return (
        f"{_SHORT_IMPORTS}\n{kernel_text(specimen)}\n\n"
        f"source = ASTSource({source})\n{_with_check(call, symptom.check)}"
    )


def _target_text(specimen: Specimen) -> str:
    row = targets.find(specimen.target)
    return f"GPUTarget({row.backend!r}, {row.arch!r}, {row.warp_size})".replace("'", '"')


def kernel_text(specimen: Specimen) -> str:
    """Return the module without its first two imports, with two lines between its parts.

    It has double quotes, as formatters prefer, unless that would change a string.
    """
    imports = ("import triton", "import triton.language as tl")
    parts = []
    for statement in specimen.tree.body:
        part = ast.unparse(statement)
        if part not in imports:
            parts.append(part.strip())
    text = "\n\n\n".join(parts)
    if '"' in text or "\\" in text:
        return text
    return text.replace("'", '"')


def render_launch(specimen: Specimen, target: str, check: str) -> tuple[str, str, str]:
    """Return the script's imports, the code before the kernel, and its launch."""
    if specimen.stage == "compile":
        imports, before = "", ""
        driver = _DRIVER.format(target=target, more="")
        if targets.find(specimen.target).backend == "hip":
            imports, before = "    import types\n", _AMD_TORCH
        if _has_descriptor(specimen):
            imports += "    from triton.tools.tensor_descriptor import TensorDescriptor\n"
            driver = f"{_DTYPE}{driver}"
        return imports, before, driver + _with_check(_call(specimen, specimen.options), check)
    # A kernel whose import fails needs no launch.
    launch = 'print("the kernel was decorated")\n'
    if specimen.stage == "autotune":
        # Only the timing is replaced: the autotuner itself looks up the key and compiles.
        launch = f"{specimen.name}._bench = lambda *args, **kwargs: [1.0, 1.0, 1.0]\n"
        launch += _with_check(_call(specimen, {}), check)
    driver = _DRIVER.format(target=target, more=_TUNING)
    return "    import types\n", _TORCH + driver + "\n\n", launch


def _has_descriptor(specimen: Specimen) -> bool:
    for spec in specimen.args.values():
        if isinstance(spec, Mapping) and "descriptor" in spec:
            return True
    return False


def _with_check(call: str, check: str) -> str:
    """Return the compile, assigned to a variable if a check follows."""
    if check:
        return f"compiled = {call}\n{check}"
    return f"{call}\n"


def _call(specimen: Specimen, options: Mapping[str, Any]) -> str:
    lines = [f"{specimen.name}.run("]
    for name, spec in specimen.args.items():
        if name not in options:
            lines.append(f"    {name}={_argument(spec)},")
    for name, value in options.items():
        lines.append(f"    {name}={value!r},")
    return "\n".join([*lines, "    grid=None,", "    warmup=True,", ")"])


def _card_call(specimen: Specimen) -> str:
    """Return the launch of a kernel on the `tensors` of the script and its `grid`."""
    lines = [f"{specimen.name}[grid]("]
    for name, spec in specimen.args.items():
        text = f'tensors["{name}"]' if name in specimen.pointers else _argument(spec)
        lines.append(f"    {name}={text},")
    for name, value in specimen.options.items():
        if name not in specimen.args:
            lines.append(f"    {name}={value!r},")
    return "\n".join([*lines, ")"])


def _argument(spec: Any) -> str:
    """Return the Python expression for one argument of a launch."""
    match spec:
        case {"dtype": dtype}:
            align = spec.get("align", 16)
            # Compilers only check if an address is a multiple of 16 bytes.
            if align % 16:
                return f'Pointer("{NAMES[dtype]}", {align})'
            return f'Pointer("{NAMES[dtype]}")'
        case {"descriptor": {"dtype": dtype, "shape": shape, "strides": strides, "block": block}}:
            base = f'Pointer(DType("{NAMES[dtype]}"))'
            extras = _extras(spec["descriptor"])
            return f"TensorDescriptor({base}, {shape}, {strides}, {block}{extras})"
        case {"constexpr": {"dtype": dtype}}:
            return f"tl.{NAMES.get(dtype, dtype)}"
        case {"constexpr": {"tuple": parts}}:
            return _argument({"tuple": [{"constexpr": part} for part in parts]})
        case {"constexpr": {} as value}:
            return str(value.get("function"))
        case {"constexpr": float() as value} if not math.isfinite(value):
            return f'float("{value}")'
        case {"tuple": parts}:
            items = [f"{_argument(part)}," for part in parts]
            return "(" + " ".join(items) + ")"
        case {}:
            return repr(next(iter(spec.values())))
    return repr(spec)


def _extras(descriptor: Mapping[str, Any]) -> str:
    """Return the further arguments of a descriptor, which only later releases have."""
    usual = ("dtype", "align", "shape", "strides", "block")
    text = ""
    for name, value in descriptor.items():
        if name not in usual:
            text += f", {name}={value!r}"
    return text
