"""Options that several commands share, in groups."""

from dataclasses import replace
from typing import Annotated, Any, TypedDict

from flacheck.api.options.declaration import (
    HOW,
    STORE,
    WITH,
    Option,
    PathLike,
    Several,
    Texts,
    number,
    path,
    several,
    switch,
)

# What a command is about; scan's own positional argument stands for --matrix.
MATRIX = "A matrix by name, a YAML file, or a launches file (.jsonl)."
PACKAGE = "Take the launches of a package or its checkout instead of a matrix."
OP = "Select launches with a function, class or module of this name on their call path."
RESULTS = "Read published results from this folder or URL instead of flacheck's own."
_KERNEL = "Select kernels whose whole name or last part matches."
_TARGET = "Select GPUs: sm90, h100, gfx942 …"
_DTYPE = "Select dtypes: bf16, fp16, fp32 …"
_DEFINE = "Define this macro in CUDA units; repeat it for other values and names."
_OPTION = "Give the compiler this option: std=c++20, host=clang++, maxnreg=128. Repeatable."
_TOOLCHAIN = "Use these compilers: installed, triton==X, a specifier, or a path."
_TRITON = "Use these Triton releases: a version or a specifier. Short for --toolchain triton==X."
_TORCH = "Use the Triton releases that these torch releases require: 2.9, 2.9.1, >=2.5,<2.9."
_JOBS = "Run N workers. Default: number of CPUs."
_EXECUTOR = "Run the workers here, on a local Dask cluster, or on that of a scheduler."
# One limit for all would end slow kernels, or wait too long for those that hang.
_TIMEOUT = (
    "Allow a cell this long: 90, 90s, 15m, 1h. auto: 300 s, or 20 × the kernel's slowest cell."
)
_FRESH = "Compile cells again that have a stored result."
# Importing a package runs its code, which who only has a file need not have meant.
_TRUST = "Install and import the packages that a launches file names."
_FROM = "Read results from a shared cache: a folder, s3://BUCKET/PATH or https://HOST/PATH."
_TO = "Write new results to a shared cache: a folder or s3://BUCKET/PATH."
_NO_PUBLISHED = "Ignore published results: answer by stored records and compiles only."
_BASELINE = "Judge by this baseline what the store lacks; only new failures fail."
_WRITE_BASELINE = "Write the known failures to this baseline file, to be committed."


def matrix(is_setting: bool = True) -> Option:
    """Return the option that names a matrix."""
    usage = "--matrix NAME|FILE"
    return Option(usage, MATRIX, complete="matrices", selects=True, is_setting=is_setting)


def package(help: str = PACKAGE, selects: bool = True, is_setting: bool = True) -> Option:
    """Return an option that names packages; it is None without any."""
    usage = "--package NAME[==VERSION]|DIR"
    kinds: dict[str, Any] = {"kind": list[str], "complete": "packages"}
    return Option(usage, help, selects=selects, is_setting=is_setting, **kinds)


def typed(option: Option) -> Option:
    """Return an option as only the command line has it."""
    return replace(option, selects=False, is_setting=False)


Package = Annotated[Texts | PathLike | None, package()]
Matrix = Annotated[PathLike | None, matrix()]
Kernel = Annotated[Several, several("--kernel -k GLOB", _KERNEL, complete="kernels")]
Op = Annotated[Several, several("--op GLOB", OP)]
Target = Annotated[Several, several("--target -t GPU", _TARGET, WITH, complete="targets")]
Dtype = Annotated[Several, several("--dtype DTYPE", _DTYPE, complete="dtypes")]
Define = Annotated[Texts, several("--define -D NAME=VALUE", _DEFINE, WITH)]
Toolchain = Annotated[Texts, several("--toolchain SPEC", _TOOLCHAIN, WITH, complete="toolchains")]
Torch = Annotated[Texts, several("--torch X", _TORCH, WITH, complete="torch_releases")]
Jobs = Annotated[int, number("--jobs -j N", _JOBS, HOW, 0, 0, shows_default=False)]
Timeout = Annotated[str | float, Option("--timeout auto|TIME", _TIMEOUT, HOW, "auto")]
Memory = Annotated[int, number("--memory MB", "Allow a worker MB of memory.", HOW, 8192, 256)]
Fresh = Annotated[bool, switch("--fresh", _FRESH)]
Trust = Annotated[bool, switch("--trust", _TRUST)]
Store = Annotated[PathLike, path("--store DIR", "Keep results in the folder DIR.", default=STORE)]


class SubjectOptions(TypedDict, total=False):
    """The subject of a command; a project's settings may name it."""

    matrix: Matrix
    package: Package


class StoredSubject(TypedDict, total=False):
    """The subject of stored results; a project's settings are about its scans."""

    matrix: Annotated[PathLike | None, matrix(is_setting=False)]
    package: Annotated[Texts | PathLike | None, package(is_setting=False)]


class SelectionOptions(TypedDict, total=False):
    """The selection of cells."""

    kernel: Kernel
    op: Op
    target: Target
    dtype: Dtype
    num_warps: Annotated[Several, several("--num-warps N", "Override num_warps.")]
    num_stages: Annotated[Several, several("--num-stages N", "Override num_stages.")]


class UnitOptions(TypedDict, total=False):
    """The macros and options of CUDA C++ units."""

    define: Define
    options: Annotated[Texts, several("--option NAME=VALUE", _OPTION, WITH)]


class ReleaseOptions(TypedDict, total=False):
    """The compilers."""

    toolchain: Toolchain
    triton: Annotated[Texts, several("--triton X", _TRITON, WITH, complete="releases")]
    torch: Torch


class CompileOptions(TypedDict, total=False):
    """How cells are compiled."""

    jobs: Jobs
    executor: Annotated[str, Option("--executor local|dask|dask:ADDRESS", _EXECUTOR, HOW, "local")]
    timeout: Timeout
    memory: Memory
    fresh: Fresh


class CacheOptions(TypedDict, total=False):
    """Shared caches of verdicts."""

    cache_from: Annotated[PathLike | None, Option("--cache-from URL|DIR", _FROM, HOW)]
    cache_to: Annotated[PathLike | None, Option("--cache-to URL|DIR", _TO, HOW)]


class PublishedOptions(TypedDict, total=False):
    """The published results that count."""

    no_published: Annotated[bool, switch("--no-published", _NO_PUBLISHED)]
    results: Annotated[PathLike | None, Option("--results DIR|URL", RESULTS, HOW)]


class BaselineOptions(TypedDict, total=False):
    """The known failures."""

    baseline: Annotated[PathLike | None, path("--baseline FILE", _BASELINE, selects=True)]
    write_baseline: Annotated[PathLike | None, path("--write-baseline FILE", _WRITE_BASELINE)]
