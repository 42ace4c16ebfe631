"""The options of each API function that a command calls."""

from pathlib import Path
from typing import Annotated, TypedDict

from flacheck.api.options import groups
from flacheck.api.options.declaration import (
    HOW,
    OUTPUT,
    REQUIRED,
    WHAT,
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

_PACKAGES = f"{groups.PACKAGE} Repeatable. NAME>=1.0 scans every release in the range."
_CONFIGURATIONS = (
    "one configuration a kernel, size and dtype (usual), a few extreme ones too (edges), or all of "
    "them (own). Default: own up to 1,000 configurations, else edges."
)
_CAPTURED = "Read what --package launches from FILE; the first shard writes it."
_WITH_TESTS = "With --package DIR, also record what the checkout's own tests launch (pytest)."
_SHARD = "Compile part I of N, split by cell key."
_STRATEGY = "Compile all cells, or a covering set first, then cells around each failure."
_FALLBACKS = "Search and compile fallbacks for each failure."
_SCAN_BUDGET = "Try N settings for each failure, with --fallbacks."
_SCAN_STRICT = "Exit 3 when any cell is unknown, or a captured kernel has changed since."
_DIFF_TRITON = (
    "Choose this release of stored results, or compile two releases of a package with it."
)
_UNTIL = "Stop after this compiler stage, such as ttgir."
_FIND = "Find what broke the cell, what mended it, or every change."
_EVERY = "Compile under every release, not only where the search needs it."
_BISECT_TRITON = (
    "Look at these releases. With selection flags or a file, a single version selects the failing "
    "cell."
)
_REPRO_TRITON = "Select the release that fails: a version, a wheel or a build."
_REPRO_TORCH = "Select the release that fails, by torch."
_RELEASES = "Verify the script on these releases or builds. Default: all."
_BUDGET = "Spend at most N compiles, or a time (120s, 15m, 1h), on the whole command."
_LAUNCHES = "Examine the kernels of a launches file."
_TRIALS = "Try N settings for each failure; 0 looks for no fallbacks."
_EMIT = (
    "Write the configurations that run everywhere: as files for FLA into the folder -o, or as "
    "lists of triton.Config."
)
_BENCH = (
    "Time every compiling configuration of recorded launches on this machine's GPU, under each "
    "release. It needs NVIDIA's driver and flacheck[card] alone."
)
_MEASURE_CONFIGS = "Measure one configuration of each launch, or all of them: the quickest counts."
_MEASURE_CAPTURED = "Read the package's captures from FILE, or write them there."
_BUNDLE = "Write the binaries and launches to FILE, for another machine's GPU."
_MAX_SLOWDOWN = (
    "Fail for a release under which an operator takes over RATIO times as long as under the first "
    "release of a stored measurement (`flacheck measure`)."
)
_SHAPE = (
    "Call the package's operators at these sizes, such as T=8192,B=4, and measure those launches. "
    "Default: the usual sizes. The largest grid of each kernel and dtype is measured."
)
_MEASURE_RESULTS = (
    "Store and judge FILE, the JSON report of another machine's GPU, instead of running anything."
)
_GATE_SCAN = "Compile allowed releases that have no stored result."
_REFRESH = "Ask the package index for new releases first (--scan does)."
_GATE_STRICT = "Exit 1 on an advisory, 3 on a release without a complete record."
_PINS = "Judge only these {} releases, as if a file pinned them."
_NVCC = "Judge pins of nvcc (nvidia-cuda-nvcc), or these releases of it: nvcc>=13.0,<13.3."
_REPORT_TARGET = "Show published results on these GPUs only."
_KNOWN_TORCH = "Only the Triton releases that these torch releases admit: 2.12, >=2.9."
_CHECK_PACKAGE = "Check this package. Repeatable. Default: the installed packages with kernels."
_REQUIREMENTS = "Check what this file pins: torch, Triton and packages."
_CHECK_TARGET = "Check for this GPU. Default: the first one of this machine."
_CHECK_TORCH = "Check this torch, with the Triton that it requires."
_CHECK_TRITON = "Check this Triton release."
_INIT_TARGET = "Compile for these GPUs. Default: this machine's, else a100 and h100."
_INIT_TRITON = "Compile under these releases. Default: the newest that the project's pins allow."
_INIT_FORCE = "Replace an existing workflow and baseline."
_INIT_DRY_RUN = "Print the files; write and compile nothing."
_AUTOCAST = "Run under autocast in these dtypes: fp16, bf16, off."
_PARAMS = "Make parameters and arguments in this dtype: fp32, bf16, fp16."
_ARG = "Give the constructor, or the call, this argument. Upper-case names are sizes: T=2048."
_BESIDE = "Import the target beside this Triton release. Default: installed, else the newest."
_COSTS = "Measure the shared memory of the kernels that findings reach."
_SHARED = "Compile the kernels at head sizes 64, 128 and 256: what fits on each GPU."
_HEADS = "Name the GPUs for --shared. Default: sm90, sm80, sm89, sm86, sm70, sm75."
_BENCH_PACKAGE = "Time a package's operators instead; NAME alone is the one installed here."
_FORM = "Select forms: chunk, fused_chunk, fused_recurrent, parallel."
_PARTIAL = "Print what is known after TIME, and go on. On a terminal: 3m."
_STOP = "Stop when the --budget has passed; the next scan goes on from there."
_INIT_BUDGET = "Compile for TIME; the workflow's first run compiles the rest."
_REPEATS = "Take medians of N runs, after the first one and two more."
_RUN_ON = "Run here; cpu is Triton's interpreter, whose times are meaningless."
_ONLY = "Only this package or matrix, with or without ==VERSION. Repeatable."
_ALL = "Build the combinations that flacheck does not ship as well."
_NEWEST = "First add entries for new releases of Triton, torch and the shipped packages."
_BUILD_SHARD = "Build part I of N of the combinations; copy the files of all parts together."
_BUILD_STORE = "Keep the records in the folder DIR, so that an interrupted build goes on."


def _configs(verb: str) -> Option:
    return Option("--configs usual|edges|own", f"{verb} {_CONFIGURATIONS}", selects=True)


def _triton(help: str) -> Option:
    return several("--triton X", help, WITH, complete="releases")


def _torch(help: str) -> Option:
    return several("--torch X", help, WITH, complete="torch_releases")


class _ScanSubject(TypedDict, total=False):
    package: Annotated[Texts | PathLike | None, groups.package(_PACKAGES)]
    configs: Annotated[str | None, _configs("Compile")]


class PlanOptions(
    _ScanSubject,
    groups.SelectionOptions,
    groups.UnitOptions,
    groups.ReleaseOptions,
    total=False,
):
    """The options of `plan_scan`."""

    captured: Annotated[PathLike | None, path("--captured FILE", _CAPTURED, WHAT)]
    with_tests: Annotated[bool, switch("--with-tests", _WITH_TESTS, WHAT)]
    shard: Annotated[str | None, Option("--shard I/N", _SHARD, HOW)]
    until: Annotated[
        str | None, Option("--until STAGE", _UNTIL, HOW, complete="stages", selects=True)
    ]
    trust: groups.Trust


class ScanOptions(
    groups.CompileOptions,
    groups.CacheOptions,
    PlanOptions,
    groups.BaselineOptions,
    total=False,
):
    """The options of `scan`."""

    strategy: Annotated[str, Option("--strategy all|adaptive", _STRATEGY, HOW, "all")]
    max_failures: Annotated[
        int | None, number("--max-failures N", "Stop after N failures.", HOW, None)
    ]
    budget: Annotated[str | float | None, Option("--budget TIME", _PARTIAL, HOW)]
    stop: Annotated[bool, switch("--stop", _STOP, HOW)]
    fallbacks: Annotated[bool, switch("--fallbacks", _FALLBACKS)]
    fallback_budget: Annotated[int, number("--fallback-budget N", _SCAN_BUDGET, HOW, 48)]
    strict: Annotated[bool, switch("--strict", _SCAN_STRICT, OUTPUT, selects=True)]
    store: groups.Store


class _DiffSubject(groups.SubjectOptions, total=False):
    configs: Annotated[str | None, _configs("Compare")]


class DiffOptions(
    _DiffSubject,
    groups.SelectionOptions,
    groups.UnitOptions,
    groups.CompileOptions,
    groups.CacheOptions,
    groups.PublishedOptions,
    total=False,
):
    """The options of `diff`."""

    triton: Annotated[Texts, groups.typed(_triton(_DIFF_TRITON))]
    trust: groups.Trust
    store: groups.Store


class BisectOptions(
    groups.StoredSubject, groups.SelectionOptions, groups.CompileOptions, total=False
):
    """The options of `bisect`."""

    find: Annotated[str, Option("--find fail|pass|change", _FIND, HOW, "change", selects=True)]
    every: Annotated[bool, switch("--every", _EVERY)]
    toolchain: groups.Toolchain
    triton: Annotated[Texts, _triton(_BISECT_TRITON)]
    torch: groups.Torch
    define: groups.Define
    trust: groups.Trust
    store: groups.Store


class ReproOptions(groups.StoredSubject, groups.SelectionOptions, total=False):
    """The options of `repro`."""

    toolchain: groups.Toolchain
    triton: Annotated[Texts, _triton(_REPRO_TRITON)]
    torch: Annotated[Texts, _torch(_REPRO_TORCH)]
    releases: Annotated[Texts, several("--releases SPEC", _RELEASES, WITH, complete="releases")]
    # Most reductions end by themselves after fewer than 300 compiles.
    budget: Annotated[str | int, Option("--budget N|TIME", _BUDGET, HOW, "1000")]
    runs: Annotated[int, number("--runs N", "Run the script N times where it fails.", HOW, 3)]
    jobs: groups.Jobs
    memory: groups.Memory
    trust: groups.Trust
    store: groups.Store
    output: Annotated[
        PathLike | None, path("--output -o DIR", "Write to DIR. Default: repro-KEY8.")
    ]


class _AutotuneSubject(TypedDict, total=False):
    package: groups.Package
    launches: Annotated[
        PathLike | None,
        path("--launches FILE.jsonl", _LAUNCHES, WHAT, complete="launches_files"),
    ]
    matrix: groups.Matrix
    op: groups.Op
    target: groups.Target
    dtype: groups.Dtype


class AutotuneOptions(_AutotuneSubject, groups.ReleaseOptions, total=False):
    """The options of `autotune`."""

    jobs: groups.Jobs
    fallback_budget: Annotated[int, number("--fallback-budget N", _TRIALS, HOW, 48, 0)]
    fresh: groups.Fresh
    trust: groups.Trust
    emit: Annotated[str | None, Option("--emit fla|python", _EMIT, OUTPUT)]
    bench: Annotated[bool, switch("--bench", _BENCH)]
    store: groups.Store


class MeasureOptions(groups.ReleaseOptions, total=False):
    """The options of `measure`."""

    package: groups.Package
    kernel: groups.Kernel
    op: groups.Op
    target: groups.Target
    dtype: groups.Dtype
    configs: Annotated[str, Option("--configs usual|own", _MEASURE_CONFIGS, WITH, "usual")]
    shape: Annotated[str | None, Option("--shape SIZES", _SHAPE, WITH, None)]
    captured: Annotated[PathLike | None, path("--captured FILE", _MEASURE_CAPTURED, HOW)]
    jobs: groups.Jobs
    fresh: groups.Fresh
    trust: groups.Trust
    bundle: Annotated[PathLike | None, path("--bundle FILE", _BUNDLE)]
    results: Annotated[PathLike | None, path("--results FILE", _MEASURE_RESULTS, HOW)]
    seed: Annotated[int, number("--seed N", "Draw the inputs from this seed.", HOW, 0, 0)]
    store: groups.Store


class GateOptions(
    groups.SubjectOptions, groups.PublishedOptions, groups.BaselineOptions, total=False
):
    """The options of `gate`."""

    installed: Annotated[
        bool, switch("--installed", "Judge the installed environment, not files.", WHAT)
    ]
    fix: Annotated[bool, switch("--fix", "Write that change into the files.", OUTPUT)]
    scan: Annotated[bool, switch("--scan", _GATE_SCAN)]
    refresh: Annotated[bool, switch("--refresh", _REFRESH)]
    strict: Annotated[bool, switch("--strict", _GATE_STRICT, OUTPUT, selects=True)]
    max_slowdown: Annotated[float | None, Option("--max-slowdown RATIO", _MAX_SLOWDOWN)]
    kernel: groups.Kernel
    op: groups.Op
    target: groups.Target
    triton: Annotated[Texts, groups.typed(_triton(_PINS.format("Triton")))]
    torch: Annotated[Texts, groups.typed(_torch(_PINS.format("torch")))]
    toolchain: Annotated[Texts, groups.typed(several("--toolchain NAME[SPEC]", _NVCC, WITH))]
    jobs: groups.Jobs
    store: groups.Store


class ReportOptions(groups.StoredSubject, groups.PublishedOptions, total=False):
    """The options of `report`."""

    op: Annotated[Several, several("--op GLOB", groups.OP, is_setting=False)]
    target: Annotated[Several, several("--target -t GPU", _REPORT_TARGET)]
    store: groups.Store


class KnownOptions(TypedDict, total=False):
    """The options of `known`."""

    target: Annotated[Several, several("--target -t GPU", "Only these GPUs: sm90, h100, gfx942 …")]
    triton: Annotated[Several, several("--triton X", "Only these Triton releases.", WITH)]
    torch: Annotated[Texts, several("--torch X", _KNOWN_TORCH, WITH)]
    kernel: groups.Kernel
    op: groups.Op
    dtype: groups.Dtype
    results: Annotated[PathLike | None, Option("--results DIR|URL", groups.RESULTS)]
    store: groups.Store


class CheckOptions(TypedDict, total=False):
    """The options of `check`."""

    package: Annotated[Texts, several("--package NAME[==V]", _CHECK_PACKAGE, selects=False)]
    requirements: Annotated[PathLike | None, path("--requirements FILE", _REQUIREMENTS, WHAT)]
    target: Annotated[
        str | None,
        Option("--target -t GPU", _CHECK_TARGET, WITH, complete="targets", is_setting=False),
    ]
    torch: Annotated[
        str | None,
        Option("--torch X", _CHECK_TORCH, WITH, complete="torch_releases", is_setting=False),
    ]
    triton: Annotated[
        str | None,
        Option("--triton X", _CHECK_TRITON, WITH, complete="releases", is_setting=False),
    ]
    results: Annotated[PathLike | None, Option("--results DIR|URL", groups.RESULTS)]
    store: groups.Store


class InitOptions(TypedDict, total=False):
    """The options of `init`."""

    target: Annotated[Several, several("--target -t GPU", _INIT_TARGET, WITH, complete="targets")]
    triton: Annotated[
        str | None,
        Option("--triton X", _INIT_TRITON, WITH, complete="releases", is_setting=False),
    ]
    force: Annotated[bool, switch("--force", _INIT_FORCE, is_setting=False)]
    dry_run: Annotated[bool, switch("--dry-run", _INIT_DRY_RUN, is_setting=False)]
    budget: Annotated[
        str | float, Option("--budget TIME", _INIT_BUDGET, HOW, "5m", is_setting=False)
    ]
    jobs: groups.Jobs
    store: groups.Store


class DtypesOptions(TypedDict, total=False):
    """The options of `dtypes`."""

    package: groups.Package
    autocast: Annotated[
        Several | None,
        Option(
            "--autocast DTYPE",
            _AUTOCAST,
            WITH,
            kind=list[str],
            complete="dtypes",
            selects=True,
            typed_default=["fp16", "bf16"],
        ),
    ]
    params: Annotated[
        str | None,
        Option("--params fp32|bf16|fp16", _PARAMS, WITH, selects=True, typed_default="fp32"),
    ]
    arg: Annotated[Texts, several("--arg NAME=VALUE", _ARG, selects=False)]
    device: Annotated[
        str, Option("--device CARD", "Imitate this card: h100, a100, v100 …", WITH, "h100")
    ]
    triton: Annotated[Texts, groups.typed(_triton(_BESIDE))]
    costs: Annotated[bool, switch("--costs/--no-costs", _COSTS, default=True)]
    shared: Annotated[bool, switch("--shared", _SHARED)]
    target_gpu: Annotated[Several, several("--target -t GPU", _HEADS, WITH, complete="targets")]
    jobs: groups.Jobs
    store: groups.Store


class BenchOptions(TypedDict, total=False):
    """The options of `bench`."""

    package: Annotated[Texts | PathLike | None, groups.package(_BENCH_PACKAGE, selects=False)]
    op: Annotated[
        Several,
        several("--op GLOB", "Select the package's operators by name: '*_gla'.", selects=False),
    ]
    form: Annotated[Several, several("--form GLOB", _FORM, selects=False)]
    length: Annotated[
        Several,
        Option("--length N,N", "Time these numbers of tokens.", WITH, "256,1024,4096,16384"),
    ]
    batch: Annotated[Several, Option("--batch N,N", "Time these numbers of sequences.", WITH, "1")]
    heads: Annotated[int, number("--heads N", "Use N heads.", WITH, 16)]
    head_size: Annotated[
        int, number("--head-size N", "Use keys and values of this size.", WITH, 128)
    ]
    dtype: Annotated[
        Several, Option("--dtype bf16|fp16|fp32", "Compute in this dtype.", WITH, "bf16")
    ]
    repeats: Annotated[int, number("--repeats N", _REPEATS, HOW, 20)]
    device: Annotated[str, Option("--device cuda|cpu", _RUN_ON, HOW, "cuda")]


class BuildOptions(groups.CompileOptions, total=False):
    """The options of `build_results`."""

    output: Annotated[
        PathLike,
        path("--output -o DIR", "The folder of the results.", default=REQUIRED),
    ]
    package: Annotated[Texts, several("--package NAME[==V]", _ONLY, selects=False)]
    every: Annotated[bool, switch("--all", _ALL, WHAT)]
    newest: Annotated[bool, switch("--newest", _NEWEST, WHAT)]
    shard: Annotated[str | None, Option("--shard I/N", _BUILD_SHARD)]
    store: Annotated[PathLike, path("--store DIR", _BUILD_STORE, HOW, Path(".flacheck-results"))]


class VerifyOptions(TypedDict, total=False):
    """The options of `verify_results`."""

    sample: Annotated[int, number("--sample N", "Compile N cells again.", WHAT, 200)]
    seed: Annotated[int, number("--seed N", "The seed of the draw.", WHAT, 0, None)]
    places: Annotated[int, number("--places N", "Draw them from N files.", WHAT, 6)]
    results: Annotated[PathLike | None, Option("--results DIR|URL", groups.RESULTS)]
    jobs: groups.Jobs
    timeout: groups.Timeout
    memory: groups.Memory
