"""Autotuned kernels: the decorator as text, and what it says."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from flacheck.repro.kernel.constant_folding import literal
from flacheck.repro.kernel.rewriting import rewritten
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax_trees import expression

SHIFTED = "the autotuner's key holds other arguments"
# The defaults of `triton.Config` in most releases.
_USUAL = {"num_warps": 4, "num_stages": 2, "num_ctas": 1}
Config = Mapping[str, Any]


def tuned(cut: Specimen, configs: Sequence[Config], keys: Sequence[str]) -> Specimen:
    """The specimen under the autotuner that its launch describes."""
    omitted: tuple[str, ...] = ()
    if configs:
        omitted = tuple(name for name in configs[0].get("kwargs", {}) if name not in cut.args)
    return autotuned(cut.with_(stage="autotune", options={}, omitted=omitted), configs, keys)


def autotuned(specimen: Specimen, configs: Sequence[Config], keys: Sequence[str]) -> Specimen:
    """The specimen with the decorator of an autotuner, in place of the one that it has."""
    others = [d for d in specimen.function.decorator_list if not _is_autotuner(d)]
    decorators = [_decorator(configs, keys), *others]
    return rewritten(specimen, specimen.copied_body(), decorators=decorators)


def _is_autotuner(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "triton.autotune"


def _decorator(configs: Sequence[Config], keys: Sequence[str]) -> ast.Call:
    listed = ast.List([_config(config) for config in configs], ast.Load())
    named = ast.List([ast.Constant(key) for key in keys], ast.Load())
    keywords = [ast.keyword("configs", listed), ast.keyword("key", named)]
    return ast.Call(expression("triton.autotune"), [], keywords)


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
    return [_read(c) for c in configs.elts if isinstance(c, ast.Call)], list(ast.literal_eval(keys))


def _read(call: ast.Call) -> dict[str, Any]:
    options = {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg}
    return {"kwargs": ast.literal_eval(call.args[0]), **options}


def key_check(specimen: Specimen) -> str:
    """A script's comparison of the key that the autotuner built with the arguments it names."""
    _, keys = configs_and_keys(specimen)
    passed = [key for key in keys if key in specimen.args]
    values = tuple(_value(specimen.args[key]) for key in passed)
    return (
        f"want = {values!r}  # {', '.join(passed) or 'no key was passed: all are tuned'}\n"
        f"key = tuple(part for part in next(iter({specimen.name}.cache))"
        " if not isinstance(part, str))\n"
        f'if key != want:\n    print("{SHIFTED}:", key, "instead of", want)\n'
    )


def _value(spec: Any) -> Any:
    if isinstance(spec, Mapping) and "dtype" not in spec:
        return next(iter(spec.values()))
    return spec
