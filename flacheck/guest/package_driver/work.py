"""How much a drive has done, counted rather than timed: a slow machine calls what a fast one
calls."""

from __future__ import annotations

from ..fake_cuda.known_values import KnownValues
from ..recorder.recorder import Recorder
from .front_end import FrontEnd

# What a call, a launch, each configuration described for one, an operation on tensors and a kernel
# read by Triton's front end take, in seconds of a usual machine. Their sizes matter little: that
# all machines count alike does.
_A_CALL, _A_LAUNCH, _AN_ARRIVAL, _AN_OPERATION, _A_QUESTION = 0.004, 0.0009, 0.0001, 0.00005, 0.02


def operations_in(seconds: float) -> float:
    """How many operations are so many seconds of work."""
    return seconds / _AN_OPERATION


class Work:
    """Called for the work so far, in seconds of a usual machine; a test suite asks no front end."""

    def __init__(self, recorder: Recorder, front_end: FrontEnd | None = None) -> None:
        self.calls = 0
        self._recorder, self._front_end = recorder, front_end

    def __call__(self) -> float:
        launches = self._recorder.calls * _A_LAUNCH + self._recorder.arrivals * _AN_ARRIVAL
        questions = 0.0
        if self._front_end is not None:
            questions = self._front_end.questions * _A_QUESTION
        operations = KnownValues.operations * _AN_OPERATION
        return self.calls * _A_CALL + launches + operations + questions
