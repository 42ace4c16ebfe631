"""Commands under the recorder, which runs in every Python process that they start."""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from flacheck import files
from flacheck.errors import Terminated, UsageError
from flacheck.model import Json
from flacheck.model.launch import LAUNCHES_SCHEMA
from flacheck.subjects.captures.cards import card
from flacheck.toolchains.scratch import temporary_folder

# The exit code of `timeout` and `nohup` for a command that did not start.
NOT_STARTED = 125
# A shell's exit code for a command that signal N ended is 128 + N.
_SIGNAL_BASE = 128
# Python imports `sitecustomize` from the first folder of its path that has one.
_START = Path(__file__).parent.parent.parent / "guest" / "recorder" / "start"
# The guest reads it in `recorder/session.py`, which is not imported here.
_VARIABLE = "FLACHECK_CAPTURE_SETTINGS"
# Results that Inductor cached on a real GPU of the same name must not replace a compile.
_NO_CACHES = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}


def capture(
    command: Sequence[str],
    output: Path,
    device: str = "h100",
    packages: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run a command and return its exit code, 128 + N if signal N ended it.

    Return 125 if it could not be started. `device` is a card's or target's name, or `real`;
    `packages` maps folders to the `name==version` in them. The recorder writes launches to `output`
    immediately, also those of child processes; an end line comes last.
    """
    if not command:
        raise UsageError("nothing to capture: flacheck capture -- CMD…")
    settings: Json = {"output": str(output.absolute()), "card": None, "package": None}
    if device != "real":
        settings["card"] = card(device)
        settings["compiles"] = True
    settings["packages"] = dict(packages or {})
    if len(settings["packages"]) == 1:
        (settings["package"],) = settings["packages"].values()
    try:
        output.write_text("")
    except OSError as error:
        raise UsageError(f"{output}: cannot be written ({error.strerror})") from None
    with temporary_folder() as folder:
        variables = {**os.environ, **(environment or {})}
        if device != "real":
            # Inductor must not find results of the imitated card on a real one.
            variables.update({"TORCHINDUCTOR_CACHE_DIR": folder, **_NO_CACHES})
        code = _run(command, variables, settings)
    _close(output, settings, code)
    return code


def _run(command: Sequence[str], environment: Mapping[str, str], settings: Json) -> int:
    path = str(_START)
    if environment.get("PYTHONPATH"):
        path = os.pathsep.join([path, environment["PYTHONPATH"]])
    ours = {_VARIABLE: json.dumps(settings), "PYTHONPATH": path}
    try:
        process = subprocess.Popen(command, env={**environment, **ours})
    except OSError:
        return NOT_STARTED
    code = _wait(process)
    if code < 0:
        return _SIGNAL_BASE - code
    return code


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process through interrupts.

    The terminal interrupts both processes, and the program decides whether it ends. SIGTERM reaches
    flacheck only, which passes it on.
    """
    while True:
        try:
            return process.wait()
        except Terminated:
            process.terminate()
        except KeyboardInterrupt:
            continue


def _close(output: Path, settings: Json, code: int) -> None:
    """Write the end line, and a header if nothing was launched."""
    lines: list[Json] = []
    if not output.stat().st_size:
        device = "real"
        if settings["card"]:
            device = settings["card"]["gpu"]
        about = {"package": settings["package"], "device": device}
        lines.append({"schema": LAUNCHES_SCHEMA, **about, "triton": None, "torch": None})
    lines.append({"end": True, "exit_code": code, **statistics(output)})
    with output.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def statistics(output: Path) -> Json:
    """Count the recorded launches by kernel and the guessed values by place.

    Kernels without a source have a reason. A guess is a value that the fake device made up for the
    program; distinct launches that may depend on guesses are counted.
    """
    kernels: dict[str, str] = {}
    launches: Counter[str] = Counter()
    uncut: dict[str, str] = {}
    guesses: Counter[str] = Counter()
    uncertain = 0
    for line in files.json_objects(files.read_bytes(output, files.MOST_LAUNCHES)):
        if "kernel" in line:
            kernels[line["id"]] = line["kernel"]
            uncertain += "guessed" in line
            if line.get("uncut"):
                uncut[line["kernel"]] = line["uncut"]
        elif "guessed" in line:
            guesses[line["at"]] += line["count"]
        launch = line.get("of", line.get("id"))
        if launch in kernels:
            launches[kernels[launch]] += line.get("count", 1)
    return {
        "coverage": {
            "kernels": dict(launches),
            "launches": launches.total(),
            "distinct": len(kernels),
        },
        "uncut": uncut,
        "guesses": {
            "total": guesses.total(),
            "launches": uncertain,
            "at": dict(guesses.most_common()),
        },
    }


def summary(output: Path) -> str:
    """Return a sentence on the recorded launches."""
    counts = statistics(output)
    launches = counts["coverage"]["launches"]
    guesses = counts["guesses"]
    if not launches:
        return (
            f"{output}: nothing was launched. Run the program so that it launches Triton kernels "
            "or calls a function of torch.compile on the device `cuda`; if it needs a real card, "
            "record there with --device real"
        )
    if not guesses["launches"]:
        return f"Recorded launches: {launches}, in {output}"
    most = next(iter(guesses["at"]))
    return (
        f"Recorded launches: {launches}, in {output}. flacheck made up {guesses['total']} of the "
        f"values that the program read, most of them at {most}; "
        f"distinct launches that may depend on them: {guesses['launches']}"
    )
