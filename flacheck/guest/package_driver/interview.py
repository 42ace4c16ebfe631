"""What Triton's front end was asked in a drive and what it answered, written down so that the front
end of another release can be asked the same, without torch and without the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..engine.messages import Kernel
from ..recorder.described import Functions, argument
from ..workers.cut import CutResult, handed

_NUMBERS = ("int", "float", "bool", "dtype", "function")


class Interview:
    """`questions` in their order, each {"source": digest, "kernel": name in the source, "args",
    "refusal"}; `sources` by digest. `is_whole` is False once a question could not be written."""

    def __init__(self, cut: Callable[[Kernel, Functions], CutResult]) -> None:
        self._cut = cut
        self.questions: list[dict[str, Any]] = []
        self.sources: dict[str, str] = {}
        self.is_whole = True

    def note(
        self, function: Kernel, arguments: Mapping[str, Any], refusal: list[Any] | None
    ) -> None:
        functions = handed(function, dict(arguments))
        cut = self._cut(function, functions)
        given = {name: argument(value, functions) for name, value in arguments.items()}
        if cut.text is None or cut.digest is None or not all(map(_is_rebuilt, given.values())):
            self.is_whole = False
            return
        self.sources[cut.digest] = cut.text
        question = {"source": cut.digest, "kernel": function.fn.__name__, "args": given}
        self.questions.append({**question, "refusal": refusal})


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
    # Infinity has a word, which the rebuilt launch has not.
    return not isinstance(given.get("float"), str) and any(name in given for name in _NUMBERS)
