"""`flacheck.update_baseline`: known failures in a small file that is committed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flacheck.api.options.declaration import PathLike
from flacheck.evidence.analysis.order import count_noun
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.baseline import form
from flacheck.evidence.baseline.form import Baseline
from flacheck.evidence.baseline.standings import baseline_of, update
from flacheck.reports.output import write
from flacheck.version import __version__


def update_baseline(
    file: PathLike, standings: Iterable[Standing], accepted: Iterable[str] = ()
) -> Baseline:
    """Write standings into a baseline file; return the new baseline.

    The file's other questions, releases and GPUs stay.

    Args:
        file: The baseline; made if it is missing.
        standings: Those of a run (`Run.standings`) or of a gate.
        accepted: Releases without a complete answer that a gate may pass.

    Raises:
        UsageError: If the file cannot be read or written.
    """
    new = baseline_of(standings, __version__, accepted)
    path = Path(file)
    if path.exists():
        new = update(form.read(path), new)
    write([form.text_of(new)], path)
    return new


def summary_of(file: PathLike, baseline: Baseline) -> str:
    """Return a sentence about what a baseline file holds."""
    places = {place.place for question in baseline.questions for place in question.places}
    pairs = count_noun(len(places), "pair of release and GPU", "pairs of release and GPU")
    failures = count_noun(len(baseline.failures), "known failure")
    return f"{file}: holds {pairs} and {failures}"
