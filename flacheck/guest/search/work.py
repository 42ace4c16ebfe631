"""The work that a capture has done, counted instead of timed.

A capture therefore makes the same calls on a slow machine as on a fast one.
"""

from __future__ import annotations

from ..fake_cuda.known_values import KnownValues
from ..recorder.recorder import Recorder
from .frontend_checks import FrontendChecks

# Costs in seconds of an ordinary machine. Their exact values matter little, since every machine
# counts with the same ones. An arrival is a configuration that is described for a launch.
_CALL_SECONDS = 0.004
_LAUNCH_SECONDS = 0.0009
_ARRIVAL_SECONDS = 0.0001
_OPERATION_SECONDS = 0.00005
_CHECK_SECONDS = 0.02


def operations_in(seconds: float) -> float:
    """Return the number of operations on tensors that are so many seconds of work."""
    return seconds / _OPERATION_SECONDS


class Work:
    """Counts work; calling the object returns the work so far in seconds of an ordinary machine.

    Attributes:
        calls: the calls of operators so far.
    """

    def __init__(self, recorder: Recorder, checks: FrontendChecks | None = None) -> None:
        self.calls = 0
        self._recorder = recorder
        self._checks = checks

    def __call__(self) -> float:
        """Return the work so far."""
        launches = self._recorder.calls * _LAUNCH_SECONDS
        launches += self._recorder.arrivals * _ARRIVAL_SECONDS
        checks = 0.0
        if self._checks is not None:
            checks = self._checks.check_count * _CHECK_SECONDS
        operations = KnownValues.operations * _OPERATION_SECONDS
        return self.calls * _CALL_SECONDS + launches + operations + checks
