"""The `run` object of flacheck.run/1: its environment, its question and its purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.published.answers import PublishedSource
from flacheck.model import Purpose
from flacheck.model.wire import JsonStruct, Natural, ToolchainName


class AnsweredPlace(JsonStruct, frozen=True):
    """The number of requested cells, null if unknown, and of answered ones on a place."""

    toolchain: ToolchainName
    target: str
    cells: Natural | None
    answered: Natural


class RunQuestion(JsonStruct, frozen=True):
    """The subject and selection of a run, and its places."""

    about: str
    selection: Mapping[str, Any]
    asked: tuple[AnsweredPlace, ...]


class StaleKernel(JsonStruct, frozen=True):
    """A kernel whose source changed after its launches were recorded in the launches file."""

    kernel: str
    package: str | None
    why: Annotated[tuple[str, ...], Meta(min_length=1)]


class RunFacts(JsonStruct, frozen=True, kw_only=True):
    """A run with its time (ISO 8601, UTC), environment, question and purpose.

    Only the question of a scan makes a release good. `question` is null if none is stored. A run of
    published results has a `source`, and `published` describes them.
    """

    id: str
    started: str
    flacheck: str | None
    python: str | None
    platform: str | None
    matrix: str | None
    purpose: Purpose | UnsetType = UNSET
    question: RunQuestion | UnsetType | None = UNSET
    stale: tuple[StaleKernel, ...] | UnsetType = UNSET
    source: Literal["published"] | UnsetType = UNSET
    published: PublishedSource | UnsetType = UNSET


def run_question(answered: Sequence[Standing]) -> RunQuestion | None:
    """Return the question behind some standings; None if none is stored."""
    if not answered:
        return None
    names = dict.fromkeys(each.question.about for each in answered)
    selection: dict[str, Any] = {}
    places = []
    for each in answered:
        selection.update(each.question.selection)
        counts = (each.requested_count, each.answered_count)
        places.append(AnsweredPlace(each.toolchain, each.target, *counts))
    return RunQuestion(", ".join(names), selection, tuple(places))
