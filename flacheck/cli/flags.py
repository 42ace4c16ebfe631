"""The options that commands share, as types of their parameters."""

from pathlib import Path
from typing import Annotated, Any

import typer


def option(*names: Any, help: str, metavar: str | None = None, **more: Any) -> Any:
    """Return an option; without Annotated it stands after its default.

    A metavar in lower case lists all values of the option: `table|json`.
    """
    return typer.Option(*names, help=help, metavar=metavar, **more)


_CELL = "A key or its first 8 characters, FILE.jsonl:LINE, or a matrix. Default: search the store."
Cell = Annotated[str | None, typer.Argument(metavar="[CELL]", help=_CELL)]
_KERNEL = "Select kernels whose whole name or last part matches."
Kernel = Annotated[list[str], option("--kernel", "-k", metavar="GLOB", help=_KERNEL)]
_OP = "Select what functions, classes or modules of this name launch, by recorded call paths."
Op = Annotated[list[str], option("--op", metavar="GLOB", help=_OP)]
_TARGET = option("--target", "-t", metavar="GPU", help="Select GPUs: sm90, h100, gfx942 …")
Target = Annotated[list[str], _TARGET]
_DTYPE = option("--dtype", metavar="DTYPE", help="Select dtypes: bf16, fp16, fp32 …")
Dtype = Annotated[list[str], _DTYPE]
NumWarps = Annotated[list[str], option("--num-warps", metavar="N", help="Override num_warps.")]
NumStages = Annotated[list[str], option("--num-stages", metavar="N", help="Override num_stages.")]
_DEFINE = "Define this macro in CUDA units; repeat it for other values and names."
Define = Annotated[list[str], option("--define", "-D", metavar="NAME=VALUE", help=_DEFINE)]
_OPTION = "Give the compiler this option: std=c++20, host=clang++, maxnreg=128. Repeatable."
Option = Annotated[list[str], option("--option", metavar="NAME=VALUE", help=_OPTION)]
_TOOLCHAIN = "Use these compilers: installed, triton==X, a specifier, or a path."
Toolchain = Annotated[list[str], option("--toolchain", metavar="SPEC", help=_TOOLCHAIN)]
_TRITON = "Use these Triton releases: a version or a specifier. Short for --toolchain triton==X."
Triton = Annotated[list[str], option("--triton", metavar="X", help=_TRITON)]
_TORCH = "Use the Triton releases that these torch releases require: 2.9, 2.9.1, >=2.5,<2.9."
Torch = Annotated[list[str], option("--torch", metavar="X", help=_TORCH)]
# What a command is about; scan's own positional argument stands for --matrix.
MATRIX_HELP = "A matrix by name, a YAML file, or a launches file (.jsonl)."
Matrix = Annotated[str | None, option("--matrix", metavar="NAME|FILE", help=MATRIX_HELP)]
_PACKAGE = "What a package, or its checkout, launches, instead of a matrix."
_SPEC = "NAME==VERSION|DIR"
Package = Annotated[list[str], option("--package", metavar=_SPEC, help=_PACKAGE)]
_PACKAGES = f"{_PACKAGE} Repeatable."
Packages = Annotated[list[str], option("--package", metavar=_SPEC, help=_PACKAGES)]
_JOBS = "Run N workers. Default: number of CPUs."
# The help text explains the default, 0.
Jobs = Annotated[int, option("--jobs", "-j", min=0, metavar="N", show_default=False, help=_JOBS)]
# One limit for all would end slow kernels, or wait too long for those that hang.
_TIMEOUT = "Allow a cell S seconds. auto: 300, or 20 × the kernel's slowest cell."
Timeout = Annotated[str, option(metavar="auto|S", help=_TIMEOUT)]
_MEMORY = option(metavar="MB", min=256, help="Allow a worker MB of memory.")
Memory = Annotated[int, _MEMORY]
Fresh = Annotated[bool, option("--fresh", help="Compile cells again that have a stored result.")]
# Importing a package runs its code, which who only has a file need not have meant.
_TRUST = "Install and import the packages that a launches file names."
Trust = Annotated[bool, option("--trust", help=_TRUST)]
_STORE = option("--store", metavar="DIR", help="Keep results in the folder DIR.")
StoreDir = Annotated[Path, _STORE]
_FORMATS = "table|json|jsonl|markdown|github|html|sarif|junit"
_FORMAT = "Print the report in this format."
Format = Annotated[str, option("--format", metavar=_FORMATS, help=_FORMAT)]
_SHORT = option("--format", metavar="table|json", help=_FORMAT)
ShortFormat = Annotated[str, _SHORT]
_BASELINE = "Judge by this baseline what the store does not know; only new failures fail."
BaselineFile = Annotated[Path | None, option("--baseline", metavar="FILE", help=_BASELINE)]
_WRITE_BASELINE = "Write what is known now into a baseline, to be committed."
WriteBaseline = Annotated[
    Path | None, option("--write-baseline", metavar="FILE", help=_WRITE_BASELINE)
]
_OUTPUT = "Write the report to FILE instead of stdout."
Output = Annotated[Path | None, option("--output", "-o", metavar="FILE", help=_OUTPUT)]
_REPORTS = "Write the report in this format to FILE as well. Repeatable."
Reports = Annotated[list[str], option("--report", metavar="FORMAT=FILE", help=_REPORTS)]
