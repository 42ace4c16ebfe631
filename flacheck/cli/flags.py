"""The options that commands share, as types of their parameters."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from flacheck.cli import completion
from flacheck.cli.pages import HOW as HOW
from flacheck.cli.pages import OUTPUT as OUTPUT
from flacheck.cli.pages import WHAT as WHAT
from flacheck.cli.pages import WITH as WITH


def option(
    *names: Any,
    panel: str | None = None,
    help: str,
    metavar: str | None = None,
    complete: Callable[..., Any] | None = None,
    selects: bool = False,
    **more: Any,
) -> Any:
    """Return an option; without Annotated it stands after its default.

    Every option has a `panel`, its group in the help page: WHAT, WITH, HOW or OUTPUT. A metavar in
    lower case lists all values of the option: `table|json`. `complete` lists values for the shell.
    A project's settings may hold the option if it `selects` what is checked and does nothing else:
    a stranger's checkout must not run programs, write files, open connections or spend memory.
    """
    if complete is None and metavar is not None:
        complete = completion.of_choices(metavar)
    declaration = typer.Option(
        *names,
        help=help,
        metavar=metavar,
        rich_help_panel=panel,
        autocompletion=complete,
        **more,
    )
    declaration.selects = selects
    return declaration


def argument(
    *,
    metavar: str,
    help: str,
    complete: Callable[..., Any] | None = None,
    selects: bool = False,
    **more: Any,
) -> Any:
    """Return a positional argument, for Annotated; its group is WHAT, `selects` as in `option`."""
    if complete is None:
        complete = completion.of_choices(metavar.strip("[]"))
    declaration = typer.Argument(
        metavar=metavar, help=help, rich_help_panel=WHAT, autocompletion=complete, **more
    )
    declaration.selects = selects
    return declaration


_CELL = "A key or its first 8 characters, FILE.jsonl:LINE, or a matrix. Default: search the store."
Cell = Annotated[str | None, argument(metavar="CELL", help=_CELL, complete=completion.cells)]
_KERNEL = "Select kernels whose whole name or last part matches."
Kernel = Annotated[
    list[str],
    option(
        "--kernel",
        "-k",
        panel=WHAT,
        complete=completion.kernels,
        metavar="GLOB",
        selects=True,
        help=_KERNEL,
    ),
]
_OP = "Select what functions, classes or modules of this name launch, by recorded call paths."
Op = Annotated[list[str], option("--op", panel=WHAT, metavar="GLOB", selects=True, help=_OP)]
_TARGET = option(
    "--target",
    "-t",
    panel=WITH,
    complete=completion.targets,
    metavar="GPU",
    selects=True,
    help="Select GPUs: sm90, h100, gfx942 …",
)
Target = Annotated[list[str], _TARGET]
_DTYPE = option(
    "--dtype",
    panel=WHAT,
    complete=completion.dtypes,
    metavar="DTYPE",
    selects=True,
    help="Select dtypes: bf16, fp16, fp32 …",
)
Dtype = Annotated[list[str], _DTYPE]
NumWarps = Annotated[
    list[str],
    option("--num-warps", panel=WHAT, metavar="N", selects=True, help="Override num_warps."),
]
NumStages = Annotated[
    list[str],
    option("--num-stages", panel=WHAT, metavar="N", selects=True, help="Override num_stages."),
]
_DEFINE = "Define this macro in CUDA units; repeat it for other values and names."
Define = Annotated[
    list[str],
    option("--define", "-D", panel=WITH, metavar="NAME=VALUE", selects=True, help=_DEFINE),
]
_OPTION = "Give the compiler this option: std=c++20, host=clang++, maxnreg=128. Repeatable."
Option = Annotated[
    list[str], option("--option", panel=WITH, metavar="NAME=VALUE", selects=True, help=_OPTION)
]
_TOOLCHAIN = "Use these compilers: installed, triton==X, a specifier, or a path."
Toolchain = Annotated[
    list[str],
    option(
        "--toolchain",
        panel=WITH,
        complete=completion.toolchains,
        metavar="SPEC",
        selects=True,
        help=_TOOLCHAIN,
    ),
]
_TRITON = "Use these Triton releases: a version or a specifier. Short for --toolchain triton==X."
Triton = Annotated[
    list[str],
    option(
        "--triton",
        panel=WITH,
        complete=completion.releases,
        metavar="X",
        selects=True,
        help=_TRITON,
    ),
]
_TORCH = "Use the Triton releases that these torch releases require: 2.9, 2.9.1, >=2.5,<2.9."
Torch = Annotated[
    list[str],
    option(
        "--torch",
        panel=WITH,
        complete=completion.torch_releases,
        metavar="X",
        selects=True,
        help=_TORCH,
    ),
]
# What a command is about; scan's own positional argument stands for --matrix.
MATRIX_HELP = "A matrix by name, a YAML file, or a launches file (.jsonl)."
Matrix = Annotated[
    str | None,
    option(
        "--matrix",
        panel=WHAT,
        complete=completion.matrices,
        metavar="NAME|FILE",
        selects=True,
        help=MATRIX_HELP,
    ),
]
_PACKAGE = "What a package, or its checkout, launches, instead of a matrix."
_SPEC = "NAME[==VERSION]|DIR"
Package = Annotated[
    list[str],
    option(
        "--package",
        panel=WHAT,
        selects=True,
        complete=completion.packages,
        metavar=_SPEC,
        help=_PACKAGE,
    ),
]
_PACKAGES = f"{_PACKAGE} Repeatable. NAME>=1.0 scans every release in the range."
Packages = Annotated[
    list[str],
    option(
        "--package",
        panel=WHAT,
        selects=True,
        complete=completion.packages,
        metavar=_SPEC,
        help=_PACKAGES,
    ),
]
_JOBS = "Run N workers. Default: number of CPUs."
# The help text explains the default, 0.
Jobs = Annotated[
    int, option("--jobs", "-j", panel=HOW, min=0, metavar="N", show_default=False, help=_JOBS)
]
_EXECUTOR = "Run the workers here, on a local Dask cluster, or on that of a scheduler."
Executor = Annotated[
    str, option("--executor", panel=HOW, metavar="local|dask|dask:ADDRESS", help=_EXECUTOR)
]
_CACHE_FROM = "Read results from a shared cache: a folder, s3://BUCKET/PATH or https://HOST/PATH."
CacheFrom = Annotated[
    str | None, option("--cache-from", panel=HOW, metavar="URL|DIR", help=_CACHE_FROM)
]
_CACHE_TO = "Write new results to a shared cache: a folder or s3://BUCKET/PATH."
CacheTo = Annotated[str | None, option("--cache-to", panel=HOW, metavar="URL|DIR", help=_CACHE_TO)]
_STRATEGY = "Compile all cells, or the most telling ones: a covering set, then around each failure."
Strategy = Annotated[str, option("--strategy", panel=HOW, metavar="all|adaptive", help=_STRATEGY)]
# One limit for all would end slow kernels, or wait too long for those that hang.
_TIMEOUT = (
    "Allow a cell this long: 90, 90s, 15m, 1h. auto: 300 s, or 20 × the kernel's slowest cell."
)
Timeout = Annotated[str, option("--timeout", panel=HOW, metavar="auto|TIME", help=_TIMEOUT)]
_MEMORY = option("--memory", panel=HOW, metavar="MB", min=256, help="Allow a worker MB of memory.")
Memory = Annotated[int, _MEMORY]
Fresh = Annotated[
    bool, option("--fresh", panel=HOW, help="Compile cells again that have a stored result.")
]
# Importing a package runs its code, which who only has a file need not have meant.
_TRUST = "Install and import the packages that a launches file names."
Trust = Annotated[bool, option("--trust", panel=HOW, help=_TRUST)]
_NO_PUBLISHED = "Leave out published results: only records of the store, and compiles, answer."
NoPublished = Annotated[bool, option("--no-published", panel=HOW, help=_NO_PUBLISHED)]
_RESULTS = "Read published results from this folder or URL instead of flacheck's own."
Results = Annotated[str | None, option("--results", panel=HOW, metavar="DIR|URL", help=_RESULTS)]
_STORE = option("--store", panel=OUTPUT, metavar="DIR", help="Keep results in the folder DIR.")
StoreDir = Annotated[Path, _STORE]
_FORMATS = "table|json|jsonl|markdown|github|html|sarif|junit"
_FORMAT = "Print the report in this format."
Format = Annotated[str, option("--format", panel=OUTPUT, metavar=_FORMATS, help=_FORMAT)]
_SHORT = option("--format", panel=OUTPUT, metavar="table|json", help=_FORMAT)
ShortFormat = Annotated[str, _SHORT]
_BASELINE = "Judge by this baseline what the store does not know; only new failures fail."
BaselineFile = Annotated[
    Path | None, option("--baseline", panel=OUTPUT, metavar="FILE", selects=True, help=_BASELINE)
]
_WRITE_BASELINE = "Write what is known now into a baseline, to be committed."
WriteBaseline = Annotated[
    Path | None, option("--write-baseline", panel=OUTPUT, metavar="FILE", help=_WRITE_BASELINE)
]
_OUTPUT = "Write the report to FILE instead of stdout."
Output = Annotated[
    Path | None, option("--output", "-o", panel=OUTPUT, metavar="FILE", help=_OUTPUT)
]
_REPORTS = "Write the report in this format to FILE as well. Repeatable."
Reports = Annotated[
    list[str],
    option(
        "--report", panel=OUTPUT, complete=completion.formats, metavar="FORMAT=FILE", help=_REPORTS
    ),
]
_QUIET = "Print only results, warnings and errors: no progress."
Quiet = Annotated[bool, option("--quiet", "-q", panel=OUTPUT, help=_QUIET)]
_VERBOSE = "Print each cell's verdict, the settings in effect and seconds as well."
Verbose = Annotated[bool, option("--verbose", "-v", panel=OUTPUT, help=_VERBOSE)]
_OFFLINE = "Read no package index: use what is installed or in the cache."
Offline = Annotated[bool, option("--offline", panel=HOW, help=_OFFLINE)]
_REFRESH = "Read the package index again instead of its listing of today."
Refresh = Annotated[bool, option("--refresh", panel=HOW, help=_REFRESH)]
