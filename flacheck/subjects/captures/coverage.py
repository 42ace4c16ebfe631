"""The coverage of a package's capture: launchable kernels, recorded kernels, and missed kernels.

Each missed kernel has a reason.
"""

from collections.abc import Mapping
from typing import Any

from flacheck.model.coverage import FailedTest, KernelCoverage, MissedKernel, TestsOutcome


def coverage(
    kernels: Mapping[str, tuple[str, ...]], launches: Mapping[str, int], report: Mapping[str, Any]
) -> KernelCoverage:
    """Compare the launchable kernels with the launches; explain the rest by the driver's report."""
    missed: list[MissedKernel] = []
    for kernel, launchers in kernels.items():
        if kernel not in launches:
            missed.append({"kernel": kernel, "reason": _reason(kernel, launchers, report)})
    cut = list(report.get("cut", ()))
    if report.get("late"):
        cut.append("further dtypes of launched kernels")
    result: KernelCoverage = {
        "launchable": len(kernels),
        "recorded": len(kernels) - len(missed),
        "missed": missed,
        "cut": cut,
    }
    if report.get("tests") is not None:
        result["tests"] = _tests(report["tests"])
    return result


def _tests(run: Mapping[str, Any]) -> TestsOutcome:
    """Return the outcome of the package's own tests from the report of their run."""
    counts = run.get("tests") or {}
    without_data = set(run.get("wanting", ()))
    failures: list[FailedTest] = []
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
    """Return why no operator launched a kernel, and why it could not be launched alone."""
    reason = _operators_reason(kernel, launchers, report)
    alone = report.get("alone", {}).get(kernel)
    if alone is None:
        return reason
    errors = list(alone["failures"].values())
    if kernel in report.get("untaken", {}):
        errors.append(report["untaken"][kernel])
    if not errors:
        return reason
    return f"{reason}; launched alone it fails: {errors[0][:200]}"


def _operators_reason(kernel: str, launchers: tuple[str, ...], report: Mapping[str, Any]) -> str:
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
