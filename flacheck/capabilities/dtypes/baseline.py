"""Baseline file of accepted dtype findings, so that only new findings fail a project's CI."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import MsgspecError, Struct, to_builtins

from flacheck import files
from flacheck.capabilities.dtypes.finding import DtypeFinding
from flacheck.capabilities.dtypes.result import DtypesResult
from flacheck.errors import UsageError


class AcceptedFinding(Struct, frozen=True):
    """A finding that no longer fails; `subject` is for readers of the file."""

    finding: str
    subject: str = ""


class DtypesBaseline(Struct, frozen=True, kw_only=True):
    """The content of the file."""

    schema: Literal["flacheck.dtypes-baseline/1"] = "flacheck.dtypes-baseline/1"
    known: tuple[AcceptedFinding, ...]


def read_identities(file: Path) -> set[str]:
    """Return the identities of the findings that the file lists.

    Raises UsageError for a file that is not a baseline.
    """
    try:
        baseline = msgspec.json.decode(files.read_bytes(file), type=DtypesBaseline)
        return {entry.finding for entry in baseline.known}
    except OSError as error:
        raise UsageError(
            f"{file}: cannot be read ({error.strerror}); --write-baseline {file} writes it"
        ) from None
    except (UnicodeDecodeError, MsgspecError):
        raise UsageError(
            f"{file}: is not a flacheck dtypes baseline; --write-baseline {file} writes one"
        ) from None


def apply(result: DtypesResult, file: Path) -> DtypesResult:
    """Return the result with the findings of the file marked as known.

    Raises UsageError like `read_identities`.
    """
    identities = read_identities(file)
    findings = []
    for each in result.findings:
        findings.append(replace(each, is_known=each.identity in identities))
    return replace(result, findings=tuple(findings))


def format_baseline(findings: Iterable[DtypeFinding]) -> str:
    """Return the text of a baseline file for these findings.

    Entries contain no line numbers, so a finding stays known when its line moves.
    """
    subjects = {each.identity: each.subject for each in findings}
    accepted = tuple(AcceptedFinding(*item) for item in sorted(subjects.items()))
    baseline = DtypesBaseline(known=accepted)
    return json.dumps(to_builtins(baseline), indent=1) + "\n"
