"""flacheck results: make, check and fetch published results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import flacheck
from flacheck import Exit
from flacheck.cli import common, flags
from flacheck.cli.flags import option
from flacheck.cli.known import RESULTS
from flacheck.cli.progress import follow

app = typer.Typer(
    help="Make, check and fetch published results.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_COMBINATIONS = "A YAML file of packages, releases and GPUs, as results/combinations.yaml."
_FOLDER = "The folder of the results."
_ONLY = "Only this package or matrix, with or without ==VERSION. Repeatable."
_ALL = "Build the combinations that flacheck does not ship as well."
_SHARD = "Build part I of N of the combinations; copy the files of all parts together."
_STORE = "Keep the records in the folder DIR, so that an interrupted build goes on."
_FROM = "A folder or URL of results."


@app.command("build")
@common.command
def build(
    combinations: Annotated[Path, typer.Argument(metavar="COMBINATIONS", help=_COMBINATIONS)],
    output: Path = option(..., "--output", "-o", metavar="DIR", help=_FOLDER),
    package: list[str] = option([], metavar="NAME[==V]", help=_ONLY),
    every: bool = option(False, "--all", help=_ALL),
    shard: str | None = option(None, metavar="I/N", help=_SHARD),
    jobs: flags.Jobs = 0,
    timeout: flags.Timeout = "auto",
    memory: flags.Memory = 8192,
    fresh: flags.Fresh = False,
    store: Path = option(Path(".flacheck-results"), metavar="DIR", help=_STORE),
) -> int:
    """Compile combinations and write a file for each release and GPU; resumable."""
    with follow() as on_event:
        flacheck.build_results(
            combinations,
            output=output,
            package=package,
            every=every,
            shard=shard,
            jobs=jobs,
            timeout=timeout,
            memory=memory,
            fresh=fresh,
            store=store,
            on_event=on_event,
        )
    return Exit.OK


@app.command("verify")
@common.command
def verify(
    sample: int = option(200, min=1, metavar="N", help="Compile this many cells again."),
    seed: int = option(0, metavar="N", help="The seed of the draw."),
    places: int = option(6, min=1, metavar="N", help="Draw them from this many files."),
    results: str | None = option(None, metavar="DIR|URL", help=RESULTS),
    jobs: flags.Jobs = 0,
    timeout: flags.Timeout = "auto",
    memory: flags.Memory = 8192,
    format: flags.ShortFormat = "table",
    output: flags.Output = None,
) -> int:
    """Compile drawn cells again and compare verdict, signature and resources."""
    from flacheck import reports
    from flacheck.reports import known as known_report

    reports.check(format, reports.TABLE_OR_JSON)
    with follow(resumable=False) as on_event:
        outcome = flacheck.verify_results(
            results=results,
            sample=sample,
            seed=seed,
            places=places,
            jobs=jobs,
            timeout=timeout,
            memory=memory,
            on_event=on_event,
        )
    common.show(format, known_report.verification(outcome), output)
    return outcome.exit_code


@app.command("update")
@common.command
def update(results: str = option(..., "--results", metavar="DIR|URL", help=_FROM)) -> int:
    """Copy newer results into the cache; each file is checked against the manifest first."""
    with follow(resumable=False) as on_event:
        flacheck.update_results(results, on_event=on_event)
    return Exit.OK
