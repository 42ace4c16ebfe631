"""The coverage of a package's capture: launchable kernels, recorded kernels, and missed kernels.

Each missed kernel has a reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flacheck.model import Json


@dataclass(frozen=True)
class Coverage:
    """The coverage of a capture.

    `launchable` and `recorded` are numbers of kernels; `missed` pairs the other kernels with a
    reason. `cut` lists the parts for which time was too short. `tests` has the outcome of the
    package's own tests and their kernels, None if they were not run.
    """

    launchable: int
    recorded: int
    missed: tuple[tuple[str, str], ...]
    cut: tuple[str, ...] = ()
    tests: Json | None = None

    def to_json(self) -> Json:
        value: Json = {
            "launchable": self.launchable,
            "recorded": self.recorded,
            "missed": [{"kernel": kernel, "reason": reason} for kernel, reason in self.missed],
            "cut": list(self.cut),
        }
        if self.tests is not None:
            value["tests"] = self.tests
        return value


def coverage(
    kernels: Mapping[str, tuple[str, ...]], launches: Mapping[str, int], report: Mapping[str, Any]
) -> Coverage:
    """Compare the launchable kernels with the launches; explain the rest by the driver's report."""
    missing = []
    for kernel, launchers in kernels.items():
        if kernel not in launches:
            missing.append((kernel, _reason(kernel, launchers, report)))
    cut = list(report.get("cut", ()))
    if report.get("late"):
        cut.append("further dtypes of what launched")
    return Coverage(
        launchable=len(kernels),
        recorded=len(kernels) - len(missing),
        missed=tuple(missing),
        cut=tuple(cut),
        tests=_tests(report.get("tests")),
    )


def _tests(run: Mapping[str, Any] | None) -> Json | None:
    """Return the outcome of the package's own tests from the report of their run."""
    if run is None:
        return None
    counts = run.get("tests") or {}
    without_data = set(run.get("wanting", ()))
    failures = []
    for test, error in (run.get("failures") or {}).items():
        failures.append({"test": test, "error": error, "wants_data": test in without_data})
    return {
        "passed": counts.get("passed", 0),
        "failed": counts.get("failed", 0),
        "skipped": counts.get("skipped", 0),
        "failures": failures,
        "uncollected": dict(run.get("uncollected") or {}),
        "cut": list(run.get("cut", ())),
        "unrun": run.get("unrun", 0),
        "ended": run.get("ended"),
        "kernels": run["kernels"],
    }


def _reason(kernel: str, launchers: tuple[str, ...], report: Mapping[str, Any]) -> str:
    for module, error in report.get("modules", {}).items():
        if any(launcher.startswith(module + ":") for launcher in launchers):
            return f"{module} cannot be imported: {error}"
    refusals = report.get("refused", {})
    if kernel in refusals:
        return f"Triton refuses its launch: {refusals[kernel][:200]}"
    using = {}
    for name, entry in report.get("operators", {}).items():
        if kernel in entry["kernels"]:
            using[name] = entry
    if not using:
        return f"no operator that flacheck found reaches the launch in {', '.join(launchers)}"
    for name, entry in using.items():
        if not entry["launches"] and entry["failures"]:
            error = next(iter(entry["failures"].values()))
            return f"{name} raised an error before it launched anything: {error[:200]}"
    names = ", ".join(list(using)[:3])
    return f"{names} ran without reaching the launch in {', '.join(launchers)}"
