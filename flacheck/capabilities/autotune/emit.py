"""Which configurations to keep of a kernel, those that run under every toolchain and on every
target asked, and the ways to write them down.

`python` gives a list of `triton.Config` for each kernel, which runs as pasted. `fla` gives the
files that flash-linear-attention reads from `FLA_CONFIG_DIR` (releases with
`fla/ops/utils/cache.py`, 0.6.0 on).

    FLA_CONFIG_DIR=DIR FLA_CACHE_MODE=full python train.py

A file a kernel, `{function name}.json`: `default_config`, and `autotune_entries` with a
configuration for each key, by the MD5 of the key's JSON. A key is the values of the autotuner's
keys followed by the dtypes of the tensors, as the autotuner builds it. In mode `strict` only keys
count, in `full` a key with other numbers or the default will do.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flacheck.analysis.fallbacks import Fallback
from flacheck.analysis.known_good import grouped
from flacheck.analysis.order import kernel_name, short
from flacheck.capabilities.autotune.examined import ExaminedConfig, Fate, TunerResult
from flacheck.model import Json, canonical

# What `triton.Config` takes besides constants.
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_Config = Mapping[str, Any]
# In this order in an emitted configuration; other options follow by name.
_FIRST = ("num_warps", "num_stages")
_LANGUAGE = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "i1": "int1",
}
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


@dataclass(frozen=True)
class KeptConfigs:
    """A kernel with the configurations that run everywhere, the best estimate first; `failing` says
    why there are none where there are none. `results` are what was examined of it."""

    kernel: str
    results: Sequence[TunerResult]
    configs: Sequence[_Config]

    @property
    def where(self) -> str:
        """Where they run: `triton==3.1.0, triton==3.2.0 on sm90`."""
        toolchains = dict.fromkeys(result.toolchain for result in self.results)
        targets = dict.fromkeys(result.target for result in self.results)
        return f"{', '.join(toolchains)} on {', '.join(targets)}"


def choices(results: Sequence[TunerResult]) -> list[KeptConfigs]:
    """One for each kernel with configurations; what fails everywhere is replaced by its nearest
    fallback, if that is a matter of configurations alone."""
    tried = grouped((result.kernel, result) for result in results if result.configs)
    return [KeptConfigs(kernel, of, _configs(of)) for kernel, of in tried.items()]


def _configs(results: Sequence[TunerResult]) -> list[_Config]:
    """What runs in every result; what tuning gains nothing from only where nothing else is left."""
    ways = {canonical(each.config): each for each in results[0].configs}
    dropped: set[str] = set()
    for result in results:
        runs = {canonical(each.config) for each in result.configs if each.fate is Fate.RUNS}
        ways = {config: each for config, each in ways.items() if config in runs}
        if result.cost:
            dropped |= {canonical(result.configs[each].config) for each in result.cost.droppable}
    # What is dropped still runs: it is better than nothing.
    kept = [each for config, each in ways.items() if config not in dropped] or ways.values()
    return [each.config for each in sorted(kept, key=_by_estimate)] or _fallbacks(results)


def _by_estimate(examined: ExaminedConfig) -> tuple[bool, float]:
    """One that spills comes last, whatever is estimated of its tiles."""
    return bool(examined.record.resources.get("spills")), examined.estimate


def _fallbacks(results: Sequence[TunerResult]) -> list[_Config]:
    """Fallbacks that change nothing but a configuration and compile everywhere, nearest first."""
    places = {(result.toolchain, result.target) for result in results}
    configs: dict[str, _Config] = {}
    for result in results:
        for fallback in result.fallbacks:
            config = configuration(result, fallback)
            if config is not None and places <= set(fallback.places):
                configs[canonical(config)] = config
    return list(configs.values())


def configuration(result: TunerResult, fallback: Fallback) -> _Config | None:
    """A fallback as a configuration; None for one that changes more than that."""
    tuned = {*_OPTIONS}
    for each in result.configs:
        tuned |= each.config.get("kwargs", {}).keys()
    if not fallback.use.keys() <= tuned:
        return None
    settings = {**fallback.failing, **fallback.use}
    like = result.configs[0].config
    kwargs = {name: settings.get(name, value) for name, value in like.get("kwargs", {}).items()}
    options = {name: settings.get(name, value) for name, value in like.items() if name != "kwargs"}
    return {"kwargs": kwargs, **options}


def python(results: Sequence[TunerResult]) -> Iterator[str]:
    """Imports, then a list a kernel, the best estimate first."""
    kept = choices(results)
    written = [_python_config(config) for choice in kept for config in choice.configs]
    yield "import triton\n"
    if any("tl." in line for line in written):
        yield "import triton.language as tl\n"
    for choice in kept:
        yield f"\n# {choice.kernel}: these run under {choice.where}; "
        yield "a compile shows no more than that.\n"
        if not choice.configs:
            yield "# None does: see the fallbacks of `flacheck autotune`.\n"
        # `CHUNK_FWD_KERNEL_H_CONFIGS`.
        name = re.sub(r"\W", "_", kernel_name(choice.kernel)).upper()
        yield f"{name}_CONFIGS = [\n"
        for config in choice.configs:
            yield f"    {_python_config(config)},\n"
        yield "]\n"


def _python_config(config: Mapping[str, Any]) -> str:
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


def fla(results: Sequence[TunerResult]) -> Iterator[tuple[str, str]]:
    """(name, text) of each file; a kernel of which nothing runs everywhere has none."""
    for choice in choices(results):
        if choice.configs:
            yield f"{kernel_name(choice.kernel)}.json", json.dumps(_file(choice), indent=2) + "\n"


def _file(choice: KeptConfigs) -> Json:
    first = choice.configs[0]
    config = {"kwargs": {}, **_DEFAULTS, **first}
    keys = [_key(key) for result in choice.results for key in result.tuning_keys]
    releases = dict.fromkeys(short(result.toolchain) for result in choice.results)
    return {
        "kernel_name": kernel_name(choice.kernel),
        "triton_version": ", ".join(releases),
        "autotune_entries": {_md5(key): {"autotune_key": key, "config": config} for key in keys},
        "default_config": config,
    }


def _key(key: tuple[Sequence[Any], Sequence[str]]) -> list[Any]:
    values, dtypes = key
    return [*values, *(f"torch.{_TORCH.get(dtype, dtype)}" for dtype in dtypes)]


def _md5(key: Sequence[Any]) -> str:
    # Written as FLA writes it: any other spelling of a key is another digest.
    text = json.dumps(key, separators=(",", ":"), sort_keys=True)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
