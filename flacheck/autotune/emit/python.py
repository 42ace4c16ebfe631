"""A list of `triton.Config` for each kernel, which runs as pasted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flacheck.analysis.order import kernel_name
from flacheck.autotune.emit.choice import choices
from flacheck.autotune.examined import TunerResult

# In this order in an emitted configuration; other options follow by name.
_FIRST = ("num_warps", "num_stages")
_LANGUAGE = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "i1": "int1",
}


def render(results: Sequence[TunerResult]) -> Iterator[str]:
    """Imports, then a list a kernel, the best estimate first."""
    kept = choices(results)
    written = [_config(config) for choice in kept for config in choice.configs]
    yield "import triton\n"
    if any("tl." in line for line in written):
        yield "import triton.language as tl\n"
    for choice in kept:
        yield f"\n# {choice.kernel}: these run under {choice.where}; "
        yield "a compile shows no more than that.\n"
        if not choice.configs:
            yield "# None does: see the fallbacks of `flacheck autotune`.\n"
        yield f"{_name(choice.kernel)} = [\n"
        for config in choice.configs:
            yield f"    {_config(config)},\n"
        yield "]\n"


def _name(kernel: str) -> str:
    """`CHUNK_FWD_KERNEL_H_CONFIGS`."""
    return re.sub(r"\W", "_", kernel_name(kernel)).upper() + "_CONFIGS"


def _config(config: Mapping[str, Any]) -> str:
    constants = [f"{name!r}: {_literal(value)}" for name, value in config.get("kwargs", {}).items()]
    names = [name for name in _FIRST if name in config]
    names += sorted(config.keys() - {"kwargs", *_FIRST})
    options = "".join(f", {name}={_literal(config[name])}" for name in names)
    return f"triton.Config({{{', '.join(constants)}}}{options})"


def _literal(value: Any) -> str:
    if not (isinstance(value, Mapping) and "dtype" in value):
        return repr(value)
    dtype = value["dtype"]
    # i32 is tl.int32, u8 tl.uint8 and fp8e5 tl.float8e5.
    spelt = re.sub(r"^i(?=\d)", "int", re.sub(r"^u(?=\d)", "uint", dtype))
    return "tl." + _LANGUAGE.get(dtype, re.sub(r"^fp8", "float8", spelt))
