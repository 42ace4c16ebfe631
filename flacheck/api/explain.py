"""`flacheck.explain`: the meaning of a failure code, or the failure in a log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from flacheck.errors import Exit
from flacheck.model import Json
from flacheck.rules import UNCLASSIFIED, excerpts, explanation, log_files
from flacheck.rules.explanation import Explanation, UnexplainedErrors
from flacheck.tables.advisories import Advisory

_CODE = re.compile(r"FC\d{3}", re.IGNORECASE)


@dataclass(frozen=True)
class Explained:
    """The findings of a log, the decisive one first, and the advisories that it matches.

    `unexplained_errors` are errors of a CUDA build that no specific rule matches.
    """

    findings: tuple[Explanation, ...]
    advisories: tuple[Advisory, ...] = ()
    unexplained_errors: UnexplainedErrors | None = None

    @property
    def exit_code(self) -> Exit:
        """OK if the decisive failure is recognised, or an advisory matches."""
        is_recognised = bool(self.findings) and self.findings[0].code != UNCLASSIFIED
        if is_recognised or self.advisories:
            return Exit.OK
        return Exit.FINDINGS

    def to_json(self) -> Json:
        """Return the document flacheck.explain/1."""
        return explanation.to_json(self.findings, self.advisories, self.unexplained_errors)


def explain(log: str | Path | BinaryIO) -> Explained:
    """Explain a failure code, or name the failures in a log.

    >>> explain("FC501").findings[0].code
    'FC501'

    Args:
        log: A code such as FC302, the text of a log, the path of a log, archive (`.gz`, `.zst`,
            `.zip`) or folder, or a binary stream. Paths and streams may be of any size.

    Raises:
        UsageError: If no rule has that code, or the path cannot be read.
    """
    if isinstance(log, str):
        if is_code(log):
            return Explained(tuple(explanation.of_code(log.upper())))
        return _explain([("", excerpts.take([log.encode("utf-8", "replace")]))])
    if isinstance(log, Path):
        return _explain((name, excerpts.take(chunks)) for name, chunks in log_files.logs(log))
    return _explain([("", excerpts.take(log_files.chunks(log, "stdin")))])


def _explain(logs: Iterable[tuple[str, list[excerpts.Excerpt]]]) -> Explained:
    """Return the findings of all logs, the decisive one first; each names its log of several."""
    by_file: dict[str, list[Explanation]] = {}
    advisories: dict[str, Advisory] = {}
    unexplained_errors: UnexplainedErrors | None = None
    for name, parts in logs:
        by_file[name] = explanation.of_excerpts(parts, name)
        for advisory in explanation.advisories_of(parts):
            advisories.setdefault(advisory.id, advisory)
        unexplained_errors = explanation.add_unexplained(
            unexplained_errors, explanation.find_unexplained(parts)
        )
    explanations = explanation.merge(by_file)
    return Explained(tuple(explanations), tuple(advisories.values()), unexplained_errors)


def is_code(text: str) -> bool:
    """Return True for text that has the form of a failure code."""
    return _CODE.fullmatch(text) is not None
