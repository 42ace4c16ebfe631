"""Runs of a user's own program: in its own mode, and once in every mode to compare with.

A program ends after one run, so each mode needs a run of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flacheck.capabilities.dtypes import judging
from flacheck.capabilities.dtypes.observation import Mode, Observation, ObservedRun, ObservedSubject
from flacheck.capabilities.dtypes.starting import DtypesAnswer, DtypesQuestion, observe, script_name
from flacheck.errors import IncompleteError, UsageError
from flacheck.toolchains.scratch import temporary_folder

# Interpreter names that a command may begin with.
_PYTHON = ("python", "python3")


def words_of(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the script or `-m` and module of a command with its arguments; empty for a target.

    Raises UsageError for a missing file.
    """
    words = list(arguments)
    is_command = len(words) > 1 and words[0] in _PYTHON
    if is_command:
        words = words[1:]
    if words[:1] == ["-m"] and len(words) > 1:
        return tuple(words)
    if not words or not words[0].endswith(".py"):
        return ()
    if not Path(words[0]).is_file():
        raise UsageError(f"there is no file {words[0]}; give a script, FILE.py:NAME or MODULE:NAME")
    return tuple(words)


def with_modes(question: DtypesQuestion, autocast: Sequence[str]) -> DtypesQuestion:
    """Return the question with the script's own mode, or with the `autocast` dtypes.

    Raises IncompleteError for a script that ends before it calls a module, UsageError for a script
    without a half dtype.
    """
    name = script_name(question.script)
    with temporary_folder() as folder:
        observation = observe(replace(question, modes=()), Path(folder)).observation
    if observation.error is not None:
        raise IncompleteError(f"{name}: raised {observation.error}, before it called a module")
    own = observation.own_mode
    if own is None:
        raise IncompleteError(
            f"{name}: called no torch.nn.Module with parameters, so there is nothing to follow; to "
            "follow one of its functions or classes, give FILE.py:NAME"
        )
    modes = tuple(Mode(dtype, own.params) for dtype in autocast) or (own,)
    if any(mode.half == "fp32" for mode in modes):
        raise UsageError(
            f"{name}: runs without autocast and with float32 parameters; give --autocast fp16 or "
            "bf16 to follow it under that"
        )
    return replace(question, modes=modes, own_mode=own)


def follow(question: DtypesQuestion, folder: Path) -> DtypesAnswer:
    """Run the script in all modes of the question and in their reference modes."""
    reference_modes: list[Mode] = []
    for mode in question.modes:
        reference_modes += judging.references(mode)
    runs: list[ObservedRun] = []
    launches: list[Path] = []
    answer: DtypesAnswer | None = None
    for mode in dict.fromkeys([*question.modes, *reference_modes]):
        one_mode = replace(question, modes=(mode,))
        if mode == question.own_mode:
            answer = observe(one_mode, folder)
        else:
            answer = observe(one_mode, folder, forced_mode=mode)
        for subject in answer.observation.subjects:
            runs += subject.runs
        launches += answer.launches
    assert answer is not None
    subject = ObservedSubject(script_name(question.script), tuple(runs), plan="as it is")
    return replace(answer, observation=Observation((subject,), {}), launches=tuple(launches))
