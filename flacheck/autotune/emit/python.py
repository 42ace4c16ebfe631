"""A list of `triton.Config` for each kernel, which runs as pasted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flacheck.analysis.order import kernel_name
from flacheck.autotune.emit.choice import choices
from flacheck.autotune.examined import TunerResult


def render(results: Sequence[TunerResult]) -> Iterator[str]:
    """Imports, then a list a kernel, the best estimate first."""
    found = choices(results)
    written = [_config(config) for choice in found for config in choice.configs]
    yield "import triton\n"
    yield "import triton.language as tl\n" if any("tl." in line for line in written) else ""
    for choice in found:
        yield f"\n# {choice.kernel}: these run under {choice.where}; a compile shows no more than that.\n"
        yield "" if choice.configs else "# None does: see the fallbacks of `flacheck autotune`.\n"
        yield f"{_name(choice.kernel)} = [\n"
        yield from (f"    {_config(config)},\n" for config in choice.configs)
        yield "]\n"


_FIRST = {"num_warps": 0, "num_stages": 1}


def _name(kernel: str) -> str:
    """`CHUNK_FWD_KERNEL_H_CONFIGS`."""
    return re.sub(r"\W", "_", kernel_name(kernel)).upper() + "_CONFIGS"


def _config(config: Mapping[str, Any]) -> str:
    kwargs = ", ".join(
        f"{name!r}: {_literal(value)}" for name, value in config.get("kwargs", {}).items()
    )
    names = sorted(
        config.keys() - {"kwargs"}, key=lambda name: (_FIRST.get(name, len(_FIRST)), name)
    )
    options = "".join(f", {name}={_literal(config[name])}" for name in names)
    return f"triton.Config({{{kwargs}}}{options})"


_LANGUAGE = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "i1": "int1",
}


def _literal(value: Any) -> str:
    if isinstance(value, Mapping) and "dtype" in value:
        name = value["dtype"]
        sized = re.sub(r"^([iu])(\d+)$", lambda m: f"{'u' if m[1] == 'u' else ''}int{m[2]}", name)
        return f"tl.{_LANGUAGE.get(name) or re.sub(r'^fp8', 'float8', sized)}"
    return repr(value)
