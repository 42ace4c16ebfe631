"""Checks by Triton's front end in a form that another release can repeat without the package."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..engine.messages import Kernel
from ..recorder.launch_description import Functions, argument
from ..workers.cut import CutResult, passed_functions

# Arguments of these kinds can be built again from their description.
_REBUILDABLE_KINDS = ("int", "float", "bool", "dtype", "function")


class FrontendQueries:
    """The front end's checks of one capture.

    Attributes:
        sources: the kernels' source text by digest.
        unwritten: the kernel whose check could not be written, with the reason; else None.
    """

    def __init__(self, cut: Callable[[Kernel, Functions], CutResult]) -> None:
        self._cut = cut
        # The checks in order, each with the kernel's full name.
        self._queries: list[tuple[str, dict[str, Any]]] = []
        self.sources: dict[str, str] = {}
        self.unwritten: str | None = None

    def needed(self, certain_kernels: Collection[str]) -> list[dict[str, Any]]:
        """Return the checks that another release must repeat, in order.

        Each is {"source": digest, "kernel": name in the source, "args", "refusal"}. A launch that
        the package makes as documented stands whether another release accepts it or not, so that
        the accepted checks of `certain_kernels` are left out.
        """
        queries = []
        for name, query in self._queries:
            if query["refusal"] is not None or name not in certain_kernels:
                queries.append(query)
        return queries

    def add(
        self,
        name: str,
        function: Kernel,
        arguments: Mapping[str, Any],
        refusal: list[Any] | None,
    ) -> None:
        """Add one check of the kernel `name` and its result."""
        functions = passed_functions(function, dict(arguments))
        cut = self._cut(function, functions)
        descriptions: dict[str, Any] = {}
        lost_arguments = []
        for name, value in arguments.items():
            description = _with_floats(argument(value, functions))
            if type(value) is list:
                # A launches file calls it a tuple.
                description = {"list": description["tuple"]}
            descriptions[name] = description
            if not _can_rebuild(description):
                lost_arguments.append(name)
        kernel_name = function.fn.__name__
        if cut.text is None or cut.digest is None or lost_arguments:
            if refusal is not None:
                reason = cut.reason or f"the value of {lost_arguments[0]} cannot be rebuilt"
                self.unwritten = f"{kernel_name}: {reason}"
            # An accepted launch is kept: where another release refuses it, its compile says so.
            return
        self.sources[cut.digest] = cut.text
        query = {
            "source": cut.digest,
            "kernel": kernel_name,
            "args": descriptions,
            "refusal": refusal,
        }
        self._queries.append((name, query))


def _with_floats(description: Any) -> Any:
    """Replace the words for infinity and NaN by numbers: Python reads both back from JSON."""
    if not isinstance(description, dict):
        return description
    if "tuple" in description:
        items = [_with_floats(item) for item in description["tuple"]]
        return {"tuple": items}
    if "constexpr" in description:
        return {"constexpr": _constant_with_floats(description["constexpr"])}
    if isinstance(description.get("float"), str):
        return {"float": float(description["float"])}
    return description


def _constant_with_floats(description: Any) -> Any:
    if not isinstance(description, dict):
        return description
    if "tuple" in description:
        items = [_constant_with_floats(item) for item in description["tuple"]]
        return {"tuple": items}
    if "float" in description:
        return float(description["float"])
    return description


def _can_rebuild(description: Any) -> bool:
    """Return True if the argument or constant can be built again from its description."""
    if not isinstance(description, dict):
        return True
    if "constexpr" in description:
        return _can_rebuild(description["constexpr"])
    for kind in ("tuple", "list"):
        if kind in description:
            return all(map(_can_rebuild, description[kind]))
    if "descriptor" in description:
        return True
    return any(kind in description for kind in _REBUILDABLE_KINDS)
