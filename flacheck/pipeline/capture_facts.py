"""Facts about a package's capture that explain its kernels without cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flacheck.evidence.published.form import CaptureFacts
from flacheck.pipeline.package_launches import PackageCapture


def facts_of(capture: PackageCapture) -> CaptureFacts | None:
    """Return the facts of a capture; None if no compiler could be had for it."""
    driven = capture.driven
    if driven is None:
        return None
    if driven.import_error:
        return CaptureFacts(import_error=driven.import_error.strip().splitlines()[-1])
    report: Mapping[str, Any] = driven.report
    refused = {}
    for name, entry in report["operators"].items():
        kernels = tuple(sorted(entry.get("kernels", ())))
        if kernels and entry.get("failures"):
            refused[name] = kernels
    return CaptureFacts(
        cut=len(report.get("cut", ())),
        is_late=bool(report.get("late")),
        launched=tuple(sorted(driven.kernels)),
        refused=dict(sorted(refused.items())),
    )


def warnings_of(capture: PackageCapture) -> tuple[str, ...]:
    """Return what the package prints on import and in calls, each text once."""
    if capture.driven is None:
        return ()
    texts = [str(entry["text"]) for entry in capture.driven.report.get("said", ())]
    return tuple(dict.fromkeys(texts))
