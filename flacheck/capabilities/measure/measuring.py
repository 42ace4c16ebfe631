"""From findings to the document of a measurement, and the records of wrong results."""

from __future__ import annotations

import datetime
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import convert, structs

from flacheck import files
from flacheck.errors import UsageError
from flacheck.evidence.measured.ratios import kernel_ratios, operator_ratios, summarise
from flacheck.evidence.measured.results import CardFacts, LaunchResult, MeasureDocument, State
from flacheck.pipeline.events import Event, Progress
from flacheck.pipeline.measurement.bundle import BundleManifest
from flacheck.pipeline.measurement.interpreting import judge_by_interpreter
from flacheck.pipeline.measurement.judging import judge_launch
from flacheck.pipeline.measurement.launches import MeasuredLaunch, MeasuredLaunches
from flacheck.pipeline.measurement.running import Findings

# A report of thousands of launches under ten releases.
_MOST_BYTES = 256 << 20


def document_of(
    manifest: BundleManifest,
    findings: Sequence[Findings],
    card: Mapping[str, Any],
    seed: int = 0,
) -> MeasureDocument:
    """Return the document of a bundle's findings on a card."""
    launches = []
    for launch, finding in zip(manifest.launches, findings):
        launches.append(judge_launch(launch, finding.facts, finding.deaths, seed))
    document = MeasureDocument(
        schema="flacheck.measure/1",
        about=manifest.about,
        target=manifest.target,
        card=CardFacts(card["name"], tuple(card["capability"]), card["driver"]),
        date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        toolchains=manifest.toolchains,
        launches=(),
        kernels=(),
        operators=(),
        summaries=(),
        left_out=dict(manifest.left_out),
    )
    return _with_launches(document, launches)


def _with_launches(document: MeasureDocument, launches: Sequence[LaunchResult]) -> MeasureDocument:
    """Return the document with other launches, and the ratios and summaries of these."""
    kernels = tuple(kernel_ratios(launches, document.toolchains))
    operators = tuple(operator_ratios(launches, document.toolchains))
    return structs.replace(
        document,
        launches=tuple(launches),
        kernels=kernels,
        operators=operators,
        summaries=tuple(summarise(launches, kernels, operators, document.toolchains)),
    )


def judge_disagreements(
    document: MeasureDocument, measured: MeasuredLaunches
) -> Generator[Event, None, MeasureDocument]:
    """Return the document with the interpreter's judgement of launches whose results disagree."""
    by_key: dict[str, MeasuredLaunch] = {}
    for own_launch in measured.launches:
        by_key |= {cell.key: own_launch for cell, _, _ in own_launch.cells}
    launches = []
    for launch in document.launches:
        own = next((by_key[each.key] for each in launch.results if each.key in by_key), None)
        if own is not None and launch.disagreement is not None and launch.made_up is None:
            yield Progress(f"asking Triton's interpreter about {launch.kernel}", is_step=True)
            launch = judge_by_interpreter(launch, own, measured.plan)
        launches.append(launch)
    return _with_launches(document, launches)


def without_samples(document: MeasureDocument) -> MeasureDocument:
    """Return the document without the elements that only a judge reads."""
    launches = [structs.replace(launch, disagreement=None) for launch in document.launches]
    return structs.replace(document, launches=tuple(launches))


def read_document(file: Path) -> MeasureDocument:
    """Return the JSON report of a measurement on another machine.

    Raises:
        UsageError: If the file is not such a report.
    """
    try:
        with files.open_bytes(file, _MOST_BYTES) as handle:
            return convert(msgspec.json.decode(handle.read()), MeasureDocument)
    except FileNotFoundError:
        raise UsageError(f"{file}: there is no such file") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise UsageError(
            f"{file}: not a report of `flacheck measure … --format json`: {error}"
        ) from None


def is_complete(document: MeasureDocument) -> bool:
    """Return True if any result could be compared."""
    for launch in document.launches:
        if any(result.state is not State.NOT_COMPARABLE for result in launch.results):
            return True
    return False
