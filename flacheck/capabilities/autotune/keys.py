"""The keys by which an autotuner, and the compiler, distinguish launches of a kernel."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from packaging.version import Version

from flacheck.capabilities.autotune.results import Args, TunedLaunch, TuningKey
from flacheck.model import canonical
from flacheck.source.autotuners import AutotunedKernel

# Triton 3.0 and 3.1 look keys up by position in a list without the omitted arguments; later
# releases look them up by name.
BY_NAME_FROM = Version("3.2.0")
# The compiler emits wider loads for integers that are multiples of 16, so the binary differs.
ALIGNMENT = 16
_SCALARS = (bool, int, float, str)
# Integers outside of ±2^31 are passed as 64 bits.
_INT32 = 1 << 31
# The usual names of sequence lengths and token counts.
_LENGTH = re.compile(r"T|NT|(?i:(?:max_|total_)?seq_?len\w*|(?:total_|num_|n_?)\w*tokens)")


@dataclass(frozen=True)
class KeyEvidence:
    """The facts about a launch's keys under a release of Triton.

    `audit` lists the values that the release itself put into its key, as `{"key", "want", "got",
    "fault"}`; it is empty for releases that look keys up by name.
    """

    tuned_launch: TunedLaunch
    version: Version
    audit: Sequence[Mapping[str, Any]] = ()

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """All parameters in order; without a source those of the launch."""
        if self.tuned_launch.declaration:
            return self.tuned_launch.declaration.arguments
        launch = self.tuned_launch.launch
        return tuple(dict.fromkeys([*launch.args, *launch.omitted]))

    @cached_property
    def constexprs(self) -> frozenset[str]:
        """The constexpr parameters; without a source, those that a call passes as constexprs."""
        if self.tuned_launch.declaration:
            return frozenset(self.tuned_launch.declaration.constexprs)
        names = set()
        for call in self.calls:
            for name, spec in call.items():
                if is_fixed(spec):
                    names.add(name)
        return frozenset(names)

    @property
    def heuristics(self) -> tuple[str, ...]:
        """The arguments that heuristics add before the autotuner runs."""
        declaration = self.tuned_launch.declaration
        if declaration is None:
            return ()
        return declaration.heuristics

    @property
    def do_not_specialize(self) -> tuple[str, ...]:
        """The arguments that the compiler does not specialise on."""
        declaration = self.tuned_launch.declaration
        if declaration is None:
            return ()
        return declaration.do_not_specialize

    @property
    def in_file(self) -> AutotunedKernel | None:
        """The source with valid line numbers; None for a source that was cut out of its file."""
        declaration = self.tuned_launch.declaration
        if declaration is None or declaration.file is None:
            return None
        return declaration

    @cached_property
    def tuned_names(self) -> frozenset[str]:
        """The constants that configurations supply."""
        names: set[str] = set()
        for config in self.tuned_launch.launch.configs:
            names.update(config.get("kwargs", {}))
        return frozenset(names)

    @cached_property
    def calls(self) -> list[Args]:
        """The distinct observed calls, without the constants of configurations."""
        calls: dict[str, Args] = {}
        for args in self.tuned_launch.observed_calls:
            call = {name: spec for name, spec in args.items() if name not in self.tuned_names}
            calls[canonical(call)] = call
        return list(calls.values())

    @cached_property
    def by_key(self) -> dict[str, list[Args]]:
        """The distinct calls by key: the keys' values, then the tensors' dtypes."""
        calls_of: dict[str, list[Args]] = {}
        for call in self.calls:
            calls_of.setdefault(canonical(self.key(call)), []).append(call)
        return calls_of

    def tuning_keys(self, call: Args) -> list[TuningKey]:
        """Return the keys that the autotuner may build for a call.

        A key lists the tensors' dtypes in the order in which host code passes them, so there is one
        key for each order. A call with a value that JSON cannot hold has none.
        """
        values = tuple((name, plain(call[name])) for name in self.tuned_launch.keys if name in call)
        if not all(value is None or isinstance(value, _SCALARS) for _, value in values):
            return []
        keys = []
        for order in self._orders:
            tensors = [name for name in order if is_tensor(call.get(name))]
            keys.append(TuningKey(values, tuple(call[name]["dtype"] for name in tensors)))
        return keys

    @cached_property
    def _orders(self) -> list[tuple[str, ...]]:
        """The orders in which host code passes the arguments, else that of the signature."""
        orders: dict[tuple[str, ...], None] = {}
        for host in self.tuned_launch.hosts:
            first = [name for name in host.arguments if name in self.arguments]
            rest = [name for name in self.arguments if name not in host.arguments]
            order = (*first, *rest)
            orders[order] = None
        return list(orders) or [self.arguments]

    def key(self, call: Args) -> tuple[list[Any], list[str]]:
        """Return the key that a release builds: the keys' values, and the tensors' dtypes."""
        values = []
        for name in self.tuned_launch.keys:
            if name in call:
                values.append(plain(call[name]))
        dtypes = []
        for name in self.arguments:
            if is_tensor(call.get(name)):
                dtypes.append(call[name]["dtype"])
        return values, dtypes

    def is_length(self, name: str) -> bool:
        """Return True for integers with the name of a sequence length."""
        specs = [call[name] for call in self.calls if name in call]
        return bool(_LENGTH.fullmatch(name)) and all(isinstance(plain(spec), int) for spec in specs)


def is_tensor(spec: Any) -> bool:
    return isinstance(spec, Mapping) and "dtype" in spec


def is_fixed(spec: Any) -> bool:
    """Return True for an argument that was passed as a constexpr."""
    return isinstance(spec, Mapping) and "constexpr" in spec


def binary(call: Args) -> str:
    """Return a text that is equal for calls that compile to the same binary."""
    return canonical({name: _compiled_part(spec) for name, spec in call.items()})


def _compiled_part(spec: Any) -> Any:
    if is_tensor(spec):
        return {"dtype": spec["dtype"], "aligned": spec.get("align", ALIGNMENT) % ALIGNMENT == 0}
    if isinstance(spec, Mapping) and "int" in spec:
        return {"int": specialisation(spec), "wide": not -_INT32 <= spec["int"] < _INT32}
    if isinstance(spec, Mapping) and "float" in spec:
        return "float"
    return spec


def specialisation(spec: Any) -> str | None:
    """Return the property of an argument that the compiler specialises on; None without one.

    Integers: equal to 1, divisible by 16; constexprs: the value. Tensors, and None
    instead of a tensor, differ in the dtypes of a key, and in the heuristics that read them.
    """
    if is_fixed(spec):
        return canonical(spec)
    value = spec
    if isinstance(spec, Mapping):
        value = spec.get("int")
    # In Python a bool is an int, but the compiler does not specialise on its value.
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if value == 1:
        return "1"
    if value % ALIGNMENT == 0:
        return f"a multiple of {ALIGNMENT}"
    return "any other integer"


def plain(spec: Any) -> Any:
    """Return the value of a number or constexpr, or anything else as it is."""
    if isinstance(spec, Mapping):
        for kind in ("constexpr", "int", "float", "bool"):
            if kind in spec:
                return spec[kind]
    return spec
