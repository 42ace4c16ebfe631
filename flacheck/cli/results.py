"""flacheck results: make, check and fetch published results."""

from pathlib import Path
from typing import Annotated, TypedDict

import typer

import flacheck
from flacheck import Exit
from flacheck.api.options.commands import BuildOptions, VerifyOptions
from flacheck.api.options.declaration import HOW, REQUIRED, Option, path
from flacheck.api.options.groups import RESULTS
from flacheck.cli import commands, common, flags
from flacheck.cli.progress import follow

_COMBINATIONS = "A YAML file of packages, releases and GPUs, as results/combinations.yaml."


class BuildResults(BuildOptions, total=False):
    """The options of `flacheck results build`."""

    combinations: Annotated[Path, flags.argument("COMBINATIONS", _COMBINATIONS, kind=Path)]


class VerifyResults(VerifyOptions, flags.ShortReport, total=False):
    """The options of `flacheck results verify`."""


class ResultsSite(TypedDict, total=False):
    """The options of `flacheck results site`."""

    output: Annotated[Path, path("--output -o DIR", "The folder of the site.", default=REQUIRED)]
    results: Annotated[str | None, Option("--results DIR|URL", RESULTS, HOW)]


class UpdateResults(TypedDict, total=False):
    """The options of `flacheck results update`."""

    results: Annotated[
        str, Option("--results DIR|URL", "A folder or URL of results.", default=REQUIRED)
    ]


@common.command(
    BuildResults,
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
        3: "a combination could not be built; the others were",
    },
)
def build(call: common.Call[BuildResults]) -> int:
    """Compile combinations and write a file for each release and GPU; resumable."""
    with follow() as on_event:
        flacheck.build_results(**call.arguments(flacheck.build_results), on_event=on_event)
    return Exit.OK


@common.command(
    VerifyResults,
    examples=[
        ("Do the published results hold?", "flacheck results verify --sample 200 --seed 1"),
        ("Do the results in a folder hold?", "flacheck results verify --results part1 --sample 20"),
    ],
    exits={
        0: "every drawn result holds",
        1: "a result does not hold",
        3: "no cell could be compiled",
    },
)
def verify(call: common.Call[VerifyResults]) -> int:
    """Compile drawn cells again and compare verdict, signature and resources."""
    from flacheck.reports import known_results as known_report

    with follow(resumable=False) as on_event:
        arguments = call.arguments(flacheck.verify_results)
        outcome = flacheck.verify_results(**arguments, on_event=on_event)
    call.show(known_report.verification(outcome))
    return outcome.exit_code


@common.command(
    ResultsSite,
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
def site(call: common.Call[ResultsSite]) -> int:
    """Write the board of published results: an index, a page and a badge for each package."""
    output = call.options["output"]
    paths = flacheck.results_site(output, results=call.options["results"])
    typer.echo(f"{output}: {len(paths)} files; open {output / 'index.html'}", err=True)
    return Exit.OK


@common.command(
    UpdateResults,
    examples=[
        ("Take newer results", "flacheck results update --results https://example.org/results"),
        ("Take the results of a build", "flacheck results update --results part1"),
    ],
    exits={
        0: "the results are in the cache",
        3: "the URL cannot be read",
    },
)
def update(call: common.Call[UpdateResults]) -> int:
    """Copy newer results into the cache; each file is checked against the manifest first."""
    with follow(resumable=False) as on_event:
        flacheck.update_results(call.options["results"], on_event=on_event)
    return Exit.OK


app = commands.group_of(
    "Make, check and fetch published results.",
    {"build": build, "verify": verify, "site": site, "update": update},
)
