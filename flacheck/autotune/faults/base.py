"""What a search for a key's fault is given, and how launches are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from packaging.version import Version

from flacheck.autotune.examined import Args, KeyFault, Tuned
from flacheck.model import canonical

ALIGNMENT = 16


class Fault(Protocol):
    """One kind of fault: yields a finding for each key, or argument, that has it. One whose remedy
    is another list of keys leaves `fix` empty: `faults` writes the list that mends them all.
    """

    def __call__(self, case: Case) -> Iterator[KeyFault]: ...


@dataclass(frozen=True)
class Case:
    """A tuned kernel under a release of Triton; `audit` is what the release itself put into its
    key, as `{"key", "want", "got", "fault"}`, empty where it looks keys up by name.
    """

    tuned: Tuned
    version: Version
    audit: Sequence[Mapping[str, Any]] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """All parameters in order; without a source those that launches speak of."""
        declared = self.tuned.declared
        if declared:
            return declared.arguments
        launch = self.tuned.launch
        return (*launch.args, *(name for name in launch.omitted if name not in launch.args))

    @property
    def tuned_names(self) -> frozenset[str]:
        """What configurations supply."""
        return frozenset(
            name for config in self.tuned.launch.configs for name in config.get("kwargs", {})
        )

    @cached_property
    def calls(self) -> list[Args]:
        """The distinct calls that were seen, without what configurations supply."""
        calls = [
            {n: a for n, a in args.items() if n not in self.tuned_names} for args in self.tuned.seen
        ]
        return list({canonical(call): call for call in calls}.values())

    @cached_property
    def by_key(self) -> dict[str, list[Args]]:
        """The distinct calls by the key that tunes them: values of the keys, then every tensor's
        dtype.
        """
        found: dict[str, list[Args]] = {}
        for call in self.calls:
            found.setdefault(canonical(self.key(call)), []).append(call)
        return found

    def key(self, call: Args) -> tuple[list[Any], list[str]]:
        """What a release builds: the keys' values, and the tensors' dtypes."""
        values = [plain(call[name]) for name in self.tuned.keys if name in call]
        return values, [call[name]["dtype"] for name in self.arguments if is_tensor(call.get(name))]


def is_tensor(spec: Any) -> bool:
    return isinstance(spec, Mapping) and "dtype" in spec


def specialisation(spec: Any) -> str | None:
    """What the compiler looks at in an argument that a key can hold; None for what it takes as it
    comes.

    Integers: equal to 1, divisible by 16; constexprs: the value. Tensors, and None in the place of
    one, are told apart by the dtypes in a key, and by the heuristics that look at them.
    """
    if isinstance(spec, Mapping) and "constexpr" in spec:
        return canonical(spec)
    value = spec.get("int") if isinstance(spec, Mapping) else spec
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return (
        "1"
        if value == 1
        else f"a multiple of {ALIGNMENT}"
        if value % ALIGNMENT == 0
        else "any other integer"
    )


def plain(spec: Any) -> Any:
    """The value of a number or constexpr; of anything else the whole."""
    if isinstance(spec, Mapping):
        for kind in ("constexpr", "int", "float", "bool"):
            if kind in spec:
                return spec[kind]
    return spec
