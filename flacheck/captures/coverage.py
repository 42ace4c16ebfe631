"""How much of a package a capture saw: its launchable kernels, those recorded, and why the others
were not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flacheck.model import Json


@dataclass(frozen=True)
class Coverage:
    """`launchable` kernels, how many of them were `recorded`, and why the others were `missed`;
    `cut` is what the capture's time did not suffice for, `tests` how the package's own tests ended,
    where they were run, and which kernels they launched."""

    launchable: int
    recorded: int
    missed: tuple[tuple[str, str], ...]
    cut: tuple[str, ...] = ()
    tests: Json | None = None

    def to_json(self) -> Json:
        missed = [{"kernel": kernel, "reason": reason} for kernel, reason in self.missed]
        counts = {"launchable": self.launchable, "recorded": self.recorded}
        told: Json = {**counts, "missed": missed, "cut": list(self.cut)}
        if self.tests is not None:
            told["tests"] = self.tests
        return told


def coverage(
    kernels: Mapping[str, tuple[str, ...]], recorded: Mapping[str, int], report: Mapping[str, Any]
) -> Coverage:
    """What of the launchable kernels was recorded; for the rest, what the driver's report knows."""
    missed = tuple((k, _reason(k, by, report)) for k, by in kernels.items() if k not in recorded)
    cut = list(report.get("cut", ()))
    if report.get("late"):
        cut.append("further dtypes of what launched")
    told = (len(kernels), len(kernels) - len(missed), missed, tuple(cut))
    return Coverage(*told, tests=_tests(report.get("tests")))


def _tests(said: Mapping[str, Any] | None) -> Json | None:
    """How the package's own tests ended, from the report of their run."""
    if said is None:
        return None
    counts = said.get("tests") or {}
    wanting = set(said.get("wanting", ()))
    failures = [
        {"test": test, "error": error, "wants_data": test in wanting}
        for test, error in (said.get("failures") or {}).items()
    ]
    return {
        "passed": counts.get("passed", 0),
        "failed": counts.get("failed", 0),
        "skipped": counts.get("skipped", 0),
        "failures": failures,
        "uncollected": dict(said.get("uncollected") or {}),
        "cut": list(said.get("cut", ())),
        "unrun": said.get("unrun", 0),
        "ended": said.get("ended"),
        "kernels": said["kernels"],
    }


def _reason(kernel: str, launchers: tuple[str, ...], report: Mapping[str, Any]) -> str:
    for module, said in report.get("modules", {}).items():
        if any(launcher.startswith(module + ":") for launcher in launchers):
            return f"{module} cannot be imported: {said}"
    refused = report.get("refused", {})
    if kernel in refused:
        return f"Triton refuses its launch: {refused[kernel][:200]}"
    operators = report.get("operators", {})
    using = {name: entry for name, entry in operators.items() if kernel in entry["kernels"]}
    if not using:
        return f"no operator that flacheck found reaches the launch in {', '.join(launchers)}"
    for name, entry in using.items():
        if not entry["launches"] and entry["failures"]:
            error = next(iter(entry["failures"].values()))
            return f"{name} raised an error before it launched anything: {error[:200]}"
    names = ", ".join(list(using)[:3])
    return f"{names} ran without reaching the launch in {', '.join(launchers)}"
