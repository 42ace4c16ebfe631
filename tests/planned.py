"""Plans of subjects, for tests that look at cells alone."""

from __future__ import annotations

from flacheck.pipeline.job import Job
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.planning import plan_job
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject


def plan(subject: Subject, selection: Selection, until: str | None = None) -> Plan:
    """The plan of a subject's selected cells."""
    return plan_job(Job(subject, selection, until=until))
