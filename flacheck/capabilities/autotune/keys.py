"""What a release's autotuner tells launches of a kernel apart by, and what the compiler does."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from packaging.version import Version

from flacheck.capabilities.autotune.results import Args, TunedLaunch, TuningKey
from flacheck.model import canonical
from flacheck.source.autotuners import AutotunedKernel

# Triton 3.0 and 3.1 look keys up by their position in a list from which omitted arguments are
# missing; from here on by name.
BY_NAME_FROM = Version("3.2.0")
# The compiler emits wider loads where an integer is a multiple of this, so it is another binary.
ALIGNMENT = 16
_SCALARS = (bool, int, float, str)
# An integer beyond these limits has 64 bits.
_INT32 = 1 << 31
# How kernels call sequence lengths and counts of tokens.
_LENGTH = re.compile(r"T|NT|(?i:(?:max_|total_)?seq_?len\w*|(?:total_|num_|n_?)\w*tokens)")


@dataclass(frozen=True)
class KeyEvidence:
    """All that is known of a tuned kernel's keys under a release of Triton: its source, the calls
    that were seen, and `audit`, what the release itself put into its key, as `{"key", "want",
    "got", "fault"}`, empty where it looks keys up by name."""

    tuned_launch: TunedLaunch
    version: Version
    audit: Sequence[Mapping[str, Any]] = ()

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """All parameters in order; without a source those that launches speak of."""
        if self.tuned_launch.declaration:
            return self.tuned_launch.declaration.arguments
        launch = self.tuned_launch.launch
        return tuple(dict.fromkeys([*launch.args, *launch.omitted]))

    @cached_property
    def constexprs(self) -> frozenset[str]:
        """The parameters that are constexprs; without a source those that a call passes as one."""
        if self.tuned_launch.declaration:
            return frozenset(self.tuned_launch.declaration.constexprs)
        return frozenset(name for call in self.calls for name in call if is_fixed(call[name]))

    @property
    def heuristics(self) -> tuple[str, ...]:
        """Arguments that heuristics supply before the autotuner sees a call."""
        return self.tuned_launch.declaration.heuristics if self.tuned_launch.declaration else ()

    @property
    def unspecialized(self) -> tuple[str, ...]:
        """Arguments that the compiler is told not to look at."""
        return (
            self.tuned_launch.declaration.do_not_specialize if self.tuned_launch.declaration else ()
        )

    @property
    def in_file(self) -> AutotunedKernel | None:
        """The source where its line numbers mean something: None for one cut out of its file."""
        declaration = self.tuned_launch.declaration
        if declaration is None or declaration.file is None:
            return None
        return declaration

    @cached_property
    def tuned_names(self) -> frozenset[str]:
        """What configurations supply."""
        configs = self.tuned_launch.launch.configs
        return frozenset(name for config in configs for name in config.get("kwargs", {}))

    @cached_property
    def calls(self) -> list[Args]:
        """The distinct calls that were seen, without what configurations supply."""
        calls: dict[str, Args] = {}
        for args in self.tuned_launch.observed_calls:
            call = {name: spec for name, spec in args.items() if name not in self.tuned_names}
            calls[canonical(call)] = call
        return list(calls.values())

    @cached_property
    def by_key(self) -> dict[str, list[Args]]:
        """The distinct calls by the key that tunes them: key values, then tensors' dtypes."""
        calls_of: dict[str, list[Args]] = {}
        for call in self.calls:
            calls_of.setdefault(canonical(self.key(call)), []).append(call)
        return calls_of

    def tuning_keys(self, call: Args) -> list[TuningKey]:
        """Return the keys that the autotuner may build for a call: one for each order in which host
        code passes the tensors, because a key lists their dtypes in that order. Return none for a
        call with a value that no file can hold."""
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
        """The orders in which host code passes the arguments, or that of the signature."""
        orders: dict[tuple[str, ...], None] = {}
        for host in self.tuned_launch.hosts:
            passed = [name for name in host.arguments if name in self.arguments]
            rest = [name for name in self.arguments if name not in host.arguments]
            order = (*passed, *rest)
            orders[order] = None
        return list(orders) or [self.arguments]

    def key(self, call: Args) -> tuple[list[Any], list[str]]:
        """What a release builds: the keys' values, and the tensors' dtypes."""
        values = [plain(call[name]) for name in self.tuned_launch.keys if name in call]
        return values, [call[name]["dtype"] for name in self.arguments if is_tensor(call.get(name))]

    def is_length(self, name: str) -> bool:
        """Whether an argument is a sequence length, by its name and by being an integer."""
        specs = [call[name] for call in self.calls if name in call]
        return bool(_LENGTH.fullmatch(name)) and all(isinstance(plain(spec), int) for spec in specs)


def is_tensor(spec: Any) -> bool:
    return isinstance(spec, Mapping) and "dtype" in spec


def is_fixed(spec: Any) -> bool:
    """Whether an argument was passed as a constexpr."""
    return isinstance(spec, Mapping) and "constexpr" in spec


def binary(call: Args) -> str:
    """Return the parts of a call that decide what is compiled: two calls with the same text
    compile to the same binary."""
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
    """What the compiler looks at in an argument that a key can hold; None for what it takes as it
    comes.

    Integers: equal to 1, divisible by 16; constexprs: the value. Tensors, and None in the place of
    one, are told apart by the dtypes in a key, and by the heuristics that look at them.
    """
    if is_fixed(spec):
        return canonical(spec)
    value = spec
    if isinstance(spec, Mapping):
        value = spec.get("int")
    # A bool is an int to Python, and one bit to the compiler, which does not look at its value.
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if value == 1:
        return "1"
    if value % ALIGNMENT == 0:
        return f"a multiple of {ALIGNMENT}"
    return "any other integer"


def plain(spec: Any) -> Any:
    """The value of a number or constexpr; of anything else the whole."""
    if isinstance(spec, Mapping):
        for kind in ("constexpr", "int", "float", "bool"):
            if kind in spec:
                return spec[kind]
    return spec
