"""The files that flash-linear-attention reads from `FLA_CONFIG_DIR` (releases with
`fla/ops/utils/cache.py`, 0.6.0 on).

    FLA_CONFIG_DIR=DIR FLA_CACHE_MODE=full python train.py

A file a kernel, `{function name}.json`: `default_config`, and `autotune_entries` with a
configuration for each key, by the MD5 of the key's JSON. A key is the values of the autotuner's
keys followed by the dtypes of the tensors, as the autotuner builds it. In mode `strict` only keys
count, in `full` a key with other numbers or the default will do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flacheck.analysis.order import kernel_name, short
from flacheck.autotune.emit.choice import KeptConfigs, choices
from flacheck.autotune.examined import TunerResult
from flacheck.model import Json

# A dtype that is not listed keeps Triton's name; FLA then finds no entry for the key.
_TORCH = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
}
# What FLA asks of a configuration besides `kwargs`.
_DEFAULTS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None, "ir_override": None}


def files(results: Sequence[TunerResult]) -> Iterator[tuple[str, str]]:
    """(name, text) of each file; a kernel of which nothing runs everywhere has none."""
    for choice in choices(results):
        if choice.configs:
            yield f"{kernel_name(choice.kernel)}.json", json.dumps(_file(choice), indent=2) + "\n"


def _file(choice: KeptConfigs) -> Json:
    config = _config(choice.configs[0])
    keys = [_key(key) for result in choice.results for key in result.tuning_keys]
    releases = dict.fromkeys(short(result.toolchain) for result in choice.results)
    return {
        "kernel_name": kernel_name(choice.kernel),
        "triton_version": ", ".join(releases),
        "autotune_entries": {_md5(key): {"autotune_key": key, "config": config} for key in keys},
        "default_config": config,
    }


def _config(config: Mapping[str, Any]) -> Json:
    options = {name: value for name, value in config.items() if name != "kwargs"}
    return {"kwargs": dict(config.get("kwargs", {})), **_DEFAULTS, **options}


def _key(key: tuple[Sequence[Any], Sequence[str]]) -> list[Any]:
    values, dtypes = key
    return [*values, *(f"torch.{_TORCH.get(dtype, dtype)}" for dtype in dtypes)]


def _md5(key: Sequence[Any]) -> str:
    # Written as FLA writes it: any other spelling of a key is another digest.
    text = json.dumps(key, separators=(",", ":"), sort_keys=True)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
