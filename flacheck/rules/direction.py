"""The direction of a mismatch: a release that is too old, or one that is too new."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.rules.base import Rule
from flacheck.tables import table

_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_MODULE = re.compile(r"triton(?:\.[a-z_]\w*)+")
_OR_CALLER = ", or a release of the caller that does not need the name"


@dataclass(frozen=True)
class Direction:
    """The cause and the remedy that the versions in a log decide; releases with and without it."""

    cause: str
    remedy: str
    bad: tuple[str, ...] = ()
    good: tuple[str, ...] = ()


def decide(rule: Rule, message: Mapping[str, Any], log: Mapping[str, Any]) -> Direction | None:
    """Return the direction of a rule's failure; None if the log lacks the versions that decide.

    `message` holds the facts of the message, `log` those of the whole log.
    """
    if rule.direction == "pins" or (rule.direction and "torch" in log):
        direction = _by_pin(message, _with_message(message, log))
        if direction or rule.direction == "pins":
            return direction
    if rule.direction == "names":
        return _by_name(message, log)
    return None


def _with_message(message: Mapping[str, Any], log: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the versions of a log, those of the message in their place if it names them."""
    versions = dict(log)
    for name, fact in (("torch", "torch"), ("triton", "have")):
        version = _NUMBERS.match(str(message.get(fact, "")))
        if version:
            versions[name] = version[0]
    return versions


def _by_pin(message: Mapping[str, Any], log: Mapping[str, Any]) -> Direction | None:
    """Return which of torch and Triton is too new, by what torch requires."""
    if "torch" not in log or "triton" not in log:
        return _by_message(message)
    torch, triton = Version(log["torch"]), Version(log["triton"])
    pin = _requirement(torch)
    if pin is None:
        return _before_the_table(torch, triton) or _by_message(message)
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


def _by_message(message: Mapping[str, Any]) -> Direction | None:
    """Return the release to install that a message names as required."""
    required = _NUMBERS.search(str(message.get("requires", "")))
    if required is None:
        return None
    cause = f"torch requires triton=={required[0]}"
    if "have" in message:
        cause += f", and triton {message['have']} is there"
    return Direction(f"{cause}.", f'Run `pip install "triton=={required[0]}"`.')


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
    """Return the Triton requirement of each torch release, oldest first, by the shipped table."""
    pins: dict[str, str] = table("torch_pins")["pins"]
    return pins


def _requirement(torch: Version) -> str | None:
    """Return the Triton requirement of a torch release; `2.8` stands for its last release."""
    pins = _pins()
    requirement = pins.get(str(torch))
    if requirement is None:
        for release, pin in pins.items():
            if Version(release).release[:2] == torch.release[:2]:
                requirement = pin
    return requirement


def _by_name(message: Mapping[str, Any], log: Mapping[str, Any]) -> Direction | None:
    """Return whether Triton is too old or too new for a name, by the releases that have it."""
    path = ".".join(filter(None, (message.get("module"), message.get("api")))).replace(" ", "")
    releases = _releases_with(path)
    if releases is None:
        return None
    if not releases:
        return _in_no_release(path)
    first, last = releases
    oldest, newest = _ends()
    bad = []
    if first != oldest:
        bad.append(f"triton<{first}")
    if last != newest:
        bad.append(f"triton>{last}")
    sides = (tuple(bad), (f"triton>={first},<={last}",))
    having = f"`{path}` is in Triton {first} to {last}"
    if "triton" not in log:
        cause = f"{having}; the installed release is not in the log."
        return Direction(cause, f"Use triton>={first},<={last}{_OR_CALLER}.", *sides)
    triton = Version(log["triton"])
    if triton < Version(first):
        return Direction(f"{having}; {triton} is too old.", f"Use triton>={first}.", *sides)
    if triton > Version(last):
        cause = f"{having}; {triton} is too new."
        return Direction(cause, f"Use triton<={last}{_OR_CALLER}.", *sides)
    return None


def _releases_with(path: str) -> tuple[str, ...] | None:
    """Return the first and the last release with a name or a module.

    () without a release.

    None stands for a module that all releases have, and for a name that was not read from the
    releases.
    """
    names = table("triton_names")
    module, _, name = path.rpartition(".")
    having = names["names"].get(module, {}).get(name)
    if having:
        return tuple(having)
    if not _MODULE.fullmatch(path) or (module in names["names"] and module != "triton"):
        return None
    for parent in _parents(path):
        if parent in names["modules"]:
            return tuple(names["modules"][parent])
        if parent in names["everywhere"]:
            return () if parent == "triton" else None
    return None


def _parents(path: str) -> Iterator[str]:
    """Yield a module and the packages that hold it, the innermost first."""
    while path:
        yield path
        path = path.rpartition(".")[0]


def _in_no_release(path: str) -> Direction:
    oldest, newest = _ends()
    return Direction(
        f"`{path}` is in no release from Triton {oldest} to {newest}.",
        "Update the package that imports it; its release was written for an older Triton.",
        bad=(f"triton>={oldest},<={newest}",),
    )


def _ends() -> tuple[str, str]:
    """Return the oldest and the newest release of the table."""
    releases = sorted(map(str, table("triton_releases")["releases"]), key=Version)
    return releases[0], releases[-1]
