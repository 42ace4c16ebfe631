"""Autotuned kernels: the decorator as text, and fewer configurations, keys and parameters."""

import ast
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from flacheck.capabilities.repro.kernel.constant_folding import literal
from flacheck.capabilities.repro.kernel.rewriting import rewrite, without_parameters
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.syntax_trees import callee_name, expression
from flacheck.capabilities.repro.passes.search import first_taken

SHIFTED_KEY = "the autotuner's key holds other arguments"
# The defaults of `triton.Config` in most releases.
_USUAL = {"num_warps": 4, "num_stages": 2, "num_ctas": 1}
Config = Mapping[str, Any]


def add_autotuner(cut: Specimen, configs: Sequence[Config], keys: Sequence[str]) -> Specimen:
    """The specimen under the autotuner that its launch describes."""
    omitted: tuple[str, ...] = ()
    if configs:
        omitted = tuple(name for name in configs[0].get("kwargs", {}) if name not in cut.args)
    return set_autotuner(
        cut.with_(stage="autotune", options={}, omitted_parameters=omitted), configs, keys
    )


def set_autotuner(specimen: Specimen, configs: Sequence[Config], keys: Sequence[str]) -> Specimen:
    """The specimen with the decorator of an autotuner, in place of the one that it has."""
    decorators = [
        d for d in specimen.function.decorator_list if callee_name(d) != "triton.autotune"
    ]
    listed = ast.List([_config(config) for config in configs], ast.Load())
    named = ast.List([ast.Constant(key) for key in keys], ast.Load())
    keywords = [ast.keyword("configs", listed), ast.keyword("key", named)]
    decorators.insert(0, ast.Call(expression("triton.autotune"), [], keywords))
    return rewrite(specimen, specimen.copied_body(), decorators=decorators)


def _config(config: Config) -> ast.Call:
    """`triton.Config({"BK": 64}, num_warps=8)`; options of the usual value are left unsaid."""
    kwargs = config.get("kwargs", {})
    names: list[ast.expr | None] = [ast.Constant(name) for name in kwargs]
    given = ast.Dict(names, [literal(value) for value in kwargs.values()])
    options = []
    for name, value in config.items():
        if name != "kwargs" and value is not None and value != _USUAL.get(name):
            options.append(ast.keyword(name, literal(value)))
    return ast.Call(expression("triton.Config"), [given], options)


def configs_and_keys(specimen: Specimen) -> tuple[list[dict[str, Any]], list[str]]:
    """What a specimen's autotuner is given, as its decorator says it."""
    call = specimen.function.decorator_list[0]
    assert isinstance(call, ast.Call)
    configs, keys = (keyword.value for keyword in call.keywords)
    assert isinstance(configs, ast.List)
    read = []
    for config in configs.elts:
        assert isinstance(config, ast.Call)
        options = {k.arg: ast.literal_eval(k.value) for k in config.keywords if k.arg}
        read.append({"kwargs": ast.literal_eval(config.args[0]), **options})
    return read, list(ast.literal_eval(keys))


def key_check(specimen: Specimen) -> str:
    """A script's comparison of the key that the autotuner built with the arguments it names."""
    _, keys = configs_and_keys(specimen)
    passed = [key for key in keys if key in specimen.args]
    values = []
    for key in passed:
        value = specimen.args[key]
        if isinstance(value, Mapping) and "dtype" not in value:
            value = next(iter(value.values()))
        values.append(value)
    return (
        f"want = {tuple(values)!r}  # {', '.join(passed) or 'no key was passed: all are tuned'}\n"
        f"key = tuple(part for part in next(iter({specimen.name}.cache))"
        " if not isinstance(part, str))\n"
        f'if key != want:\n    print("{SHIFTED_KEY}:", key, "instead of", want)\n'
    )


def body(best: Specimen) -> Generator[Specimen, bool, None]:
    """The kernel does nothing: an autotuner's fault lies before the compile."""
    yield rewrite(best, [])


def distinct_values(best: Specimen) -> Generator[Specimen, bool, None]:
    """Numbers that differ from one another, so that a key tells which argument it holds."""
    args, number = dict(best.args), 0
    for name, spec in best.args.items():
        for kind in ("int", "constexpr"):
            if isinstance(spec, Mapping) and not isinstance(spec.get(kind, ""), (str, Mapping)):
                # None is 1, which Triton treats as a constant.
                number += 32
                args[name] = {kind: number}
    yield best.with_(args=args)


def configurations(best: Specimen) -> Generator[Specimen, bool, None]:
    """Two configurations are enough to have keys looked up; each sets one thing."""
    configs, keys = configs_and_keys(best)
    yield from first_taken(set_autotuner(best, fewer, keys) for fewer in _fewer_configs(configs))


def _fewer_configs(configs: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    first = configs[0]["kwargs"]
    if first:
        name = next(iter(first))
        values = sorted({config["kwargs"][name] for config in configs})[:2]
        if len(values) == 1:
            # A tuner with one configuration looks no key up.
            values.append(values[0] * 2)
        yield [{"kwargs": {**first, name: value}} for value in values]
    yield [{"kwargs": first, "num_warps": warps} for warps in (4, 8)]
    yield configs[:2]


def keys(best: Specimen) -> Generator[Specimen, bool, None]:
    """Keys, one by one, the last first."""
    _, names = configs_and_keys(best)
    for name in reversed(names):
        candidate = _without_key(best, name)
        if (yield candidate):
            best = candidate


def arguments(best: Specimen) -> Generator[Specimen, bool, None]:
    """Parameters that nothing needs, from the last on: passed ones, then tuned ones."""
    for name in [*reversed(list(best.args)), *reversed(best.omitted_parameters)]:
        candidates = (_without(before, name) for before in (best, _without_key(best, name)))
        best = (yield from first_taken(candidates)) or best


def _without_key(specimen: Specimen, name: str) -> Specimen:
    configs, keys = configs_and_keys(specimen)
    return set_autotuner(specimen, configs, [key for key in keys if key != name])


def _without(specimen: Specimen, name: str) -> Specimen:
    """Without a parameter, passed or tuned; keys may still name it."""
    configs, keys = configs_and_keys(specimen)
    for config in configs:
        config["kwargs"].pop(name, None)
    omitted = tuple(other for other in specimen.omitted_parameters if other != name)
    fewer = set_autotuner(specimen.with_(omitted_parameters=omitted), configs, keys)
    return without_parameters(fewer, [name])
