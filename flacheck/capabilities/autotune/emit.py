"""The configurations that run under every toolchain and target, written for an autotuner.

`python` gives a list of `triton.Config` for each kernel, which runs as pasted. `fla` gives the
files that flash-linear-attention reads from `FLA_CONFIG_DIR` (releases with
`fla/ops/utils/cache.py`, 0.5.1 and newer).

    FLA_CONFIG_DIR=DIR FLA_CACHE_MODE=strict python train.py

There is one file for each kernel, `{function name}.json`: `autotune_entries` holds a configuration
for each examined key, by the MD5 of the key's JSON. A key is the values of the autotuner's keys,
then the dtypes of the tensors, as the autotuner builds it. A file lacks a default, and
in mode `strict` FLA tunes for every other key, because a configuration that was compiled for one
head size may need more memory than the GPU has for another.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from packaging.version import Version

from flacheck.capabilities.autotune.results import ExaminedConfig, Fate, TunerResult, TuningKey
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.order import kernel_name, short, split
from flacheck.model import Json, canonical
from flacheck.model.launch import language_name
from flacheck.model.text import visible

# The options of `triton.Config`.
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_Config = Mapping[str, Any]
# An emitted configuration has these first; other options follow by name.
_FIRST = ("num_warps", "num_stages")
# Other dtypes keep Triton's name; FLA then finds no entry for the key.
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
# Why a configuration that runs is left out.
_NOT_COMMON = "is not in the list of every release and target"
# The defaults of the fields that FLA requires besides `kwargs`.
_DEFAULTS: _Config = {
    "num_warps": 4,
    "num_stages": 3,
    "num_ctas": 1,
    "maxnreg": None,
    "ir_override": None,
}
# With this Triton and newer, FLA passes num_ctas and maxnreg of a file to the launch.
_MORE_OPTIONS_FROM = Version("3.5.1")


@dataclass(frozen=True)
class KeptConfigs:
    """The configurations of a kernel that run everywhere, the best estimate first.

    `results` are the kernel's results.
    """

    kernel: str
    results: Sequence[TunerResult]
    configs: Sequence[_Config]

    @property
    def where(self) -> str:
        """The releases and targets, `triton==3.1.0, triton==3.2.0 on sm90`."""
        toolchains = dict.fromkeys(result.toolchain for result in self.results)
        targets = dict.fromkeys(result.target for result in self.results)
        return f"{', '.join(toolchains)} on {', '.join(targets)}"

    def left_out(self) -> Iterator[str]:
        """Yield each examined configuration that is not kept, with the reason."""
        reasons: dict[str, str] = {}
        # A failure is a better reason than that another list lacks a configuration.
        for result in self.results:
            for each in result.configs:
                if each.fate is not Fate.RUNS:
                    reasons.setdefault(_python_config(each.config), _reason(result, each))
        for result in self.results:
            for each in result.configs:
                reasons.setdefault(_python_config(each.config), _NOT_COMMON)
        emitted_configs = set(map(_python_config, self.configs))
        for config, reason in reasons.items():
            if config not in emitted_configs:
                yield f"{config}: {reason}"


def choices(results: Sequence[TunerResult]) -> list[KeptConfigs]:
    """Return the configurations of each kernel that has an autotuner.

    If every configuration fails, they are the nearest fallbacks that are configurations.
    """
    by_kernel = group_by_key((result.kernel, result) for result in results if result.configs)
    chosen_configs = []
    for kernel, kernel_results in by_kernel.items():
        chosen_configs.append(KeptConfigs(kernel, kernel_results, _configs(kernel_results)))
    return chosen_configs


def _configs(results: Sequence[TunerResult]) -> list[_Config]:
    """Return the configurations that run in every result, the best estimate first."""
    common = {canonical(each.config): each for each in results[0].configs}
    for result in results:
        runs = {canonical(each.config) for each in result.configs if each.fate is Fate.RUNS}
        common = {text: each for text, each in common.items() if text in runs}
    ranking = sorted(common.values(), key=_by_estimate)
    if not ranking:
        return _fallbacks(results)
    return [each.config for each in ranking]


def _by_estimate(config: ExaminedConfig) -> tuple[bool, float]:
    """Return a sort key that puts configurations with spills last."""
    return bool(config.record.resources.get("spills")), config.estimate


def _fallbacks(results: Sequence[TunerResult]) -> list[_Config]:
    """Return the configurations that run, or are fallbacks, in every result, nearest first."""
    common: dict[str, _Config] | None = None
    for result in results:
        own = _compiled_configs(result, results)
        if common is None:
            common = own
        common = {text: config for text, config in common.items() if text in own}
    return list((common or {}).values())


def _compiled_configs(result: TunerResult, results: Sequence[TunerResult]) -> dict[str, _Config]:
    """Return the configurations that compile in a result.

    These are the fallbacks for its call, from every result, then its own configurations.
    """
    configs: dict[str, _Config] = {}
    for other in results:
        if other.kernel != result.kernel or other.call != result.call:
            continue
        for fallback in other.fallbacks:
            config = configuration(other, fallback)
            if config is not None and (result.toolchain, result.target) in fallback.places:
                configs[canonical(config)] = config
    for each in result.configs:
        if each.fate is Fate.RUNS:
            configs[canonical(each.config)] = each.config
    return configs


def configuration(result: TunerResult, fallback: Fallback) -> _Config | None:
    """Return a fallback as a configuration; None if it changes more than that."""
    names = {*_OPTIONS}
    for each in result.configs:
        names |= each.config.get("kwargs", {}).keys()
    if not fallback.use.keys() <= names:
        return None
    settings = {**fallback.failing, **fallback.use}
    config: dict[str, Any] = {"kwargs": {}}
    template = result.configs[0].config
    for name, value in template.get("kwargs", {}).items():
        config["kwargs"][name] = settings.get(name, value)
    for name, value in template.items():
        if name != "kwargs":
            config[name] = settings.get(name, value)
    return config


def python(results: Sequence[TunerResult]) -> Iterator[str]:
    """Yield the text with imports, and a list for each kernel, the best estimate first.

    Comments name the configurations that are left out, with the reason.
    """
    all_choices = choices(results)
    lines: list[str] = []
    for choice in all_choices:
        lines += map(_python_config, choice.configs)
    yield "import triton\n"
    if any("tl." in line for line in lines):
        yield "import triton.language as tl\n"
    for choice in all_choices:
        yield f"\n# {choice.kernel}: these run under {choice.where}; "
        yield "a compile shows neither results nor speed.\n"
        for key in examined_keys(choice.results):
            yield f"# Examined: {key}.\n"
        for line in choice.left_out():
            yield f"# Left out: {line}\n"
        if not choice.configs:
            yield "# None does: see the fallbacks of `flacheck autotune`.\n"
        # `CHUNK_FWD_KERNEL_H_CONFIGS`.
        name = re.sub(r"\W", "_", kernel_name(choice.kernel)).upper()
        yield f"{name}_CONFIGS = [\n"
        for config in choice.configs:
            yield f"    {_python_config(config)},\n"
        yield "]\n"


def examined_keys(results: Sequence[TunerResult]) -> list[str]:
    """Return each examined key once, as people read it."""
    texts: dict[str, None] = {}
    for result in results:
        texts.update(dict.fromkeys(map(str, result.tuning_keys)))
    return list(texts)


def _python_config(config: Mapping[str, Any]) -> str:
    constants = []
    for name, value in config.get("kwargs", {}).items():
        constants.append(f"{name!r}: {_literal(value)}")
    names = [name for name in _FIRST if name in config]
    names += sorted(config.keys() - {"kwargs", *_FIRST})
    options = "".join(f", {name}={_literal(config[name])}" for name in names)
    return f"triton.Config({{{', '.join(constants)}}}{options})"


def _literal(value: Any) -> str:
    if not (isinstance(value, Mapping) and "dtype" in value):
        return repr(value)
    return "tl." + language_name(value["dtype"])


@dataclass(frozen=True)
class FlaEntry:
    """One key of an autotuner as FLA writes it, with the configuration for it.

    `sizes` is the key for people; `left_out` is the reason for a missing configuration.
    """

    key: Sequence[Any]
    sizes: str
    config: _Config | None
    left_out: str = ""


@dataclass(frozen=True)
class FlaFile:
    """The examined keys of the kernels with one function name, which share a file."""

    function: str
    releases: Sequence[str]
    entries: Sequence[FlaEntry]

    @property
    def name(self) -> str:
        return f"{self.function}.json"

    @property
    def sizes(self) -> list[str]:
        """The sizes of the keys with a configuration, each once."""
        return list(dict.fromkeys(entry.sizes for entry in self.entries if entry.config))

    def text(self) -> str:
        """Return the file's JSON."""
        entries = {}
        for entry in self.entries:
            if entry.config is not None:
                config = {"kwargs": {}, **_DEFAULTS, **entry.config}
                entries[_md5(entry.key)] = {"autotune_key": list(entry.key), "config": config}
        document: Json = {
            "kernel_name": self.function,
            "triton_version": ", ".join(self.releases),
            "autotune_entries": entries,
        }
        return json.dumps(document, indent=2) + "\n"


def fla(results: Sequence[TunerResult], reading: Sequence[str] = ()) -> Iterator[FlaFile]:
    """Yield a file for each function name, even if every key is left out.

    `reading` are all kernels of the package that read such files.
    """
    by_name = group_by_key(
        (kernel_name(result.kernel), result) for result in results if result.configs
    )
    for function, own_results in by_name.items():
        kernels = {result.kernel for result in own_results}
        unsafe = []
        for name in reading:
            if kernel_name(name) == function and name not in kernels:
                unsafe.append(name)
        entries = _entries(own_results)
        if unsafe:
            reason = f"{unsafe[0]} reads the same file and was not examined"
            entries = [replace(entry, config=None, left_out=reason) for entry in entries]
        releases = dict.fromkeys(short(result.toolchain) for result in own_results)
        yield FlaFile(function, list(releases), entries)


def _entries(results: Sequence[TunerResult]) -> list[FlaEntry]:
    """Return an entry for each key of the results of one function name."""
    places = list(dict.fromkeys((result.toolchain, result.target) for result in results))
    results_of: dict[str, list[TunerResult]] = {}
    keys: dict[str, TuningKey] = {}
    for result in results:
        for key in result.tuning_keys:
            digest = _md5(_key(key))
            results_of.setdefault(digest, []).append(result)
            keys.setdefault(digest, key)
    entries = []
    for digest, key in keys.items():
        config, reason = _of_key(results_of[digest], places)
        entries.append(FlaEntry(_key(key), str(key), config, reason))
    return entries


def _of_key(
    results: Sequence[TunerResult], places: Sequence[tuple[str, str]]
) -> tuple[_Config | None, str]:
    """Return the best configuration for one key, or None and why there is none."""
    own_places = {(result.toolchain, result.target) for result in results}
    for place in places:
        if place not in own_places:
            toolchain, target = place
            return None, f"no launch with this key is known under {toolchain} on {target}"
    configs = _configs(results)
    if not configs:
        return None, f"no configuration runs: {_why_not(results)}"
    for config in configs:
        if all(_is_loaded(config, result.toolchain) for result in results):
            return config, ""
    return None, "its configurations have settings that FLA does not load from a file"


def _is_loaded(config: _Config, toolchain: str) -> bool:
    """Return True if FLA launches the whole configuration, and not only a part of it."""
    fields = {"kwargs", *_FIRST}
    if Version(split(toolchain)[1]) >= _MORE_OPTIONS_FROM:
        fields |= set(_OPTIONS)
    for name, value in config.items():
        if name not in fields and value != _DEFAULTS.get(name):
            return False
    return not any(isinstance(value, Mapping) for value in config.get("kwargs", {}).values())


def _why_not(results: Sequence[TunerResult]) -> str:
    """Return the first reason for which a configuration does not run."""
    for result in results:
        for each in result.configs:
            if each.fate is not Fate.RUNS:
                return _reason(result, each)
    return "none runs in every launch with this key"


def _reason(result: TunerResult, config: ExaminedConfig) -> str:
    """Return why a configuration does not run, in one line."""
    record = config.record
    line = record.message.partition("\n")[0] or record.reason or "no message"
    reason = f"{record.code or record.verdict.value} {line}"
    if config.compiles:
        # The autotuner fails before it tries any configuration.
        reason = f"the run ends: {result.ends}"
    return f"{visible(reason)} under {result.toolchain} on {result.target}"


def _key(key: TuningKey) -> list[Any]:
    values = [value for _, value in key.values]
    return [*values, *(f"torch.{_TORCH.get(dtype, dtype)}" for dtype in key.dtypes)]


def _md5(key: Sequence[Any]) -> str:
    # The spelling of the JSON must be FLA's, because it decides the digest.
    text = json.dumps(key, separators=(",", ":"), sort_keys=True)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
