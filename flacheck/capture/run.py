"""Runs a command with the recorder in every Python that it starts, and closes the launches file
behind it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flacheck.capture.cards import card
from flacheck.errors import UsageError
from flacheck.model import Json
from flacheck.model.launch import LAUNCHES_SCHEMA as SCHEMA

NOT_STARTED = 125
_START = Path(__file__).parent.parent / "guest" / "recorder" / "start"
_SIGNALLED = 128
# What the guest's capture.settings reads; it is another interpreter's and not imported here.
_VARIABLE = "FLACHECK_CAPTURE_SETTINGS"


def capture(
    command: Sequence[str],
    output: Path,
    device: str = "h100",
    packages: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """The command's own exit code (128 + N when signal N ended it), or 125 when it could not be
    started.

    `device` is a card's or target's name, or `real`; `packages` maps folders to the `name==version`
    in them. Launches are in `output` as they happen, those of child processes too; its end line is
    written last.
    """
    if not command:
        raise UsageError("nothing to capture: flacheck capture -- CMD…")
    row = None if device == "real" else card(device)
    settings: Json = {
        "output": str(output.absolute()),
        "card": row,
        "packages": dict(packages or {}),
    }
    settings["package"] = _only(packages)
    _empty(output)
    code = _run(command, {**os.environ, **(environment or {})}, settings)
    _close(output, settings, code)
    return code


def _only(packages: Mapping[str, str] | None) -> str | None:
    return next(iter(packages.values())) if packages and len(packages) == 1 else None


def _empty(output: Path) -> None:
    try:
        output.write_text("")
    except OSError as error:
        raise UsageError(f"{output}: cannot be written ({error.strerror})") from None


def _run(command: Sequence[str], environment: Mapping[str, str], settings: Json) -> int:
    path = os.pathsep.join([str(_START), *filter(None, [environment.get("PYTHONPATH")])])
    try:
        process = subprocess.Popen(
            command, env={**environment, _VARIABLE: json.dumps(settings), "PYTHONPATH": path}
        )
    except OSError:
        return NOT_STARTED
    code = _wait(process)
    return _SIGNALLED - code if code < 0 else code


def _wait(process: subprocess.Popen[bytes]) -> int:
    """The terminal interrupts both of us; the program decides what becomes of it."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def _close(output: Path, settings: Json, code: int) -> None:
    """The end line, and a header where nothing was launched."""
    with output.open("a", encoding="utf-8") as file:
        if not output.stat().st_size:
            device = settings["card"]["gpu"] if settings["card"] else "real"
            about = {
                "package": settings["package"],
                "device": device,
                "triton": None,
                "torch": None,
            }
            header = {"schema": SCHEMA, **about}
            file.write(json.dumps(header) + "\n")
            file.flush()
        file.write(json.dumps({"end": True, "exit_code": code, **statistics(output)}) + "\n")


def statistics(output: Path) -> Json:
    """How much was recorded: launches by kernel, why a kernel has no source of its own, and which
    values the fake device made up for the program, with how many distinct launches may follow from
    them.
    """
    kernels: dict[str, str] = {}
    launches: Counter[str] = Counter()
    uncut: dict[str, str] = {}
    guesses: Counter[str] = Counter()
    guessed = 0
    for line in _lines(output):
        if "kernel" in line:
            kernels[line["id"]] = line["kernel"]
            guessed += "guessed" in line
            if line.get("uncut"):
                uncut[line["kernel"]] = line["uncut"]
        elif "guessed" in line:
            guesses[line["at"]] += line["count"]
        of = line.get("of", line.get("id"))
        if of in kernels:
            launches[kernels[of]] += line.get("count", 1)
    coverage = {
        "kernels": dict(launches),
        "launches": sum(launches.values()),
        "distinct": len(kernels),
    }
    made_up = {
        "total": sum(guesses.values()),
        "launches": guessed,
        "at": dict(guesses.most_common()),
    }
    return {"coverage": coverage, "uncut": uncut, "guesses": made_up}


def summary(output: Path) -> str:
    """What was recorded, for a person."""
    found = statistics(output)
    guesses = found["guesses"]
    said = f"{found['coverage']['launches']} launches are in {output}"
    if guesses["launches"]:
        first = next(iter(guesses["at"]))
        said += f"; {guesses['launches']} may rest on values made up for the program ({guesses['total']}, most at {first})"
    return said


def _lines(output: Path) -> Iterator[Json]:
    """The lines that are whole: a process may have been killed while it wrote."""
    with output.open(encoding="utf-8") as file:
        for line in file:
            with contextlib.suppress(ValueError):
                yield json.loads(line)
