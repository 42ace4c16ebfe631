"""flacheck check: the environment that is installed here."""

from typing import Annotated

import flacheck
from flacheck.api.options.commands import CheckOptions
from flacheck.cli import common, flags


class CheckCommand(CheckOptions, total=False):
    """The options of `flacheck check`."""

    format: Annotated[str, flags.page_format("table|json|markdown|html")]
    output: flags.Output


@common.command(
    CheckCommand,
    examples=[
        ("Do torch, Triton and my packages work on this GPU?", "flacheck check"),
        (
            "Would they under another torch, on another GPU?",
            "flacheck check --torch 2.12 --package flash-linear-attention==0.6.0 --target h100",
        ),
        ("Does what this file pins work?", "flacheck check --requirements requirements.txt"),
    ],
    exits={
        0: "the parts belong together, and no failure is on record",
        1: "they do not belong together, a pin excludes one, or a kernel fails: as gate",
        3: "nothing is on record about these packages",
    },
)
def check(call: common.Call[CheckCommand]) -> int:
    """Check torch, Triton, driver and packages that are installed here.

    It reads metadata, published and stored results, and compiles, imports and fetches nothing.
    """
    from flacheck.reports import environment

    result = flacheck.check(**call.arguments(flacheck.check))
    call.show(environment.report(result))
    return result.exit_code()
