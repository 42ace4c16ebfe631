"""The arguments that API functions share, turned into the parts of a job."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flacheck.api.options.declaration import PathLike, Several, Texts
from flacheck.errors import UsageError, did_you_mean
from flacheck.tables.settings import durations

if TYPE_CHECKING:
    from flacheck.api.options.commands import BisectOptions, PlanOptions, ReproOptions
    from flacheck.evidence.baseline.form import Baseline
    from flacheck.pipeline.job import RunOptions
    from flacheck.subjects.inputs.expand import Selection
    from flacheck.subjects.inputs.subject import Subject

_LOG = logging.getLogger(__name__)


def texts(values: Texts) -> tuple[str, ...]:
    """Return one or several texts as a tuple."""
    if isinstance(values, str):
        return (values,)
    return tuple(values)


def split(values: Several) -> tuple[str, ...]:
    """Return the parts of repeated or comma-separated values."""
    if isinstance(values, (str, int)):
        values = (values,)
    parts = ",".join(map(str, values)).split(",")
    return tuple(filter(None, map(str.strip, parts)))


def numbers(option: str, values: Several) -> tuple[int, ...]:
    """Return whole numbers; UsageError for anything else."""
    try:
        return tuple(int(part) for part in split(values))
    except ValueError:
        raise UsageError(f"{option} takes whole numbers, for example {option} 4,8") from None


def dtypes(values: Several) -> tuple[str, ...]:
    """Return dtypes by their short names: bf16 for bfloat16. UsageError for an unknown dtype."""
    from flacheck.model.launch import DTYPES, find_dtype

    names = []
    for name in split(values):
        dtype = find_dtype(name)
        if dtype is None:
            hint = did_you_mean(name, DTYPES) or _alias_hint(name)
            raise UsageError(f"unknown dtype {name!r}: allowed are {', '.join(DTYPES)}{hint}")
        names.append(dtype)
    return tuple(dict.fromkeys(names))


def _alias_hint(name: str) -> str:
    """Return the hint for a word like a longer name: bf16 for `bfloat`."""
    from flacheck.model.launch import find_dtype

    plain = name.strip().lower()
    for bits in ("16", "32"):
        alias = find_dtype(f"{plain}{bits}")
        if alias is not None:
            return f"; did you mean {alias}?"
    return ""


def torch_requirements(torch: Texts) -> tuple[str, ...]:
    """Return torch releases as specifications of toolchains: `torch==2.9.*` for `2.9`."""
    from flacheck.toolchains import by_torch, split_specs

    specs = []
    for text in texts(torch):
        for part in split_specs(text):
            specs.append(by_torch.parse_requirement(part))
    return tuple(specs)


def selection_of(options: Mapping[str, Any]) -> Selection:
    """Return the selection; UsageError for an unknown dtype, a bad number or a bad NAME=VALUE.

    A command may lack some of the options.
    """
    from flacheck.subjects.inputs.expand import Selection
    from flacheck.subjects.inputs.key_value_options import combinations

    def read(name: str) -> Any:
        return options.get(name, ())

    # Raises for a text without `=` before anything is planned.
    combinations("--define", texts(read("define")))
    combinations("--option", texts(read("options")))
    compilers = (*texts(read("toolchain")), *texts(read("triton")))
    return Selection(
        kernels=split(read("kernel")),
        ops=split(read("op")),
        targets=split(read("target")),
        dtypes=dtypes(read("dtype")),
        num_warps=numbers("--num-warps", read("num_warps")),
        num_stages=numbers("--num-stages", read("num_stages")),
        toolchains=(*compilers, *torch_requirements(read("torch"))),
        defines=texts(read("define")),
        options_given=texts(read("options")),
    )


def packages_of(values: Texts | PathLike | None) -> tuple[str, ...]:
    """Return package names, repeated or separated by commas, each once."""
    from flacheck.toolchains import split_specs

    if values is None:
        return ()
    if isinstance(values, (str, Path)):
        values = (str(values),)
    names: list[str] = []
    for value in values:
        # The name of a folder may hold commas.
        if value and Path(value).expanduser().is_dir():
            names.append(str(value))
        else:
            names += split_specs(str(value))
    return tuple(dict.fromkeys(names))


def one_package(values: Texts | PathLike | None, command: str) -> str | None:
    """Return the package of a function that takes one; UsageError for several."""
    names = packages_of(values)
    if len(names) > 1:
        raise UsageError(
            f"--package names {' and '.join(names)}, and `flacheck {command}` takes one package: "
            "run it once for each, with one --package"
        )
    return next(iter(names), None)


def exact_package(spec: str) -> str:
    """Return NAME==VERSION for a name alone: the installed version, else the newest one.

    Raises:
        UsageError: If the package index lacks a package of that name.
        ToolchainError: If the index does not answer.
    """
    from flacheck.source.packages import checkouts, package

    if checkouts.is_path(spec) or not package.is_name(spec):
        return spec
    exact = package.choose_version(spec)
    _LOG.warning(exact.sentence)
    return exact.spec


def subjects_of(matrix: PathLike | None, options: PlanOptions) -> list[Subject]:
    """Return the matrix, or each package and each release of a range; UsageError for both."""
    captured = options["captured"]
    names = _with_releases(packages_of(options["package"]))
    if captured is not None and len(names) > 1:
        raise UsageError(
            f"--captured {captured} holds the captures of one package, and --package names "
            f"{' and '.join(names)}: scan each by itself, with a file of its own"
        )
    trust, configs, with_tests = options["trust"], options["configs"], options["with_tests"]
    return [
        subject_of(matrix, name, trust, configs, captured, with_tests) for name in names or (None,)
    ]


def _with_releases(names: Sequence[str]) -> tuple[str, ...]:
    """Return package names with each release in place of a range such as `fla-core>=0.5`."""
    from flacheck.source.packages import checkouts, package

    exact_names: list[str] = []
    for name in names:
        if checkouts.is_path(name) or not package.is_range(name):
            exact_names.append(name)
            continue
        releases = _releases_of(name)
        _LOG.warning(f"--package {name}: scanning {', '.join(releases)}")
        exact_names += releases
    return tuple(dict.fromkeys(exact_names))


def _releases_of(spec: str) -> list[str]:
    """Return the releases of a range, the newest first.

    They are those of the package index; if no index answers, the published and installed ones.

    Raises:
        UsageError: If no release is in the range.
        ToolchainError: If no index answers, and none is published or installed.
    """
    from flacheck.evidence.published.library import has_results, open_library, published_releases
    from flacheck.source.packages import package
    from flacheck.toolchains import wheels

    try:
        return package.releases(spec)
    except wheels.Offline:
        here = package.installed_releases(spec)
        if has_results():
            here += published_releases(open_library(), spec)
        if not here:
            raise
        _LOG.warning(f"--package {spec}: no package index answers; the releases are those on disk")
        return package.newest_first(here)


def subject_of(
    matrix: PathLike | None,
    package: PathLike | None,
    trust: bool = False,
    configs: str | None = None,
    captured: PathLike | None = None,
    with_tests: bool = False,
) -> Subject:
    """Return what a job is about; UsageError for both a matrix and a package."""
    from flacheck.subjects.inputs.subject import Subject

    if matrix is not None and package is not None:
        raise UsageError("a matrix and --package were given: name one of them")
    if configs not in (None, "usual", "edges", "own"):
        raise UsageError(f"--configs {configs}: expected usual, edges or own")
    return Subject(
        matrix=None if matrix is None else os.fspath(matrix),
        package=None if package is None else exact_package(os.fspath(package)),
        trust=trust,
        configs=configs,
        captures_file=None if captured is None else Path(captured),
        with_tests=with_tests,
    )


def cell_of(
    cell: str | None, options: BisectOptions | ReproOptions, command: str
) -> str | Subject | None:
    """Return what names a cell: CELL, else a matrix or package; None searches the store."""
    matrix, package = options["matrix"], one_package(options["package"], command)
    sources = [name for name, value in (("--matrix", matrix), ("--package", package)) if value]
    if not sources:
        return cell
    if cell is not None:
        raise UsageError(f"CELL and {sources[0]} were given: name one of them")
    return subject_of(matrix, package, options["trust"])


def seconds(timeout: str | float) -> float | None:
    """Return a timeout in seconds; None for `auto`. UsageError for anything else."""
    if timeout == "auto":
        return None
    if str(timeout) == "inf":
        return math.inf
    number = durations.parse(str(timeout))
    if number is None:
        raise UsageError(f"--timeout {timeout}: expected auto or a duration: {durations.EXAMPLES}")
    return number


def duration(option: str, value: str | float) -> float:
    """Return a duration in seconds; raise UsageError for an invalid text."""
    seconds = durations.parse(str(value))
    if seconds is None:
        raise UsageError(f"--{option} {value}: expected a duration: 30d, 12h, 15m or 90s")
    return seconds


def run_options(options: Mapping[str, Any]) -> RunOptions:
    """Return how cells are compiled; UsageError for a bad timeout, executor, cache or strategy.

    A command may lack some of the options.
    """
    from flacheck.pipeline.job import ADAPTIVE, ALL, DASK, LOCAL, MEMORY_MB, RunOptions

    executor, strategy = options.get("executor", LOCAL), options.get("strategy", ALL)
    name, _, address = executor.partition(":")
    is_plain = executor in (LOCAL, DASK)
    if not is_plain and (name != DASK or not address):
        raise UsageError(
            f"--executor {executor}: expected local, dask, or dask: and the address of a scheduler,"
            " such as dask:tcp://10.0.0.1:8786"
        )
    if strategy not in (ALL, ADAPTIVE):
        raise UsageError(f"--strategy {strategy}: expected {ALL} or {ADAPTIVE}")
    budget = options.get("budget")
    if options.get("stop") and (budget is None or executor != LOCAL):
        raise UsageError("--stop needs --budget TIME, and compiles on this machine")
    return RunOptions(
        seconds(options.get("timeout", "auto")),
        options["jobs"],
        options.get("memory", MEMORY_MB),
        options.get("fresh", False),
        options.get("max_failures"),
        executor,
        cache_from=_cache_place("--cache-from", options.get("cache_from")),
        cache_to=_cache_place("--cache-to", options.get("cache_to"), is_written=True),
        strategy=strategy,
        budget=None if budget is None else duration("budget", budget),
        stops=options.get("stop", False),
    )


def _cache_place(option: str, place: PathLike | None, is_written: bool = False) -> str | None:
    """Return the URL or folder of a shared cache, checked before anything is captured."""
    if place is None:
        return None
    from flacheck.pipeline.shared_cache import SharedCache

    url = os.fspath(place)
    SharedCache.open(url, option, is_written)
    return url


def check_stage(until: str | None) -> None:
    """Raise UsageError for an unknown compiler stage."""
    from flacheck.toolchains import stages

    if until is not None and until not in stages():
        stage_names = ", ".join(stages())
        raise UsageError(f"--until {until}: there is no such stage; allowed are {stage_names}")


def read_baseline(file: PathLike | None, write_baseline: PathLike | None = None) -> Baseline | None:
    """Return the baseline of a file; None without one, or if it is new and to be written."""
    from flacheck.evidence.baseline import form

    if file is None or (file == write_baseline and not Path(file).exists()):
        return None
    return form.read(Path(file))
