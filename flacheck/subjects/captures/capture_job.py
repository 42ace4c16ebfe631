"""Captures of a whole package on an imitated card under one compiler.

A capture stays in the cache: the same package, compiler, card and driver have the same launches.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import logging
import os
import re
import site
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from flacheck import files
from flacheck.engine import policies, programs
from flacheck.engine.provider import torch_folder
from flacheck.errors import INSTALL_TORCH, IncompleteError, UsageError
from flacheck.files import GuestFileError, GuestFolder
from flacheck.guest.engine import channel
from flacheck.guest.engine.confinement import Policy
from flacheck.model import Json, digest
from flacheck.source.modules import launchable, modules_around
from flacheck.source.packages import checkouts
from flacheck.source.packages.package import Package
from flacheck.subjects.captures import capture_archive, tests
from flacheck.subjects.captures.capture_archive import LAUNCHES, REPORT, Captures
from flacheck.subjects.captures.capture_report import check_report
from flacheck.subjects.inputs.expand import matches_kernel
from flacheck.tables.model_sizes import list_models
from flacheck.tables.settings import durations
from flacheck.toolchains import cache, filling
from flacheck.toolchains.base import Toolchain
from flacheck.toolchains.scratch import temporary_folder

_LOG = logging.getLogger(__name__)

# CPU seconds, which the driver counts itself: for a package, or for its kernels if that is more, up
# to a limit. A driver that hangs and ignores signals is killed after a multiple of that time by the
# clock.
SECONDS = 55
_SECONDS_A_KERNEL = 0.55
_MOST_SECONDS = 300
_PATIENCE = 15
_LOG_FILE = "log.txt"
_PROGRESS = "doing"
# Importing more modules, most of which lead to no kernel, takes longer than all calls.
_MOST_MODULES = 600
# The memory of the driver and its child processes; torch alone reserves far more address space.
_MEMORY_MB = 8192
_FLACHECK = Path(__file__).parent.parent.parent
GUEST = Path(channel.GUEST)
# Captures of this process whose driver ended early: the next process repeats them.
_ENDED_EARLY: set[Path] = set()
_EARLY = "ended-early"
# In the driver's step: "plain calls, 122 kernels recorded: call 662 of fla.ops.gla:chunk_gla".
_CALL = re.compile(r"call \d+ of (\S+)")
# A module of a package, whose others can be imported without it.
_IMPORT = re.compile(r"importing (\S+\.\S+)$")
# Modules that a capture leaves out because their import ended its process.
_MOST_FATAL = 8
_KERNEL = re.compile(r'"kernel": "([^"]+)"')


@dataclass(frozen=True)
class CaptureResult:
    """One capture: the launches file, and the driver's report of its calls and their failures."""

    launches: Path
    report: Mapping[str, Any]

    @property
    def import_error(self) -> str | None:
        """The traceback of a package that could not be imported."""
        error = self.report.get("import_error")
        if error is None:
            return None
        return str(error["traceback"])

    @property
    def kernels(self) -> Counter[str]:
        """The number of distinct recorded launches of each kernel."""
        content = files.read_bytes(self.launches, files.MOST_LAUNCHES)
        return Counter(line["kernel"] for line in files.json_objects(content) if "kernel" in line)


@dataclass(frozen=True)
class CaptureContent:
    """The files that a capture wrote: launches and report."""

    launches: bytes
    report: Json

    def write(self, folder: Path) -> None:
        """Write the files of a capture, each in one step.

        The report marks a complete capture, so it comes last.
        """
        files.write_whole(_launches(folder), self.launches)
        files.write_whole(_report(folder), json.dumps(self.report, indent=1).encode())


@dataclass(frozen=True)
class CaptureJob:
    """A package to capture under a compiler on a card."""

    package: Package
    toolchain: Toolchain
    card: Json
    # The checkout whose own tests run as well.
    suite: Path | None = None
    # Globs of functions and of kernels: only what can reach a match is called.
    ops: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    # Sizes of dimensions by their symbols, in the place of the usual ones.
    shape: tuple[tuple[str, int], ...] = ()

    @property
    def whole(self) -> CaptureJob:
        """The same job for the whole package."""
        return replace(self, ops=(), kernels=())


def capture_package(job: CaptureJob, archive: Captures | None = None) -> CaptureResult:
    """Call all of a package's operators, layers and modules, or return the capture in the cache.

    With globs of functions or kernels, only what can reach a match is called. The cache's capture
    of the whole package replaces one of functions. With the archive of an existing file, only its
    captures are used; otherwise the capture is added to the archive. Raises IncompleteError without
    torch, or if the driver itself is killed or hangs; UsageError if the archive lacks the capture.
    A capture in the cache needs no torch.
    """
    folder = capture_folder(job)
    if archive and archive.file:
        folder = archive.folder / folder.name
        if not _report(folder).exists():
            raise UsageError(
                f"{archive.file} holds no capture of {job.package.identity} under "
                f"{job.toolchain.identity} on {job.card['gpu']}, made by this flacheck: give each "
                "shard the same releases and targets, or name a file that does not exist yet"
            )
    else:
        filling.keep(folder)
        prepare_captures([job])
    if archive and not archive.file:
        capture_archive.add(archive, folder)
    report = GuestFolder(folder).read_json(REPORT, files.MOST_REPORT) or {}
    return CaptureResult(_launches(folder), check_report(report))


def is_captured(job: CaptureJob) -> bool:
    """Return True if the cache has the capture, for which only the compiler's name counts."""
    return _is_complete(capture_folder(job))


def prepare_captures(jobs: Sequence[CaptureJob], at_once: int = 1) -> None:
    """Make the captures that are not in the cache yet, `at_once` at a time.

    Raises IncompleteError without torch, or if a driver itself is killed or hangs.
    """
    missing = {
        capture_folder(each): each for each in jobs if not _is_complete(capture_folder(each))
    }
    if not missing:
        return
    _check_torch()
    jobs_to_run = list(missing.items())
    errors = []
    for start in range(0, len(jobs_to_run), at_once):
        try:
            _capture_together(jobs_to_run[start : start + at_once])
        except IncompleteError as error:
            # The other captures are made and stay in the cache.
            errors.append(error)
    if errors:
        raise errors[0]


def _check_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise IncompleteError(
            f"capturing a package needs torch in flacheck's environment: {INSTALL_TORCH}"
        )


def capture_folder(job: CaptureJob) -> Path:
    package = job.package
    # Selected kernels are called at more sizes than those of a whole package.
    if job.ops and not job.kernels:
        whole = capture_folder(job.whole)
        if _is_complete(whole):
            return whole
    key = capture_key(package, job.toolchain, job.card, recipe_of(package.name, job.shape))
    if job.suite is not None:
        key = digest([key, "tests", checkouts.digest(job.suite)], 16)
    if job.ops or job.kernels:
        key = digest([key, job.ops, job.kernels], 16)
    return cache.root() / "captures" / f"{package.name}-{package.version}-{key}"


def _launches(folder: Path) -> Path:
    return folder / LAUNCHES


def _report(folder: Path) -> Path:
    return folder / REPORT


def _capture_together(jobs: Sequence[tuple[Path, CaptureJob]]) -> None:
    """Start these jobs and wait for all; captures that succeed are kept if others fail."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(jobs)) as pool:
        try:
            futures = [pool.submit(_make_once, folder, job, stop) for folder, job in jobs]
            wait(futures)
        finally:
            # After an interrupt the drivers must end before the pool waits for its threads.
            stop.set()
    for future in futures:
        future.result()


def _make_once(folder: Path, job: CaptureJob, stop: threading.Event) -> None:
    # Two simultaneous scans make one capture: the second waits for it.
    with filling.hold_lock(folder):
        if not _is_complete(folder):
            _make(folder, job, stop)


def _make(folder: Path, job: CaptureJob, stop: threading.Event) -> None:
    """Fill the folder by the driver, completely or not at all; the caller holds its lock."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _EARLY).unlink(missing_ok=True)
    release = job.toolchain.identity
    what = f"capturing {job.package.identity} under {release} on {job.card['gpu']}"
    _LOG.info(f"{what} …")
    content = _capture(folder, job, stop, what)
    if job.suite is not None:
        content = _add_tests(content, job, folder, stop)
    content.write(folder)


def _capture(
    folder: Path, job: CaptureJob, stop: threading.Event, what: str, fatal: tuple[str, ...] = ()
) -> CaptureContent:
    """Run the package's driver; a module in `fatal`, whose import ends the process, is missing."""
    total = len(_launchable_kernels(job))
    with temporary_folder() as work:
        scratch = GuestFolder(Path(work))
        config = {**driver_config(scratch.path, job), "fatal": fatal}
        scratch.write_new(LAUNCHES, "")

        def beat(seconds: float) -> None:
            recorded = len(_recorded_kernels(scratch))
            step = read_progress(scratch.path)
            call = _CALL.search(step)
            # A busy machine gives the driver less than its time: then no estimate is true.
            rest = config["seconds"] - seconds
            left = f", at most {durations.rounded(rest)} left" if rest >= 1 else ""
            _LOG.info(
                f"{f'capturing {call[1]}' if call else step}, {recorded} of "
                f"{max(recorded, total)} kernels, {seconds:.0f} s{left}",
                extra={"is_step": True},
            )

        log = folder / _LOG_FILE
        end = programs.run(
            programs.guest_arguments(".search", config, scratch.path),
            guest_environment(job.toolchain, job.package, work),
            scratch.path,
            log,
            seconds=_PATIENCE * config["seconds"],
            memory_mb=_MEMORY_MB,
            policy=_policy(job, work),
            beat=beat,
            stop=stop,
        )
        content = read_content(scratch)
        if content is not None:
            return content
        doing = read_progress(scratch.path)
        sentence = f"{what} ended without a report while {doing}: {end.how}"
        launches = scratch.read(LAUNCHES, files.MOST_LAUNCHES) or b""
    module = _IMPORT.match(doing)
    if end.signal and module and len(fatal) < _MOST_FATAL:
        _LOG.warning(f"importing {module[1]} ended the capture ({end.how}): going on without it")
        return _capture(folder, job, stop, what, (*fatal, module[1]))
    partial = partial_content(launches, f"all after {doing}: {end.how}")
    if stop.is_set() or partial is None:
        raise IncompleteError(f"{sentence}; its log is {log}: {_last_line(log)}")
    _LOG.warning(f"{sentence}; what it launched until then is kept")
    _ENDED_EARLY.add(folder)
    (folder / _EARLY).touch()
    return partial


def read_content(scratch: GuestFolder) -> CaptureContent | None:
    """Return the files of a guest; None without a report, which marks the end of its work."""
    report = scratch.read_json(REPORT, files.MOST_REPORT)
    if report is None:
        return None
    launches = scratch.read(LAUNCHES, files.MOST_LAUNCHES) or b""
    return CaptureContent(launches, check_report(report))


def _policy(job: CaptureJob, scratch: str | Path) -> Policy:
    """Return the rights of the package's code during its capture."""
    folders = [job.package.path, *policies.compiler_folders(job.toolchain.paths)]
    if job.suite is not None:
        folders.append(str(job.suite))
    return policies.of_package(folders, str(scratch))


def partial_content(launches: bytes, cut: str) -> CaptureContent | None:
    """Return the content of a driver that ended without a report; None without a launch.

    All launches count as made up, because the log does not show which calls were completed.
    """
    lines = []
    has_launch = False
    # The last line may be incomplete.
    for line in files.json_objects(launches):
        if "kernel" in line:
            line["made_up"] = has_launch = True
        lines.append(line)
    if not has_launch:
        return None
    report = {"modules": {}, "operators": {}, "late": True, "cut": [cut], "said": []}
    return CaptureContent(files.json_lines(lines), report)


def _add_tests(
    content: CaptureContent, job: CaptureJob, folder: Path, stop: threading.Event
) -> CaptureContent:
    """Run the checkout's tests, too, and merge their launches into the driver's."""
    checkout = str(job.suite)
    package = job.package.identity
    request = {
        "card": job.card,
        "package": package,
        "packages": {job.package.path: package, checkout: package},
        "checkout": checkout,
        "seconds": tests.TEST_SECONDS,
    }
    what = f"running the tests of {checkout} under {job.toolchain.identity}"

    def environment(scratch: str) -> Mapping[str, str]:
        return guest_environment(job.toolchain, job.package, scratch)

    policy = functools.partial(_policy, job)
    run = tests.run(request, environment, what, folder / "tests.txt", policy, stop)
    driver = list(files.json_objects(content.launches))
    outcome = {**run.report, "kernels": tests.by_source(run, driver)}
    lines = files.json_lines(tests.merge_lines(run, driver))
    return CaptureContent(lines, check_report({**content.report, "tests": outcome}))


def _is_complete(folder: Path) -> bool:
    """Return True for a usable capture: a complete one, or a partial one of this process."""
    whole = not (folder / _EARLY).exists() or folder in _ENDED_EARLY
    return _report(folder).exists() and whole


def read_progress(scratch: Path) -> str:
    """Return the present step of the guest in a folder."""
    return GuestFolder(scratch).read_end(_PROGRESS, 200) or "starting"


def driver_config(scratch: Path, job: CaptureJob) -> Json:
    package = job.package
    return {
        "output": str(scratch / LAUNCHES),
        "report": str(scratch / REPORT),
        "progress": str(scratch / _PROGRESS),
        "card": job.card,
        "modules": list(package.modules),
        "own": _modules_to_import(job),
        "launchable": list(_launchable_kernels(job)),
        "package": package.identity,
        "packages": {package.path: package.identity},
        "checkout": str(job.suite) if job.suite is not None else None,
        "recipe": recipe_of(package.name, job.shape),
        "dtypes": ["bf16", "fp16", "fp32"],
        "sizes": _model_sizes(),
        "seconds": _seconds(job),
        "ops": list(job.ops),
        "kernels": list(job.kernels),
    }


def _modules_to_import(job: CaptureJob) -> list[str]:
    """Return a package's modules; of many, or for selected kernels, those that lead to kernels."""
    package = job.package
    start: set[str] = set()
    for kernel, launchers in _launchable_kernels(job).items():
        start.update(name.partition(":")[0] for name in (kernel, *launchers))
    is_whole = not job.kernels and len(package.own_modules) <= _MOST_MODULES
    if job.ops or is_whole or not start:
        # Functions have no names in text; a kernel that nothing counts may be anywhere.
        return list(package.own_modules)
    return modules_around(package.path, package.own_modules, start)


def _seconds(job: CaptureJob) -> float:
    """Return the CPU seconds for a package's capture."""
    return min(max(SECONDS, _SECONDS_A_KERNEL * len(_launchable_kernels(job))), _MOST_SECONDS)


def _model_sizes() -> list[Json]:
    """Return the sizes of models by the symbols of the guest's shapes."""
    models = []
    for model in list_models():
        sizes = {"K": model.key_size, "V": model.value_size, "D": model.hidden}
        models.append({"name": model.name, "sizes": sizes})
    return models


def _launchable_kernels(job: CaptureJob) -> dict[str, tuple[str, ...]]:
    """Return the selected kernels that a package launches, with the functions that launch them."""
    kernels: dict[str, tuple[str, ...]] = {}
    for module in job.package.modules:
        for kernel, launchers in launchable(job.package.path, module, job.kernels).items():
            if matches_kernel(job.kernels or ("*",), kernel):
                kernels[kernel] = launchers
    return dict(sorted(kernels.items()))


def _recorded_kernels(scratch: GuestFolder) -> set[str]:
    """Return the kernels in a file of launches that is being written."""
    with contextlib.suppress(GuestFileError):
        content = scratch.read(LAUNCHES, files.MOST_LAUNCHES) or b""
        return set(_KERNEL.findall(content.decode(errors="replace")))
    return set()


def recipe_of(package: str, shape: tuple[tuple[str, int], ...] = ()) -> Json:
    """Return the recipe with a package's special settings, which calls operators at these sizes."""
    recipe = _shipped_recipe(package)
    if not shape:
        return recipe
    # The entry for all operators; those of the recipe for some of them come after it.
    operators = {**(recipe.get("operators") or {}), "*": {"sizes": dict(shape)}}
    return {**recipe, "operators": operators}


def _shipped_recipe(package: str) -> Json:
    """Return the recipe that flacheck ships; empty without one."""
    file = _FLACHECK / "source" / "packages" / "recipes" / f"{package}.yaml"
    if not file.is_file():
        return {}
    try:
        recipe = yaml.safe_load(files.read_text(file))
    except yaml.YAMLError as error:
        raise UsageError(f"{file}: not valid YAML: {error}") from None
    if isinstance(recipe, dict):
        return recipe
    return {}


def capture_key(package: Package, toolchain: Toolchain, card: Json, recipe: Json) -> str:
    """Return a digest of everything that can change the launches, the guest's source included."""
    guest = {}
    for file in sorted([*GUEST.rglob("*.py"), *GUEST.rglob("*.jsonl")]):
        guest[str(file.relative_to(GUEST))] = files.read_text(file)
    under = toolchain.identity
    return digest([package.digest, under, card, recipe, guest, _model_sizes()], 16)


def run_guest(
    module: str,
    config: Json,
    environment: Mapping[str, str],
    scratch: GuestFolder,
    seconds: float,
    policy: Policy,
    what: str = "",
) -> Json:
    """Run `main` of one of the guest's modules in a new scratch folder, and return its report.

    `what` is the work in messages about progress. The module writes LAUNCHES and REPORT there, and
    limits its own CPU seconds. Raises IncompleteError without torch, or if the guest is killed,
    hangs, or writes no report that can be read.
    """
    _check_torch()
    folder = scratch.path
    log = folder / _LOG_FILE
    scratch.write_new(LAUNCHES, "")
    paths = {"output": str(folder / LAUNCHES), "report": str(folder / REPORT)}

    def beat(elapsed: float) -> None:
        share = min(100 * elapsed / seconds, 100)
        rest = durations.rounded(max(seconds - elapsed, 1))
        _LOG.info(
            f"{what} … {elapsed:.0f} s, {len(_recorded_kernels(scratch))} kernels launched, "
            f"{share:.0f} % of its time, at most {rest} left",
            extra={"is_step": True},
        )

    end = programs.run(
        programs.guest_arguments(module, {**config, **paths}, folder),
        environment,
        folder,
        log,
        seconds=_PATIENCE * seconds,
        memory_mb=_MEMORY_MB,
        policy=policy,
        beat=beat,
    )
    report = scratch.read_json(REPORT, files.MOST_REPORT)
    if report is None:
        raise IncompleteError(
            f"the target's process ended without a report: {end.how}; {_last_line(log)}"
        )
    return report


def _last_line(log: Path) -> str:
    lines = GuestFolder(log.parent).read_end(log.name, files.MOST_LOG).strip().splitlines()
    return "".join(lines[-1:])[:500]


def guest_environment(
    toolchain: Toolchain, package: Package | None, scratch: str | Path
) -> dict[str, str]:
    """Return a worker's environment: the folders of packages and this Python's user packages.

    The user's own variables are left out.
    """
    beside = [*toolchain.paths]
    if package is not None:
        beside.append(package.path)
    beside += filter(None, [torch_folder()])
    ours = {
        "PYTHONPATH": os.pathsep.join(beside),
        "PYTHONUSERBASE": site.getuserbase(),
        "TORCHDYNAMO_DISABLE": "1",
        # Only a build of torch for CUDA replaces operators by Triton kernels of its own; a package
        # launches the same with every build.
        "TORCH_DISABLE_NATIVE_JIT": "1",
        # Backends of other vendors, which a package may require, fail without their libraries.
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        # There is no network: otherwise transformers retries the download of each model.
        "HF_HUB_OFFLINE": "1",
        # torch falls back on it where the system does not list the user.
        "USER": "flacheck",
        "TRITON_CACHE_DIR": f"{scratch}/triton",
    }
    return programs.environment(scratch, {**toolchain.environment, **ours})
