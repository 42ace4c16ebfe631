"""Autotuned kernels: their decorator, and fewer configurations, keys and parameters."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flacheck.capabilities.repro.kernel.constant_folding import literal
from flacheck.capabilities.repro.kernel.rewriting import rewrite, without_parameters
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.syntax_trees import callee_name, expression
from flacheck.capabilities.repro.passes.search import Proposals, propose_until_accepted

SHIFTED_KEY = "the autotuner's key holds other arguments"
# The defaults of `triton.Config` in most releases.
_USUAL = {"num_warps": 4, "num_stages": 2, "num_ctas": 1}
Config = Mapping[str, Any]
Configs = Sequence[Config]
Keys = Sequence[str]


def add_autotuner(cut: Specimen, configs: Configs, keys: Keys) -> Specimen:
    """Return the specimen under the autotuner that its launch describes."""
    names = configs[0].get("kwargs", {}) if configs else ()
    omitted = tuple(name for name in names if name not in cut.args)
    specimen = cut.with_(stage="autotune", options={}, omitted_parameters=omitted)
    return set_autotuner(specimen, configs, keys)


def set_autotuner(specimen: Specimen, configs: Configs, keys: Keys) -> Specimen:
    """Return the specimen with the decorator of this autotuner instead of its own."""
    config_list = ast.List(list(map(_config, configs)), ast.Load())
    key_list = ast.List(list(map(ast.Constant, keys)), ast.Load())
    keywords = [ast.keyword("configs", config_list), ast.keyword("key", key_list)]
    decorators: list[ast.expr] = [ast.Call(expression("triton.autotune"), [], keywords)]
    for decorator in specimen.function.decorator_list:
        if callee_name(decorator) != "triton.autotune":
            decorators.append(decorator)
    return rewrite(specimen, specimen.copied_body(), decorators=decorators)


def _config(config: Config) -> ast.Call:
    """Return `triton.Config({"BK": 64}, num_warps=8)` without options of the usual value."""
    kwargs = config.get("kwargs", {})
    constants = ast.Dict([], [])
    for name, value in kwargs.items():
        constants.keys.append(ast.Constant(name))
        constants.values.append(literal(value))
    options = []
    for name, value in config.items():
        if name != "kwargs" and value is not None and value != _USUAL.get(name):
            options.append(ast.keyword(name, literal(value)))
    return ast.Call(expression("triton.Config"), [constants], options)


def configs_and_keys(specimen: Specimen) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the configurations and keys in the decorator of a specimen's autotuner."""
    call = specimen.function.decorator_list[0]
    assert isinstance(call, ast.Call)
    configs, keys = (keyword.value for keyword in call.keywords)
    assert isinstance(configs, ast.List)
    values = []
    for config in configs.elts:
        assert isinstance(config, ast.Call)
        value = {"kwargs": ast.literal_eval(config.args[0])}
        for keyword in config.keywords:
            if keyword.arg:
                value[keyword.arg] = ast.literal_eval(keyword.value)
        values.append(value)
    return values, list(ast.literal_eval(keys))


def key_check(specimen: Specimen) -> str:
    """Return a script's check of the autotuner's key against the values of its arguments."""
    _, keys = configs_and_keys(specimen)
    names = [key for key in keys if key in specimen.args]
    values = []
    for key in names:
        value = specimen.args[key]
        if isinstance(value, Mapping) and "dtype" not in value:
            value = next(iter(value.values()))
        values.append(value)
    comment = ", ".join(names) or "no key was passed: all are tuned"
    return (
        f"want = {tuple(values)!r}  # {comment}\n"
        f"key = tuple(part for part in next(iter({specimen.name}.cache))"
        " if not isinstance(part, str))\n"
        f'if key != want:\n    print("{SHIFTED_KEY}:", key, "instead of", want)\n'
    )


def body(best: Specimen) -> Proposals:
    """Propose an empty kernel, because an autotuner's fault is before the compile."""
    yield rewrite(best, [])


def distinct_values(best: Specimen) -> Proposals:
    """Propose distinct numbers, so that a key shows which argument it contains."""
    args, number = dict(best.args), 0
    for name, spec in best.args.items():
        for kind in ("int", "constexpr"):
            if not isinstance(spec, Mapping) or isinstance(spec.get(kind, ""), (str, Mapping)):
                continue
            # The number 1 is avoided, because Triton treats it as a constant.
            number += 32
            args[name] = {kind: number}
    yield best.with_(args=args)


def configurations(best: Specimen) -> Proposals:
    """Propose two configurations that set one thing each: enough for a lookup of the keys."""
    configs, keys = configs_and_keys(best)
    for fewer in _fewer_configs(configs):
        if (yield set_autotuner(best, fewer, keys)):
            return


def _fewer_configs(configs: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    first = configs[0]["kwargs"]
    if first:
        name = next(iter(first))
        values = sorted({config["kwargs"][name] for config in configs})[:2]
        if len(values) == 1:
            # An autotuner with one configuration does not look up its keys.
            values.append(values[0] * 2)
        yield [{"kwargs": {**first, name: value}} for value in values]
    yield [{"kwargs": first, "num_warps": warps} for warps in (4, 8)]
    yield configs[:2]


def keys(best: Specimen) -> Proposals:
    """Propose to remove keys, one by one, the last first."""
    _, names = configs_and_keys(best)
    for name in reversed(names):
        candidate = _without_key(best, name)
        if (yield candidate):
            best = candidate


def arguments(best: Specimen) -> Proposals:
    """Propose to remove parameters from the last on: arguments, then tuned parameters."""
    names = [*reversed(list(best.args)), *reversed(best.omitted_parameters)]
    for name in names:
        candidates = [_without(best, name), _without(_without_key(best, name), name)]
        best = (yield from propose_until_accepted(candidates)) or best


def _without_key(specimen: Specimen, name: str) -> Specimen:
    configs, keys = configs_and_keys(specimen)
    other_keys = [key for key in keys if key != name]
    return set_autotuner(specimen, configs, other_keys)


def _without(specimen: Specimen, name: str) -> Specimen:
    """Return the specimen without a parameter; keys may still contain its name."""
    configs, keys = configs_and_keys(specimen)
    for config in configs:
        config["kwargs"].pop(name, None)
    omitted = tuple(other for other in specimen.omitted_parameters if other != name)
    specimen = specimen.with_(omitted_parameters=omitted)
    return without_parameters(set_autotuner(specimen, configs, keys), [name])
