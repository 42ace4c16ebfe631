"""Which torch release requires which Triton, and the specifiers that admit exactly what is known
good.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.errors import ToolchainError
from flacheck.tables import table
from flacheck.toolchains import cache, index, wheels

_BOOK = "index/torch_pins.json"


def pins() -> dict[str, str]:
    """torch version → its specifier for Triton: the shipped table and what a refresh added, oldest
    first.
    """
    known = {**cache.read_json(_BOOK).get("pins", {}), **table("torch_pins")["pins"]}
    return dict(sorted(known.items(), key=lambda pin: Version(pin[0])))


def torch_for(triton: str) -> list[str]:
    """The torch releases that admit a Triton version, oldest first; local parts are ignored."""
    version = Version(Version(triton).public)
    return [
        torch
        for torch, specifier in pins().items()
        if SpecifierSet(specifier).contains(version, True)
    ]


def triton_for(torch: str) -> str | None:
    """The specifier that a torch release puts on Triton, None for an unknown release."""
    return pins().get(Version(torch).public)


def refresh() -> None:
    """Learn the pins of torch releases newer than the shipped table, at most once a day; silent
    when offline.
    """
    book = cache.read_json(_BOOK)
    if time.time() - book.get("time", 0) < index.DAY:
        return
    found = dict(book.get("pins", {}))
    newest = max(map(Version, table("torch_pins")["pins"]))
    try:
        new = [str(v) for v in index.available("torch") if v > newest and str(v) not in found]
        found |= {version: pin for version in new if (pin := _ask(version))}
    except ToolchainError:
        pass
    cache.write_json(_BOOK, {"time": time.time(), "pins": found})


def _ask(torch: str) -> str | None:
    """The Triton specifier in a torch release's metadata; nothing is downloaded but that."""
    flags = ["--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", "-"]
    for installer in reversed(wheels.require_installers()):
        code, output = wheels.run(
            [*installer.pip, "install", *flags, f"torch=={torch}"], f"torch {torch}"
        )
        if code == 0:
            return _triton_pin(output)
    return None


def _triton_pin(report: str) -> str | None:
    """The specifier in an installer's report; None when it cannot be read or names no Triton."""
    try:
        start = re.search(r"^\{", report, re.MULTILINE)
        read, _ = json.JSONDecoder().raw_decode(report, start.start() if start else 0)
        wanted = [
            Requirement(text) for text in read["install"][0]["metadata"].get("requires_dist", [])
        ]
    except (ValueError, LookupError, InvalidRequirement):
        return None
    return next((str(r.specifier) for r in wanted if r.name == "triton" and str(r.specifier)), None)


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
    return name + ",".join([f">={wanted[0]}", *between, f"<{_above(wanted[-1], others)}"])


def _plain(version: str) -> Version:
    return Version(Version(version).public)


def _above(last: Version, others: Sequence[Version]) -> str:
    """The exclusive bound after the last good release: `3.9` when the known next one is 3.9.0 or
    unknown.
    """
    minor = Version(f"{last.major}.{last.minor + 1}")
    after = [v for v in others if last < v]
    return str(min([minor, *after]))
