"""The direction of a mismatch: a release that is too old, or one that is too new."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.rules.base import Rule
from flacheck.tables import table


@dataclass(frozen=True)
class Direction:
    """The cause and the remedy that the versions in a log decide."""

    cause: str
    remedy: str


def decide(rule: Rule, message: Mapping[str, Any], log: Mapping[str, Any]) -> Direction | None:
    """Return the direction of a rule's failure; None if the log lacks the versions that decide.

    `message` holds the facts of the message, `log` those of the whole log.
    """
    if rule.direction == "pins" or (rule.direction and "torch" in log):
        direction = _by_pin(log)
        if direction or rule.direction == "pins":
            return direction
    if rule.direction == "names":
        return _by_name(message, log)
    return None


def _by_pin(log: Mapping[str, Any]) -> Direction | None:
    """Return which of torch and Triton is too new, by what torch requires."""
    if "torch" not in log or "triton" not in log:
        return None
    torch, triton = Version(log["torch"]), Version(log["triton"])
    pin = _requirement(torch)
    if pin is None:
        return _before_the_table(torch, triton)
    lowest = Version(pin.lstrip("=~<>!").rstrip(".*"))
    is_fitting = SpecifierSet(pin).contains(triton, prereleases=True)
    if is_fitting or triton.release[:2] == lowest.release[:2]:
        return None
    place = "older"
    if triton > lowest:
        place = "newer"
    cause = f"Triton {triton} is {place} than what torch {torch} requires: triton{pin}."
    remedy = f'Run `pip install "torch=={torch}" "triton{pin}"`'
    for release, other in reversed(_pins().items()):
        if SpecifierSet(other).contains(triton, prereleases=True):
            remedy += f", or use torch {release}, which requires this Triton"
            break
    return Direction(cause, remedy + ".")


def _before_the_table(torch: Version, triton: Version) -> Direction | None:
    """Return the direction for a torch release older than all in the table of pins."""
    oldest, pin = next(iter(_pins().items()))
    first = Version(pin.lstrip("=~<>!").rstrip(".*"))
    if torch >= Version(oldest) or triton < first:
        return None
    cause = f"Triton {triton} is newer than what torch {torch} requires: triton<{first}."
    remedy = f"Use torch>={oldest} with the Triton that it requires, or triton<{first}."
    return Direction(cause, remedy)


def _pins() -> dict[str, str]:
    """Return torch release → what it requires of Triton, oldest first, by the shipped table."""
    pins: dict[str, str] = table("torch_pins")["pins"]
    return pins


def _requirement(torch: Version) -> str | None:
    """Return what a torch release requires of Triton; of `2.8`, what its last release does."""
    pins = _pins()
    requirement = pins.get(str(torch))
    if requirement is None:
        for release, pin in pins.items():
            if Version(release).release[:2] == torch.release[:2]:
                requirement = pin
    return requirement


def _by_name(message: Mapping[str, Any], log: Mapping[str, Any]) -> Direction | None:
    """Return whether Triton is too old or too new for a name, by the releases that have it."""
    module, name = str(message.get("module", "")), str(message.get("api", ""))
    releases = table("triton_names")["names"].get(module, {}).get(name)
    if not releases:
        return None
    first, last = map(str, releases)
    having = f"`{module}.{name}` is in Triton {first} to {last}"
    if "triton" not in log:
        return Direction(
            f"{having}; the installed release is not in the log.", f"Use triton>={first},<={last}."
        )
    triton = Version(log["triton"])
    if triton < Version(first):
        return Direction(f"{having}; {triton} is too old.", f"Use triton>={first}.")
    if triton > Version(last):
        remedy = f"Use triton<={last}, or a release of the caller that does not need the name."
        return Direction(f"{having}; {triton} is too new.", remedy)
    return None
