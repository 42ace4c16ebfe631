"""The passes that make an autotuner's configurations, keys and parameters fewer."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any

from flacheck.repro.kernel.autotuner import autotuned, configs_and_keys
from flacheck.repro.kernel.rewriting import rewritten, without_parameters
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.passes.search import first_taken


def body(best: Specimen) -> Generator[Specimen, bool, None]:
    """The kernel does nothing: an autotuner's fault lies before the compile."""
    yield rewritten(best, [])


def distinct_values(best: Specimen) -> Generator[Specimen, bool, None]:
    """Numbers that differ from one another, so that a key tells which argument it holds."""
    args = dict(best.args)
    for at, (name, kind) in enumerate(_numbers(best.args), 1):
        args[name] = {kind: 32 * at}
    yield best.with_(args=args)


def _numbers(args: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Parameter and kind of each argument that is a number."""
    for name, spec in args.items():
        for kind in ("int", "constexpr"):
            if isinstance(spec, Mapping) and not isinstance(spec.get(kind, ""), (str, Mapping)):
                yield name, kind


def configurations(best: Specimen) -> Generator[Specimen, bool, None]:
    """Two configurations are enough to have keys looked up; each sets one thing."""
    configs, keys = configs_and_keys(best)
    yield from first_taken(autotuned(best, fewer, keys) for fewer in _fewer_configs(configs))


def _fewer_configs(configs: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    first = configs[0]["kwargs"]
    if first:
        name = next(iter(first))
        values = sorted({config["kwargs"][name] for config in configs})[:2]
        if len(values) == 1:
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
    for name in [*reversed(list(best.args)), *reversed(best.omitted)]:
        candidates = (_without(before, name) for before in (best, _without_key(best, name)))
        best = (yield from first_taken(candidates)) or best


def _without_key(specimen: Specimen, name: str) -> Specimen:
    configs, keys = configs_and_keys(specimen)
    return autotuned(specimen, configs, [key for key in keys if key != name])


def _without(specimen: Specimen, name: str) -> Specimen:
    """Without a parameter, passed or tuned; keys may still name it."""
    configs, keys = configs_and_keys(specimen)
    for config in configs:
        config["kwargs"].pop(name, None)
    omitted = tuple(other for other in specimen.omitted if other != name)
    fewer = autotuned(specimen.with_(omitted=omitted), configs, keys)
    return without_parameters(fewer, [name])
