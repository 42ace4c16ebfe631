"""The gaps of a gate: admitted releases without a verdict, and the scan that fills them."""

from __future__ import annotations

from flacheck.gate.evidence import RecordFilter
from flacheck.gate.result import GateResult
from flacheck.gate.states import ReleaseState
from flacheck.inputs import packaged, planning
from flacheck.inputs.expand import Selection
from flacheck.inputs.planning import Plan
from flacheck.toolchains.base import Progress

MATRIX = "quick"


def missing(outcome: GateResult) -> list[str]:
    """The admitted releases that exist and have no verdict, oldest first."""
    return [
        version.triton
        for version in outcome.of(ReleaseState.UNTESTED)
        if version.triton[0].isdigit()
    ]


def plan(asked: RecordFilter, releases: list[str], progress: Progress) -> Plan:
    """What `flacheck scan` would compile for the same question under these releases alone."""
    toolchains = tuple(f"triton=={release}" for release in releases)
    selection = Selection(kernels=asked.kernels, targets=asked.targets, toolchains=toolchains)
    if asked.package:
        return packaged.plan(asked.package, selection, progress=progress)
    return planning.plan(asked.matrix or MATRIX, selection, progress=progress)
