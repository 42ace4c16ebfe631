"""flacheck capture: record a program's launches, with or without a GPU."""

from pathlib import Path
from typing import Annotated, TypedDict

import flacheck
from flacheck.api.options.declaration import WITH, Option, path
from flacheck.cli import common, flags

_DEVICE = "Imitate this card (h100, h200, a100, v100, b200 …), or use the card that is here (real)."


class CaptureCommand(TypedDict, total=False):
    """The options of `flacheck capture`."""

    command: Annotated[
        list[str],
        flags.argument("-- CMD…", "The program and its arguments.", kind=list[str]),
    ]
    output: Annotated[
        Path,
        path("--output -o FILE", "Write the launches to FILE.", default=Path("launches.jsonl")),
    ]
    device: Annotated[str, Option("--device CARD", _DEVICE, WITH, "h100")]


@common.command(
    CaptureCommand,
    examples=[
        (
            "Record a training script on an imitated H100",
            "flacheck capture -o launches.jsonl -- python train.py",
        ),
        (
            "Record a test suite on an imitated A100",
            "flacheck capture -o tests.jsonl --device a100 -- pytest tests/ops",
        ),
    ],
    exits={
        0: "the program's own exit code, whichever it is",
        125: "the program could not be started",
        4: "the program launched no kernel",
    },
)
def capture(call: common.Call[CaptureCommand]) -> int:
    """Record a program's launches, with or without a GPU.

    `flacheck scan FILE` compiles the recorded launches anywhere.
    """
    captured = flacheck.capture(**call.arguments(flacheck.capture))
    if captured.was_started:
        common.say(captured.summary)
    else:
        common.say(f"{call.options['command'][0]}: could not be started; is it on the PATH?")
    return captured.exit_code
