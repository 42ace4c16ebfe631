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
import shutil
import site
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from flacheck.captures import tests
from flacheck.captures.capture_archive import Captures
from flacheck.config import durations
from flacheck.engine import policies, programs
from flacheck.engine.provider import torch_folder
from flacheck.errors import INSTALL_TORCH, IncompleteError, UsageError
from flacheck.guest.engine import channel
from flacheck.guest.engine.confinement import Policy
from flacheck.model import Json, digest
from flacheck.packages import checkouts
from flacheck.packages.package import Package
from flacheck.source.modules import launchable
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
# The log of the comparison with captures under other releases, and its time by the clock as a
# multiple of the package's CPU seconds.
_REUSE_LOG = "earlier.txt"
REUSE_PATIENCE = 2.0
# The memory of the driver and its child processes; torch alone reserves far more address space.
_MEMORY_MB = 8192
_FLACHECK = Path(__file__).parent.parent
GUEST = Path(channel.GUEST)
# Captures of this process whose driver ended early: the next process repeats them.
_ENDED_EARLY: set[Path] = set()
_EARLY = "ended-early"
# The most captures under other releases to compare: the cache may contain hundreds.
_MOST_EARLIER = 4
_KERNEL = re.compile(r'"kernel": "([^"]+)"')
_TRITONS = ("triton-", "pytorch_triton")


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
        counts: Counter[str] = Counter()
        with self.launches.open(encoding="utf-8") as file:
            for line in map(json.loads, file):
                if "kernel" in line:
                    counts[line["kernel"]] += 1
        return counts


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

    @property
    def whole(self) -> CaptureJob:
        """The same job for the whole package."""
        return replace(self, ops=(), kernels=())


def capture_package(
    package: Package,
    toolchain: Toolchain,
    card: Json,
    archive: Captures | None = None,
    suite: Path | None = None,
    ops: tuple[str, ...] = (),
    kernels: tuple[str, ...] = (),
) -> CaptureResult:
    """Call all of a package's operators, layers and modules, or return the capture in the cache.

    With globs of functions or kernels, only what can reach a match is called, unless the cache has
    the whole package's capture. With the archive of an existing file, only its captures are used;
    otherwise the capture is added to the archive. Raises IncompleteError without torch, or if the
    driver itself is killed or hangs; UsageError if the archive lacks the capture. A capture in the
    cache needs no torch.
    """
    job = CaptureJob(package, toolchain, card, suite, ops, kernels)
    folder = capture_folder(job)
    name = folder.name
    if archive and archive.file:
        folder = archive.folder / name
        if not _report(folder).exists():
            raise UsageError(
                f"{archive.file} holds no capture of {package.identity} under "
                f"{toolchain.identity} on {card['gpu']}, made by this flacheck: give each shard "
                "the same releases and targets, or name a file that does not exist yet"
            )
    else:
        filling.keep(folder)
        prepare_captures([job])
    if archive and not archive.file:
        shutil.copytree(folder, archive.folder / name, ignore=_not_archived, dirs_exist_ok=True)
    return CaptureResult(_launches(folder), json.loads(_report(folder).read_text(encoding="utf-8")))


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
    # One job of each package and card comes first: the other releases may reuse its capture.
    first: list[tuple[Path, CaptureJob]] = []
    others: list[tuple[Path, CaptureJob]] = []
    kinds = set()
    for folder, job in missing.items():
        kind = _kind(job)
        if kind in kinds:
            others.append((folder, job))
        else:
            kinds.add(kind)
            first.append((folder, job))
    errors = []
    for stage in (first, others):
        for start in range(0, len(stage), at_once):
            try:
                _capture_together(stage[start : start + at_once])
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
    if job.ops or job.kernels:
        whole = capture_folder(job.whole)
        if _is_complete(whole):
            return whole
    key = capture_key(package, job.toolchain, job.card, recipe_of(package.name))
    if job.suite is not None:
        key = digest([key, "tests", checkouts.digest(job.suite)], 16)
    if job.ops or job.kernels:
        key = digest([key, job.ops, job.kernels], 16)
    return cache.root() / "captures" / f"{package.name}-{package.version}-{key}"


def _kind(job: CaptureJob) -> str:
    """Return a digest that is equal for a package and card under all releases of Triton.

    The installed libraries must be equal, too.
    """
    key = capture_key(job.package, None, job.card, recipe_of(job.package.name))
    return digest([key, job.suite is not None, job.ops, job.kernels, find_beside()], 16)


@functools.cache
def find_beside() -> list[str]:
    """Return this Python's version and its distributions, on which a package may depend.

    Triton's are left out: the package imports the release of its capture.
    """
    names: set[str] = set()
    for folder in map(Path, sys.path):
        if folder.is_dir():
            names.update(file.name for file in folder.glob("*.dist-info"))
    others = [name for name in names if not name.startswith(_TRITONS)]
    return [sys.version, *sorted(others)]


def _trace_file(folder: Path, kind: str) -> Path:
    """Return the file with a capture's queries to Triton; its name has the kind of the job."""
    return folder / f"asked-{kind}.json"


def earlier_captures(folder: Path, job: CaptureJob) -> list[Json]:
    """Return the captures under other releases that a job may reuse, the newest first."""
    if job.suite is not None:
        return []
    traces: list[Path] = []
    for kind in {_kind(job), _kind(job.whole)}:
        name = _trace_file(Path(), kind).name
        traces += folder.parent.glob(f"{job.package.name}-{job.package.version}-*/{name}")
    traces.sort(key=lambda trace: trace.stat().st_mtime, reverse=True)
    captures = []
    for trace in traces[:_MOST_EARLIER]:
        if _is_complete(trace.parent):
            launches = str(_launches(trace.parent))
            report = str(_report(trace.parent))
            captures.append({"asked": str(trace), "launches": launches, "report": report})
    return captures


def _launches(folder: Path) -> Path:
    return folder / "launches.jsonl"


def _report(folder: Path) -> Path:
    return folder / "report.json"


def _capture_together(jobs: Sequence[tuple[Path, CaptureJob]]) -> None:
    """Start these jobs and wait for all; captures that succeed stay if others fail."""
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
    with temporary_folder() as work:
        config = driver_config(Path(work), job)
        _try_reuse(config, folder, job, stop, what)
        if Path(config["report"]).exists():
            _log_reuse(config, what)
        else:
            _capture(config, folder, job, stop, what)
        if job.suite is not None:
            _add_tests(config, job, work, folder, stop)
        # The report marks a complete capture, so it comes last; each file appears in one step.
        files = [("output", _launches(folder)), ("report", _report(folder))]
        if job.suite is None and Path(config.get("asked", "")).is_file():
            files.insert(0, ("asked", _trace_file(folder, _kind(job))))
        for name, file in files:
            partial = folder / f"{file.name}.{os.getpid()}"
            shutil.copyfile(config[name], partial)
            partial.replace(file)


def _try_reuse(
    config: Json, folder: Path, job: CaptureJob, stop: threading.Event, what: str
) -> None:
    """Reuse a capture if this release answers every recorded query identically.

    The comparison takes a fraction of a capture's time, without torch and without the package.
    """
    earlier = earlier_captures(folder, job)
    if not earlier:
        return
    scratch = Path(config["output"]).parent
    doing = Path(config["progress"])

    def beat(seconds: float) -> None:
        _LOG.info(f"{what} … {seconds:.0f} s, {_doing(doing)}")

    request = {name: config[name] for name in ("output", "report", "asked", "card", "progress")}
    request |= {"earlier": earlier, "scratch": str(scratch)}
    # Without a report the package is captured anew, whatever the reason.
    programs.run(
        programs.guest_arguments(".capture_reuse.reuse", request, scratch),
        guest_environment(job.toolchain, job.package, scratch),
        scratch,
        folder / _REUSE_LOG,
        seconds=REUSE_PATIENCE * config["seconds"],
        memory_mb=_MEMORY_MB,
        policy=_policy(job, scratch),
        beat=beat,
        stop=stop,
    )


def _capture(config: Json, folder: Path, job: CaptureJob, stop: threading.Event, what: str) -> None:
    """Capture the package anew."""
    # Remove the results of the comparison.
    Path(config["output"]).write_text("", encoding="utf-8")
    Path(config["asked"]).unlink(missing_ok=True)
    scratch = Path(config["output"]).parent
    doing = Path(config["progress"])

    total = len(_launchable_kernels(job.package.path, job.package.modules))

    def beat(seconds: float) -> None:
        recorded = len(_recorded_kernels(Path(config["output"])))
        share = 100 * min(recorded, total) // max(total, 1)
        rest = durations.rounded(max(config["seconds"] - seconds, 1))
        _LOG.info(
            f"{what} … {seconds:.0f} s, {recorded} of {total} kernels, {share} %, at most about "
            f"{rest} left, {_doing(doing)}"
        )

    log = folder / _LOG_FILE
    end = programs.run(
        programs.guest_arguments(".search", config, scratch),
        guest_environment(job.toolchain, job.package, scratch),
        scratch,
        log,
        seconds=_PATIENCE * config["seconds"],
        memory_mb=_MEMORY_MB,
        policy=_policy(job, scratch),
        beat=beat,
        stop=stop,
    )
    if Path(config["report"]).exists():
        return
    sentence = f"{what} ended without a report while {_doing(doing)}: {end.how}"
    if stop.is_set() or not save_partial(config, f"all after {_doing(doing)}: {end.how}"):
        raise IncompleteError(f"{sentence}; its log is {log}: {_last_line(log)}")
    _LOG.warning(f"{sentence}; what it launched until then is kept")
    _ENDED_EARLY.add(folder)
    (folder / _EARLY).touch()


def _policy(job: CaptureJob, scratch: str | Path) -> Policy:
    """Return the rights of the package's code during its capture."""
    folders = [job.package.path, *policies.compiler_folders(job.toolchain.paths)]
    if job.suite is not None:
        folders.append(str(job.suite))
    return policies.of_package(folders, str(scratch))


def _log_reuse(config: Json, what: str) -> None:
    report = json.loads(Path(config["report"]).read_text(encoding="utf-8"))
    _LOG.info(
        f"{what}: Triton answers the package's queries as under {report['like']}, so its launches "
        "are the same"
    )


def save_partial(config: Json, cut: str) -> bool:
    """Write the report for a driver that ended without one; return False without a launch.

    All launches count as made up, because the log does not show which calls were completed.
    """
    output = Path(config["output"])
    lines = []
    for text in output.read_text(encoding="utf-8").splitlines():
        # The last line may be incomplete.
        with contextlib.suppress(ValueError):
            line = json.loads(text)
            if "kernel" in line:
                line["made_up"] = True
            lines.append(line)
    if not any("kernel" in line for line in lines):
        return False
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    output.write_text(text, encoding="utf-8")
    report = {"modules": {}, "operators": {}, "late": True, "cut": [cut], "said": []}
    Path(config["report"]).write_text(json.dumps(report), encoding="utf-8")
    return True


def _add_tests(
    config: Json, job: CaptureJob, scratch: str, folder: Path, stop: threading.Event
) -> None:
    """Run the checkout's tests, too, and merge their launches into the driver's files."""
    checkout = str(job.suite)
    request = {
        "card": config["card"],
        "package": config["package"],
        "packages": {**config["packages"], checkout: config["package"]},
        "checkout": checkout,
        "seconds": tests.TEST_SECONDS,
    }
    environment = guest_environment(job.toolchain, job.package, scratch)
    what = f"running the tests of {checkout} under {job.toolchain.identity}"
    policy = functools.partial(_policy, job)
    run = tests.run(request, environment, what, folder / "tests.txt", policy, stop)
    output = Path(config["output"])
    report_file = Path(config["report"])
    report = json.loads(report_file.read_text(encoding="utf-8"))
    report["tests"] = {**run.report, "kernels": tests.by_source(run, output)}
    output.write_text("".join(tests.merge_lines(run, output)), encoding="utf-8")
    report_file.write_text(json.dumps(report, indent=1), encoding="utf-8")


def _is_complete(folder: Path) -> bool:
    """Return True for a usable capture: a complete one, or a partial one of this process."""
    whole = not (folder / _EARLY).exists() or folder in _ENDED_EARLY
    return _report(folder).exists() and whole


def _doing(progress: Path) -> str:
    """Return the driver's present step."""
    with contextlib.suppress(OSError):
        return progress.read_text(encoding="utf-8", errors="replace")[:200] or "starting"
    return "starting"


def driver_config(scratch: Path, job: CaptureJob) -> Json:
    package = job.package
    return {
        "output": str(scratch / "launches.jsonl"),
        "report": str(scratch / "report.json"),
        "progress": str(scratch / "doing"),
        "asked": str(scratch / "asked.json"),
        "card": job.card,
        "modules": list(package.modules),
        "own": list(package.own_modules),
        "launchable": _launchable_kernels(package.path, package.modules),
        "package": package.identity,
        "packages": {package.path: package.identity},
        "recipe": recipe_of(package.name),
        "dtypes": ["bf16", "fp16", "fp32"],
        "seconds": _seconds(package),
        "ops": list(job.ops),
        "kernels": list(job.kernels),
    }


def _seconds(package: Package) -> float:
    """Return the CPU seconds for a package's capture."""
    return min(
        max(SECONDS, _SECONDS_A_KERNEL * len(_launchable_kernels(package.path, package.modules))),
        _MOST_SECONDS,
    )


@functools.cache
def _launchable_kernels(folder: str, modules: tuple[str, ...]) -> list[str]:
    """Return the kernels that modules in a folder launch."""
    kernels: set[str] = set()
    for module in modules:
        kernels.update(launchable(folder, module))
    return sorted(kernels)


def _recorded_kernels(launches: Path) -> set[str]:
    """Return the kernels in a file of launches that is being written."""
    with contextlib.suppress(OSError):
        return set(_KERNEL.findall(launches.read_text(encoding="utf-8", errors="replace")))
    return set()


def _not_archived(folder: str, names: list[str]) -> list[str]:
    """Return logs and incomplete files of other processes, which do not go into the archive."""
    return [name for name in names if name not in ("launches.jsonl", "report.json")]


def recipe_of(package: str) -> Json:
    """Return the recipe with a package's special settings; empty without one."""
    file = _FLACHECK / "packages" / "recipes" / f"{package}.yaml"
    if not file.is_file():
        return {}
    try:
        recipe = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UsageError(f"{file}: not valid YAML: {error}") from None
    if isinstance(recipe, dict):
        return recipe
    return {}


def capture_key(package: Package, toolchain: Toolchain | None, card: Json, recipe: Json) -> str:
    """Return a digest of everything that can change the launches, the guest's source included.

    Without a toolchain it is a digest of the rest.
    """
    guest = {}
    for file in sorted([*GUEST.rglob("*.py"), *GUEST.rglob("*.jsonl")]):
        guest[str(file.relative_to(GUEST))] = file.read_text()
    under = toolchain.identity if toolchain else None
    return digest([package.digest, under, card, recipe, guest], 16)


def run_guest(
    module: str,
    config: Json,
    environment: Mapping[str, str],
    folder: Path,
    seconds: float,
    policy: Policy | None,
    what: str = "",
) -> None:
    """Run `main` of one of the guest's modules with a config in a scratch folder.

    `what` is the work in messages about progress. The module writes the `report` of the config,
    and limits its own CPU seconds. Raises IncompleteError without torch, or if the guest is killed
    or hangs.
    """
    _check_torch()
    log = folder / _LOG_FILE

    def beat(elapsed: float) -> None:
        share = min(100 * elapsed / seconds, 100)
        rest = durations.rounded(max(seconds - elapsed, 1))
        kernels = len(_recorded_kernels(Path(config["output"])))
        _LOG.info(
            f"{what} … {elapsed:.0f} s, {kernels} kernels launched, {share:.0f} % of its time, "
            f"at most about {rest} left"
        )

    end = programs.run(
        programs.guest_arguments(module, config, folder),
        environment,
        folder,
        log,
        seconds=_PATIENCE * seconds,
        memory_mb=_MEMORY_MB,
        policy=policy,
        beat=beat,
    )
    if not Path(config["report"]).exists():
        raise IncompleteError(
            f"the target's process ended without a report: {end.how}; {_last_line(log)}"
        )


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
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
