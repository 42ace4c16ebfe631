"""Autotuned kernels: the decorator as text, and the passes that make configurations, keys and
parameters fewer.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from flacheck.repro.kernel.editing import edited
from flacheck.repro.kernel.folding import literal
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import expression
from flacheck.repro.reducer import Pass

SHIFTED = "the autotuner's key holds other arguments"
_USUAL = {"num_warps": 4, "num_stages": 2, "num_ctas": 1}


def tuned(cut: Specimen, configs: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Specimen:
    """The specimen under the autotuner that its launch describes."""
    tuned_names = (
        [name for name in configs[0].get("kwargs", {}) if name not in cut.args] if configs else []
    )
    return autotuned(
        cut.with_(stage="autotune", options={}, omitted=tuple(tuned_names)), configs, keys
    )


def autotuned(
    specimen: Specimen, configs: Sequence[Mapping[str, Any]], keys: Sequence[str]
) -> Specimen:
    """The specimen with the decorator of an autotuner."""
    with edited(specimen) as kernel:
        kernel.decorators = [_decorator(configs, keys), *kernel.decorators]
    return kernel.specimen


def _decorator(configs: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> ast.Call:
    listed = ast.List([_config(config) for config in configs], ast.Load())
    named = ast.List([ast.Constant(key) for key in keys], ast.Load())
    keywords = [ast.keyword("configs", listed), ast.keyword("key", named)]
    return ast.Call(expression("triton.autotune"), [], keywords)


def _config(config: Mapping[str, Any]) -> ast.Call:
    """`triton.Config({"BK": 64}, num_warps=8)`; options of the usual value are left unsaid."""
    kwargs = config.get("kwargs", {})
    given = ast.Dict(
        [ast.Constant(name) for name in kwargs], [literal(value) for value in kwargs.values()]
    )
    options = {
        k: v for k, v in config.items() if k != "kwargs" and _USUAL.get(k) != v and v is not None
    }
    return ast.Call(
        expression("triton.Config"),
        [given],
        [ast.keyword(k, literal(v)) for k, v in options.items()],
    )


def decorator_of(specimen: Specimen) -> tuple[list[dict[str, Any]], list[str]]:
    """The configurations and keys of a specimen's autotuner, as its decorator says them."""
    call = specimen.function.decorator_list[0]
    assert isinstance(call, ast.Call)
    given = {k.arg: k.value for k in call.keywords}
    configs, keys = given["configs"], given["key"]
    assert isinstance(configs, ast.List)
    return [_read(c) for c in configs.elts if isinstance(c, ast.Call)], list(ast.literal_eval(keys))


def _read(call: ast.Call) -> dict[str, Any]:
    options = {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg}
    return {"kwargs": ast.literal_eval(call.args[0]), **options}


def _retuned(
    specimen: Specimen, configs: Sequence[Mapping[str, Any]], keys: Sequence[str]
) -> Specimen:
    with edited(specimen) as kernel:
        kernel.decorators = [_decorator(configs, keys), *kernel.decorators[1:]]
    return kernel.specimen


class EmptyBody:
    """The kernel does nothing: an autotuner's fault lies before the compile."""

    name = "body"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        with edited(best) as kernel:
            kernel.body = []
        yield kernel.specimen


class Distinct:
    """Numbers that differ from one another, so that a key tells which argument it holds."""

    name = "distinct values"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        yield best.with_(args=_distinct(best.args))


def _distinct(args: Mapping[str, Any]) -> dict[str, Any]:
    numbers = iter(range(32, 32 * (len(args) + 2), 32))
    return {name: _numbered(spec, numbers) for name, spec in args.items()}


def _numbered(spec: Any, numbers: Iterator[int]) -> Any:
    if isinstance(spec, Mapping):
        for kind in ("int", "constexpr"):
            if kind in spec and not isinstance(spec[kind], (str, Mapping)):
                return {kind: next(numbers)}
    return spec


class Configurations:
    """Two configurations are enough to have keys looked up; each sets one thing."""

    name = "configurations"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        configs, keys = decorator_of(best)
        for fewer in _fewer_configs(configs):
            if (yield _retuned(best, fewer, keys)):
                return


def _fewer_configs(configs: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    first = configs[0]["kwargs"]
    if first:
        name = next(iter(first))
        values = sorted({config["kwargs"][name] for config in configs})[:2]
        values += [values[0] * 2] if len(values) == 1 else []
        yield [{"kwargs": {**first, name: value}} for value in values]
    yield [{"kwargs": first, "num_warps": warps} for warps in (4, 8)]
    yield configs[:2]


class Keys:
    """Keys, one by one, the last first."""

    name = "keys"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        _, names = decorator_of(best)
        for name in reversed(names):
            configs, keys = decorator_of(best)
            candidate = _retuned(best, configs, [key for key in keys if key != name])
            if (yield candidate):
                best = candidate


class Arguments:
    """Parameters that nothing needs: passed ones, then tuned ones with what sets them, from the
    last on.
    """

    name = "arguments"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        for name in [*reversed(list(best.args)), *reversed(best.omitted)]:
            for candidate in (_without(best, name), _without_key(best, name)):
                if (yield candidate):
                    best = candidate
                    break


def _without(specimen: Specimen, name: str) -> Specimen:
    omitted = tuple(other for other in specimen.omitted if other != name)
    configs, keys = decorator_of(specimen)
    fewer = [{**c, "kwargs": {k: v for k, v in c["kwargs"].items() if k != name}} for c in configs]
    with edited(_retuned(specimen, fewer, keys).with_(omitted=omitted)) as kernel:
        kernel.drop([name])
    return kernel.specimen


def _without_key(specimen: Specimen, name: str) -> Specimen:
    configs, keys = decorator_of(specimen)
    return _without(_retuned(specimen, configs, [key for key in keys if key != name]), name)


def key_check(specimen: Specimen) -> str:
    """Compares the key that the autotuner built with the arguments that it names; names of dtypes
    come after those.
    """
    _, keys = decorator_of(specimen)
    passed = [key for key in keys if key in specimen.args]
    values = tuple(_value(specimen.args[key]) for key in passed)
    return (
        f"want = {values!r}  # {', '.join(passed) or 'no key was passed: all are tuned'}\n"
        f"key = tuple(part for part in next(iter({specimen.name}.cache)) if not isinstance(part, str))\n"
        f'if key != want:\n    print("{SHIFTED}:", key, "instead of", want)\n'
    )


def _value(spec: Any) -> Any:
    return next(iter(spec.values())) if isinstance(spec, Mapping) and "dtype" not in spec else spec


TUNING_FIRST: tuple[Pass, ...] = (EmptyBody(), Distinct(), Configurations())
TUNING: tuple[Pass, ...] = (Keys(), Arguments(), Configurations())
