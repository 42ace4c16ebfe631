"""Which torch release requires which Triton, and the specifiers that admit exactly what is known
good."""

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
from flacheck.toolchains import cache, index, wheels

_BOOK = "index/torch_pins.json"
_HOUR = 3_600.0


def pins() -> dict[str, str]:
    """torch version → its specifier for Triton: the shipped table and what a refresh added, oldest
    first."""
    known = {**cache.read_json(_BOOK).get("pins", {}), **table("torch_pins")["pins"]}
    return dict(sorted(known.items(), key=lambda pin: Version(pin[0])))


def torch_for(triton: str) -> list[str]:
    """The torch releases that admit a Triton version, oldest first; local parts are ignored."""
    version = Version(Version(triton).public)
    known = pins().items()
    return [torch for torch, pin in known if SpecifierSet(pin).contains(version, True)]


def refresh(again: bool = False) -> None:
    """Learn the pins of torch releases newer than the shipped table, at most once a day, unless
    `again`, or an hour after an index that did not answer; silent when offline."""
    book = cache.read_json(_BOOK)
    wait = index.DAY
    if not book.get("complete", True):
        wait = _HOUR
    if not again and time.time() - book.get("time", 0) < wait:
        return
    learned = dict(book.get("pins", {}))
    newest = max(map(Version, table("torch_pins")["pins"]))
    complete = False
    with suppress(ToolchainError):
        for version in index.available("torch"):
            if version > newest and str(version) not in learned:
                pin = _ask(str(version))
                if pin:
                    learned[str(version)] = pin
        complete = True
    cache.write_json(_BOOK, {"time": time.time(), "pins": learned, "complete": complete})


def is_complete() -> bool:
    """Return False if the last refresh could not read the index: torch may have newer releases."""
    complete: bool = cache.read_json(_BOOK).get("complete", True)
    return complete


def _ask(torch: str) -> str | None:
    """The Triton specifier in a torch release's metadata; nothing is downloaded but that. Raises
    ToolchainError where the metadata cannot be read."""
    flags = ["--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", "-"]
    for installer in reversed(wheels.require_installers()):
        command = [*installer.pip, "install", *flags, f"torch=={torch}"]
        code, output = wheels.run(command, f"torch {torch}")
        if code == 0:
            return _triton_pin(output)
    raise wheels.diagnose(output, f"look up torch {torch}", cache.root(), installer.name)


def _triton_pin(report: str) -> str | None:
    """The specifier in an installer's report; None when it cannot be read or names no Triton."""
    # Warnings may stand before and after the report.
    start = re.search(r"^\{", report, re.MULTILINE)
    if start is None:
        return None
    try:
        read, _ = json.JSONDecoder().raw_decode(report, start.start())
        metadata = read["install"][0]["metadata"]
        wanted = [Requirement(text) for text in metadata.get("requires_dist", [])]
    except (ValueError, LookupError, InvalidRequirement):
        return None
    pins = [str(each.specifier) for each in wanted if each.name == "triton"]
    return next(filter(None, pins), None)


def specifier(name: str, good: Iterable[str], known: Iterable[str]) -> str | None:
    """The narrowest PEP 440 specifier that admits exactly the good ones of the known releases.

    Bounds are the first good release and the one after the last (its next minor version when none
    is known, for an open bound would admit what nobody tried); bad releases between are excluded.
    None when nothing is good.
    """
    wanted = sorted({_plain(version) for version in good})
    if not wanted:
        return None
    if len(wanted) == 1:
        return f"{name}=={wanted[0]}"
    others = sorted({_plain(version) for version in known} - set(wanted))
    between = [f"!={v}" for v in others if wanted[0] < v < wanted[-1]]
    # `<3.9` where 3.9.0 is the next release, or none is known.
    last = wanted[-1]
    after = min([Version(f"{last.major}.{last.minor + 1}"), *(v for v in others if v > last)])
    return name + ",".join([f">={wanted[0]}", *between, f"<{after}"])


def _plain(version: str) -> Version:
    return Version(Version(version).public)
