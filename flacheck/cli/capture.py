"""flacheck capture: record a program's launches, with or without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flacheck.cli import common


@common.command
def capture(
    command: Annotated[
        list[str], typer.Argument(metavar="-- CMD…", help="The program and its arguments.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The launches file.")
    ] = Path("launches.jsonl"),
    device: Annotated[
        str,
        typer.Option(
            metavar="CARD",
            help="h100, h200, a100, v100, b200 …: a card that is not there; or real.",
        ),
    ] = "h100",
) -> int:
    """Record the launches of CMD into a launches file; `flacheck scan FILE` compiles them anywhere.

    The exit code is CMD's own, 125 when it could not be started.
    """
    from flacheck.capture import run

    code = run.capture(command, output, device)
    if code == run.NOT_STARTED:
        common.say(f"{command[0]}: could not be started; is it on the PATH?")
    else:
        common.say(run.summary(output))
    return code
