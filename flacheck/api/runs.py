"""A run as the API returns it: stored records with their analysis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from flacheck.errors import Exit
from flacheck.evidence.analysis.exit_code import exit_code
from flacheck.evidence.analysis.groups import SignatureGroup
from flacheck.evidence.analysis.known_good import KnownGood
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.summary import RunView
from flacheck.evidence.baseline.comparing import BaselineComparison
from flacheck.model import Json, Record
from flacheck.reports import scan as scan_report
from flacheck.reports.document import Streamed

# Failing cells that share a signature.
Failure: TypeAlias = SignatureGroup


@dataclass(frozen=True)
class Run:
    """One stored run, or several as one.

    Attributes:
        view: The run, its records and their summary, as reports render them.
        baseline: How the run compares with a baseline; None without one.
        strict: Unknown cells, and kernels that changed since their capture, make the exit code
            INCOMPLETE.
    """

    view: RunView
    baseline: BaselineComparison | None = None
    strict: bool = False

    @property
    def id(self) -> str:
        """The run's id in its store."""
        return str(self.view.run["id"])

    @property
    def records(self) -> Iterator[Record]:
        """The records, read from the store each time."""
        return iter(self.view.records())

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The failures by signature."""
        return self.view.summary.by_signature

    @property
    def known_good(self) -> tuple[KnownGood, ...]:
        """The releases that compile every cell with evidence."""
        return self.view.summary.known_good

    @property
    def standings(self) -> tuple[Standing, ...]:
        """The standing of each question on each (toolchain, target)."""
        return self.view.summary.standings

    @property
    def exit_code(self) -> Exit:
        """The exit code that the command line returns."""
        others = []
        if self.strict and self.view.run.get("stale"):
            others.append(Exit.INCOMPLETE)
        return exit_code(self.view.summary.tally, strict=self.strict, others=others)

    def to_json(self) -> Json:
        """Return the document flacheck.run/1."""
        value = scan_report.report(self.view, self.baseline).value
        assert isinstance(value, Streamed)
        return {**value.before, value.name: list(value.items), **value.after}
