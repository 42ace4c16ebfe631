"""The Triton requirements of torch releases, and specifiers for known-good releases."""

import json
import re
import time
from collections.abc import Iterable
from contextlib import suppress

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.errors import ToolchainError
from flacheck.tables import table
from flacheck.toolchains import cache, connections, index, index_settings, wheels

_BOOK = "index/torch_pins.json"
_HOUR = 3_600.0


def pins() -> dict[str, str]:
    """Return torch version → its specifier for Triton, oldest first.

    They come from the shipped table and later refreshes.
    """
    unsorted_pins = {**cache.read_json(_BOOK).get("pins", {}), **table("torch_pins")["pins"]}
    return dict(sorted(unsorted_pins.items(), key=lambda pin: Version(pin[0])))


def torch_for(triton: str) -> list[str]:
    """Return the torch releases that admit a Triton version, oldest first.

    Local parts are ignored.
    """
    version = Version(Version(triton).public)
    releases = []
    for torch, pin in pins().items():
        if SpecifierSet(pin).contains(version, prereleases=True):
            releases.append(torch)
    return releases


def refresh(again: bool = False) -> None:
    """Read the pins of torch releases newer than the shipped table.

    This happens at most once a day unless `again`, or an hour after an index that could not be
    read; it is silent when offline, and reads nothing with --offline.
    """
    book = cache.read_json(_BOOK)
    wait = connections.DAY
    if not book.get("complete", True):
        wait = _HOUR
    if connections.is_offline():
        return
    again = again or connections.is_refreshing()
    if not again and time.time() - book.get("time", 0) < wait:
        return
    new_pins = dict(book.get("pins", {}))
    newest = max(map(Version, table("torch_pins")["pins"]))
    complete = False
    with suppress(ToolchainError):
        for version in index.available("torch"):
            if version > newest and str(version) not in new_pins:
                pin = look_up(str(version))
                if pin:
                    new_pins[str(version)] = pin
        complete = True
    cache.write_json(_BOOK, {"time": time.time(), "pins": new_pins, "complete": complete})


def is_complete() -> bool:
    """Return False if the last refresh could not read the index: torch may have newer releases."""
    complete: bool = cache.read_json(_BOOK).get("complete", True)
    return complete


def look_up(torch: str) -> str | None:
    """Return the Triton specifier in a torch release's metadata.

    Only the metadata is downloaded. Raises ToolchainError if it cannot be read.
    """
    flags = ["--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", "-"]
    for installer in reversed(wheels.require_installers()):
        command = [*installer.pip, "install", *flags, f"torch=={torch}"]
        code, output = wheels.run(
            command, f"torch {torch}", index_settings.variables(installer.pip)
        )
        if code == 0:
            return _triton_pin(output)
    raise wheels.diagnose(output, f"look up torch {torch}", cache.root(), installer.name)


def _triton_pin(report: str) -> str | None:
    """Return the specifier in an installer's report; None if unreadable or without Triton."""
    # Warnings may stand before and after the report.
    start = re.search(r"^\{", report, re.MULTILINE)
    if start is None:
        return None
    try:
        read, _ = json.JSONDecoder().raw_decode(report, start.start())
        metadata = read["install"][0]["metadata"]
        requirements = list(map(Requirement, metadata.get("requires_dist", [])))
    except (ValueError, LookupError, InvalidRequirement):
        return None
    for requirement in requirements:
        if requirement.name == "triton" and requirement.specifier:
            return str(requirement.specifier)
    return None


def specifier(name: str, good: Iterable[str], known: Iterable[str]) -> str | None:
    """Return the range of the newest good releases without another known release between them.

    A single release has an exact pin. The upper bound is the release after the last one, or its
    next minor version, since an open bound would admit untested releases. Returns None if nothing
    is good.
    """
    good_versions = set(map(_plain, good))
    if not good_versions:
        return None
    last = max(good_versions)
    first = last
    after = Version(f"{last.major}.{last.minor + 1}")
    for other in sorted(set(map(_plain, known)) | good_versions, reverse=True):
        if other > last:
            # The bound is `<3.9` if 3.9.0 is the next release, or if there is none.
            after = min(after, other)
        elif other in good_versions:
            first = other
        else:
            break
    if first == last:
        return f"{name}=={last}"
    return f"{name}>={first},<{after}"


def _plain(version: str) -> Version:
    return Version(Version(version).public)
