"""flacheck capture: record a program's launches, with or without a GPU."""

from pathlib import Path
from typing import Annotated

import typer

import flacheck
from flacheck.cli import common, flags

_DEVICE = "Imitate this card (h100, h200, a100, v100, b200 …), or use the card that is here (real)."


@common.command
def capture(
    command: Annotated[
        list[str], typer.Argument(metavar="-- CMD…", help="The program and its arguments.")
    ],
    output: Path = flags.option(
        Path("launches.jsonl"), "--output", "-o", metavar="FILE", help="Write the launches to FILE."
    ),
    device: str = flags.option("h100", metavar="CARD", help=_DEVICE),
) -> int:
    """Record the launches of CMD into a launches file; `flacheck scan FILE` compiles them anywhere.

    The exit code is CMD's own, 125 when it could not be started, 4 when it launched nothing.
    """
    captured = flacheck.capture(command, output=output, device=device)
    if captured.was_started:
        common.say(captured.summary)
    else:
        common.say(f"{command[0]}: could not be started; is it on the PATH?")
    return captured.exit_code
