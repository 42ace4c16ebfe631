"""Frozen values without I/O: kernel, launch, cell, question, attempt and record.

All of them travel between processes and into the store as JSON. docs/concepts.md defines each noun.
"""

from flacheck.model.attempt import Attempt, Finding, Outcome, Resources
from flacheck.model.cell import Alternative, Cell
from flacheck.model.extent import LaunchExtent, launch_identity
from flacheck.model.kernel import Corpus, Cut, Imported, Kernel, Origin, Stubbed, Unit, Unrecorded
from flacheck.model.launch import Launch
from flacheck.model.question import KeySet, Purpose, Question, RequestedCells, RequestedPlace
from flacheck.model.record import MESSAGE_LIMIT, Record, Verdict
from flacheck.model.values import Json, canonical, digest

__all__ = [
    "MESSAGE_LIMIT",
    "Alternative",
    "Attempt",
    "Cell",
    "Corpus",
    "Cut",
    "Finding",
    "Imported",
    "Json",
    "Kernel",
    "KeySet",
    "Launch",
    "LaunchExtent",
    "Origin",
    "Outcome",
    "Purpose",
    "Question",
    "Record",
    "RequestedCells",
    "RequestedPlace",
    "Resources",
    "Stubbed",
    "Unit",
    "Unrecorded",
    "Verdict",
    "canonical",
    "digest",
    "launch_identity",
]
