"""What Triton's front end was asked in a drive and what it answered, written down so that the front
end of another release can be asked the same, without torch and without the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..engine.messages import Kernel
from ..recorder.described import Functions, argument
from ..workers.cut import CutResult, handed

# That can be made again from what is written of them.
_KINDS = ("int", "float", "bool", "dtype", "function")


class Interview:
    """`questions` in their order, each {"source": digest, "kernel": name in the source, "args",
    "refusal"}; `sources` by digest. `unwritten` says about which kernel a question could not be
    written down, and why."""

    def __init__(self, cut: Callable[[Kernel, Functions], CutResult]) -> None:
        self._cut = cut
        self.questions: list[dict[str, Any]] = []
        self.sources: dict[str, str] = {}
        self.unwritten: str | None = None

    def note(
        self, function: Kernel, arguments: Mapping[str, Any], refusal: list[Any] | None
    ) -> None:
        functions = handed(function, dict(arguments))
        cut = self._cut(function, functions)
        given = {name: _given(argument(value, functions)) for name, value in arguments.items()}
        odd = [name for name, described in given.items() if not _is_rebuilt(described)]
        if cut.text is None or cut.digest is None or odd:
            why = cut.reason or f"what {odd[0]} is given cannot be made again"
            self.unwritten = f"{function.fn.__name__}: {why}"
            return
        self.sources[cut.digest] = cut.text
        question = {"source": cut.digest, "kernel": function.fn.__name__, "args": given}
        self.questions.append({**question, "refusal": refusal})


def _given(described: Any) -> Any:
    """The argument with numbers in place of the words for infinity and what is no number: only we
    read the file."""
    if not isinstance(described, dict):
        return described
    if "tuple" in described:
        return {"tuple": [_given(item) for item in described["tuple"]]}
    if "constexpr" in described:
        return {"constexpr": _constant(described["constexpr"])}
    if isinstance(described.get("float"), str):
        return {"float": float(described["float"])}
    return described


def _constant(described: Any) -> Any:
    if not isinstance(described, dict):
        return described
    if "tuple" in described:
        return {"tuple": [_constant(item) for item in described["tuple"]]}
    if "float" in described:
        return float(described["float"])
    return described


def _is_rebuilt(given: Any) -> bool:
    """Whether the argument or constant that this describes can be made again."""
    if not isinstance(given, dict):
        return True
    if "constexpr" in given:
        return _is_rebuilt(given["constexpr"])
    if "tuple" in given:
        return all(map(_is_rebuilt, given["tuple"]))
    if "descriptor" in given:
        return True
    return any(name in given for name in _KINDS)
