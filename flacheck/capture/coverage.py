"""How much of a package a capture saw: its launchable kernels, those recorded, and why the others
were not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flacheck.model import Json


@dataclass(frozen=True)
class Coverage:
    """`launchable` kernels, how many of them were `recorded`, and why the others were `missed`;
    `cut` is what the capture's time did not suffice for."""

    launchable: int
    recorded: int
    missed: tuple[tuple[str, str], ...]
    cut: tuple[str, ...] = ()

    def to_json(self) -> Json:
        missed = [{"kernel": kernel, "reason": reason} for kernel, reason in self.missed]
        counts = {"launchable": self.launchable, "recorded": self.recorded}
        return {**counts, "missed": missed, "cut": list(self.cut)}


def coverage(
    kernels: Mapping[str, tuple[str, ...]], recorded: Mapping[str, int], report: Mapping[str, Any]
) -> Coverage:
    """What of the launchable kernels was recorded; for the rest, what the driver's report knows."""
    missed = tuple((k, _reason(k, by, report)) for k, by in kernels.items() if k not in recorded)
    cut = list(report.get("cut", ()))
    if report.get("late"):
        cut.append("further dtypes of what launched")
    return Coverage(len(kernels), len(kernels) - len(missed), missed, tuple(cut))


def _reason(kernel: str, launchers: tuple[str, ...], report: Mapping[str, Any]) -> str:
    for module, said in report.get("modules", {}).items():
        if any(launcher.startswith(module + ":") for launcher in launchers):
            return f"{module} cannot be imported: {said}"
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
