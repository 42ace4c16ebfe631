"""flacheck results: make, check and fetch published results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import flacheck
from flacheck import Exit
from flacheck.cli import commands, common, flags
from flacheck.cli.flags import HOW, OUTPUT, WHAT, option
from flacheck.cli.known_results import RESULTS
from flacheck.cli.progress import follow

app = commands.group("Make, check and fetch published results.")
_COMBINATIONS = "A YAML file of packages, releases and GPUs, as results/combinations.yaml."
_FOLDER = "The folder of the results."
_ONLY = "Only this package or matrix, with or without ==VERSION. Repeatable."
_ALL = "Build the combinations that flacheck does not ship as well."
_NEWEST = "First add what new releases of Triton, torch and the shipped packages add to the file."
_SHARD = "Build part I of N of the combinations; copy the files of all parts together."
_STORE = "Keep the records in the folder DIR, so that an interrupted build goes on."
_SITE = "The folder of the site."
_FROM = "A folder or URL of results."


@common.command(
    examples=[
        (
            "Build what flacheck ships; the same command goes on after an interruption",
            "flacheck results build results/combinations.yaml -o results",
        ),
        (
            "One package, on one of four machines",
            "flacheck results build results/combinations.yaml -o part1 --package liger-kernel "
            "--shard 1/4",
        ),
    ],
    exits={
        0: "every combination is built",
        3: "a combination could not be built; the others are",
    },
)
def build(
    combinations: Annotated[Path, flags.argument(metavar="COMBINATIONS", help=_COMBINATIONS)],
    output: Path = option(..., "--output", "-o", panel=OUTPUT, metavar="DIR", help=_FOLDER),
    package: list[str] = option([], panel=WHAT, metavar="NAME[==V]", help=_ONLY),
    every: bool = option(False, "--all", panel=WHAT, help=_ALL),
    newest: bool = option(False, "--newest", panel=WHAT, help=_NEWEST),
    shard: str | None = option(None, panel=WHAT, metavar="I/N", help=_SHARD),
    jobs: flags.Jobs = 0,
    timeout: flags.Timeout = "auto",
    memory: flags.Memory = 8192,
    executor: flags.Executor = "local",
    fresh: flags.Fresh = False,
    store: Path = option(Path(".flacheck-results"), panel=HOW, metavar="DIR", help=_STORE),
) -> int:
    """Compile combinations and write a file for each release and GPU; resumable."""
    with follow() as on_event:
        flacheck.build_results(
            combinations,
            output=output,
            package=package,
            every=every,
            newest=newest,
            shard=shard,
            jobs=jobs,
            timeout=timeout,
            memory=memory,
            executor=executor,
            fresh=fresh,
            store=store,
            on_event=on_event,
        )
    return Exit.OK


@common.command(
    examples=[
        ("Do the published results hold?", "flacheck results verify --sample 200 --seed 1"),
        ("Do those of a folder hold?", "flacheck results verify --results part1 --sample 20"),
    ],
    exits={
        0: "every drawn result holds",
        1: "a result does not hold",
        3: "no cell could be compiled",
    },
)
def verify(
    sample: int = option(200, panel=WHAT, min=1, metavar="N", help="Compile N cells again."),
    seed: int = option(0, panel=WHAT, metavar="N", help="The seed of the draw."),
    places: int = option(6, panel=WHAT, min=1, metavar="N", help="Draw them from N files."),
    results: str | None = option(None, panel=WHAT, metavar="DIR|URL", help=RESULTS),
    jobs: flags.Jobs = 0,
    timeout: flags.Timeout = "auto",
    memory: flags.Memory = 8192,
    format: flags.ShortFormat = "table",
    output: flags.Output = None,
) -> int:
    """Compile drawn cells again and compare verdict, signature and resources."""
    from flacheck import reports
    from flacheck.reports import known_results as known_report

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


@common.command(
    examples=[
        (
            "The board as a folder for any web server, or for a browser",
            "flacheck results site -o board",
        ),
        ("The board of a build", "flacheck results site --results part1 -o board"),
    ],
    exits={
        0: "the site is written",
        4: "nothing is published",
    },
)
def site(
    output: Path = option(..., "--output", "-o", panel=OUTPUT, metavar="DIR", help=_SITE),
    results: flags.Results = None,
) -> int:
    """Write the board of published results: an index, a page and a badge for each package."""
    paths = flacheck.results_site(output, results=results)
    typer.echo(f"{output}: {len(paths)} files; open {output / 'index.html'}", err=True)
    return Exit.OK


@common.command(
    examples=[
        ("Take newer results", "flacheck results update --results https://example.org/results"),
        ("Take those of a build", "flacheck results update --results part1"),
    ],
    exits={
        0: "the results are in the cache",
        3: "the URL cannot be read",
    },
)
def update(
    results: str = option(..., "--results", panel=WHAT, metavar="DIR|URL", help=_FROM),
) -> int:
    """Copy newer results into the cache; each file is checked against the manifest first."""
    with follow(resumable=False) as on_event:
        flacheck.update_results(results, on_event=on_event)
    return Exit.OK


commands.add(app, "build", build)
commands.add(app, "verify", verify)
commands.add(app, "site", site)
commands.add(app, "update", update)
