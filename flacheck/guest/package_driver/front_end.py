"""Asks Triton's own front end whether kernels take what they were launched with. Nothing is
compiled where launches are recorded, so a made-up tensor of floats that a kernel counts with, or
strides of too few dimensions, would show only when it is too late to call the operator again."""

from __future__ import annotations

import ast
import collections
import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..engine import releases
from ..engine.messages import Kernel
from ..recorder.recorder import Recorder
from ..workers.removed import removed_api
from .interview import Interview
from .trust import Witness

# Of one kernel in calls of one dtype: what still refuses then may do so whatever it is given.
_MOST_QUESTIONS = 24


@dataclass(frozen=True)
class Refusal:
    """A kernel that does not take the `arguments` of a launch, and the front end's error."""

    kernel: str
    function: Kernel
    arguments: Mapping[str, Any]
    error: Exception


class FrontEnd:
    """Hears of launches while an operator is called, and asks about them when that has ended.
    `refused` are the kernels of which no launch was taken yet, with what the front end said last;
    `questions` counts what was asked."""

    def __init__(self, recorder: Recorder, witness: Witness) -> None:
        self._recorder, self._witness = recorder, witness
        witness.is_refused = self._is_refused
        # The forms of launches, by their identities.
        self._forms: dict[str, tuple[str, str]] = {}
        recorder.arrived = self._arrived
        self._waiting: dict[str, tuple[Kernel, Mapping[str, Any]]] = {}
        self._taken: set[str] = set()
        # What was said of arguments of one form.
        self._said: dict[tuple[str, str], Exception | None] = {}
        self._asked: collections.Counter[tuple[str, str]] = collections.Counter()
        self.refused: dict[str, str] = {}
        self.interview = Interview(recorder.cut)
        self._is_set_up = False

    @property
    def questions(self) -> int:
        return self._asked.total()

    def _arrived(self, kernel: str, function: Kernel, arguments: Mapping[str, Any]) -> None:
        self._forms.setdefault(self._witness.latest, (kernel, _form(function, arguments)))
        if kernel not in self._taken and self._asked[self._subject(kernel)] < _MOST_QUESTIONS:
            # The first launch of a call tells as much as those that follow.
            self._waiting.setdefault(kernel, (function, dict(arguments)))

    def _subject(self, kernel: str) -> tuple[str, str]:
        """The kernel and the dtype of the call, which the remark on it ends with."""
        return kernel, (self._recorder.during or "").rpartition(" ")[2]

    def _is_refused(self, identity: str) -> bool:
        return self._said.get(self._forms.get(identity, ("", ""))) is not None

    def ended(self) -> list[Refusal]:
        """The launches since the last word that were refused, in their order."""
        waiting, self._waiting = self._waiting, {}
        refusals = []
        for kernel, (function, arguments) in waiting.items():
            form = (kernel, _form(function, arguments))
            if form not in self._said:
                try:
                    self._said[form] = self._ask(kernel, function, arguments)
                except BaseException:
                    # The time for it was over: a kernel that takes so long is not asked again.
                    self._taken.add(kernel)
                    self.interview.unwritten = f"{kernel}: the front end did not end"
                    raise
            error = self._said[form]
            if error is None:
                self._taken.add(kernel)
                self.refused.pop(kernel, None)
            else:
                self.refused[kernel] = told(error)
                refusals.append(Refusal(kernel, function, arguments, error))
        return refusals

    def _ask(self, kernel: str, function: Kernel, arguments: Mapping[str, Any]) -> Exception | None:
        if not self._is_set_up:
            self._is_set_up = True
            set_up()
        self._asked[self._subject(kernel)] += 1
        error = against_arguments(self._recorder.refusal(function, arguments))
        self.interview.note(function, arguments, refusal(error))
        return error


def set_up() -> None:
    """To be called once, before the front end is asked."""
    # The language is a watched module here, which is no plain one.
    os.environ["TRITON_ALLOW_NON_CONSTEXPR_GLOBALS"] = "1"
    releases.skip_library_hash("")
    releases.end_before_stages()
    releases.watch_front_end(_note_removed)


def against_arguments(error: Exception | None) -> Exception | None:
    """The error where it may be about the arguments of a launch."""
    if error is None or getattr(error, "lacks", None) or not _is_of_the_source(error):
        # Where the release has taken an API away, no argument helps.
        return None
    return error


def _form(function: Kernel, arguments: Mapping[str, Any]) -> str:
    """What the front end knows of arguments, as far as it may mind."""
    forms = []
    for parameter in function.params:
        value: Any = arguments.get(parameter.name)
        if hasattr(value, "dtype"):
            forms.append(str(value.dtype))
        elif isinstance(value, (tuple, list)):
            forms.append(str(len(value)))
        elif hasattr(value, "block_shape"):
            forms.append(f"{value.base.dtype} {value.block_shape}")
        elif parameter.is_constexpr:
            forms.append(repr(value))
        else:
            forms.append(type(value).__name__)
    return "; ".join(forms)


def told(error: BaseException) -> str:
    """What an error says at last, behind the places that it came through."""
    while error.__cause__ is not None:
        error = error.__cause__
    said = str(getattr(error, "error_message", None) or error).strip()
    if not said:
        # A bare `assert` of the compiler's.
        return type(error).__name__
    return said.splitlines()[-1]


def refusal(error: BaseException | None) -> list[Any] | None:
    """What can be compared of an error: what it says, and through which statements of which kernels
    it came, the outermost first. A kernel that was cut out of its module has other lines, and some
    other names, but the same statements and calls."""
    if error is None:
        return None
    said = [told(error)]
    inner: BaseException | None = error
    while inner is not None:
        said.append(f"{type(inner).__name__} {_place(inner)}".strip())
        inner = inner.__cause__
    return said


def _place(error: BaseException) -> str:
    """Which of the statements of the kernel's source an error is about, and which of its calls."""
    about, source = getattr(error, "node", None), getattr(error, "src", None)
    if about is None or not isinstance(source, str):
        return ""
    nodes = list(ast.walk(ast.parse(textwrap.dedent(source))))
    around = [
        place
        for place, node in enumerate(each for each in nodes if isinstance(each, ast.stmt))
        if node.lineno <= about.lineno <= (node.end_lineno or 0)
    ]
    start = (about.lineno, about.col_offset)
    calls = [
        place
        for place, node in enumerate(each for each in nodes if isinstance(each, ast.Call))
        if (node.lineno, node.col_offset) == start
    ]
    return f"{around} {calls}"


def _note_removed(error: BaseException) -> None:
    """Only before the compiler strips its frames can be told what is lacking."""
    error.lacks = removed_api(error)  # type: ignore[attr-defined]


def _is_of_the_source(error: Exception) -> bool:
    """Whether the error is about a line of a kernel: another is our own way of asking."""
    return hasattr(error, "node") and hasattr(error, "src")
