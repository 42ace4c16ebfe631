"""From findings to the document of a measurement, and the records of wrong results."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flacheck.engine import judge
from flacheck.evidence.measured.ratios import kernel_ratios, operator_ratios, summarise
from flacheck.evidence.measured.results import CardFacts, MeasureDocument, State
from flacheck.model import Record
from flacheck.pipeline.measurement.bundle import BundleManifest
from flacheck.pipeline.measurement.judging import judge_launch
from flacheck.pipeline.measurement.running import Findings
from flacheck.rules import RULES

WRONG = "FC706"
# The stage of a failure that no compile shows.
_STAGE = "run"


def document_of(
    manifest: BundleManifest, findings: Sequence[Findings], card: Mapping[str, Any]
) -> MeasureDocument:
    """Return the document of a bundle's findings on a card."""
    launches = []
    for launch, finding in zip(manifest.launches, findings):
        launches.append(judge_launch(launch, finding.facts, finding.deaths))
    toolchains = manifest.toolchains
    kernels = tuple(kernel_ratios(launches, toolchains))
    operators = tuple(operator_ratios(launches, toolchains))
    return MeasureDocument(
        schema="flacheck.measure/1",
        about=manifest.about,
        target=manifest.target,
        card=CardFacts(card["name"], tuple(card["capability"]), card["driver"]),
        date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        toolchains=toolchains,
        launches=tuple(launches),
        kernels=kernels,
        operators=operators,
        summaries=tuple(summarise(launches, kernels, operators, toolchains)),
        left_out=dict(manifest.left_out),
    )


def wrong_records(document: MeasureDocument, records: Mapping[str, Record]) -> Iterator[Record]:
    """Yield the records of wrong results: failures of the release on this card.

    `records` are those of the compiles, by key.
    """
    for _, result in document.wrong:
        if result.key not in records:
            continue
        card = f"{document.card.name}, driver {document.card.driver}"
        message = f"wrong result on {card}: {result.reason}"
        facts = {"card": document.card.name, "state": result.state.value}
        finding = RULES[WRONG].finding(message, facts=facts)
        yield judge.fail_on_card(records[result.key], finding, _STAGE)


def is_complete(document: MeasureDocument) -> bool:
    """Return True if any result could be compared."""
    for launch in document.launches:
        if any(result.state is not State.NOT_COMPARABLE for result in launch.results):
            return True
    return False
