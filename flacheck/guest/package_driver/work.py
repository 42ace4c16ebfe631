"""How much a drive has done, counted rather than timed: a slow machine calls what a fast one
calls."""

from ..fake_cuda.known_values import KnownValues
from ..recorder.recorder import Recorder

# What a call, a launch and an operation on tensors take, in seconds of a usual machine. Their sizes
# matter little: that all machines count alike does.
_A_CALL, _A_LAUNCH, _AN_OPERATION = 0.004, 0.001, 0.00005


def operations_in(seconds: float) -> float:
    """How many operations are so many seconds of work."""
    return seconds / _AN_OPERATION


class Work:
    """Called for the work so far, in seconds of a usual machine."""

    def __init__(self, recorder: Recorder) -> None:
        self.calls = 0
        self._recorder = recorder

    def __call__(self) -> float:
        launches = self._recorder.calls * _A_LAUNCH
        return self.calls * _A_CALL + launches + KnownValues.operations * _AN_OPERATION
