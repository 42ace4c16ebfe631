"""flacheck capture: record a program's launches, with or without a GPU."""

from pathlib import Path
from typing import Annotated

import flacheck
from flacheck.cli import common, flags

_DEVICE = "Imitate this card (h100, h200, a100, v100, b200 …), or use the card that is here (real)."


@common.command(
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
def capture(
    command: Annotated[
        list[str], flags.argument(metavar="-- CMD…", help="The program and its arguments.")
    ],
    output: Path = flags.option(
        Path("launches.jsonl"),
        "--output",
        "-o",
        panel=flags.OUTPUT,
        metavar="FILE",
        help="Write the launches to FILE.",
    ),
    device: str = flags.option("h100", panel=flags.WITH, metavar="CARD", help=_DEVICE),
) -> int:
    """Record a program's launches, with or without a GPU.

    `flacheck scan FILE` compiles the recorded launches anywhere.
    """
    captured = flacheck.capture(command, output=output, device=device)
    if captured.was_started:
        common.say(captured.summary)
    else:
        common.say(f"{command[0]}: could not be started; is it on the PATH?")
    return captured.exit_code
