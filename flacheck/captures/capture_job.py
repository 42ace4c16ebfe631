"""Drives a whole package on a card that is not there, beside one compiler, and keeps what it
launched.

A capture is kept in the cache: the same package, compiler, card and driver launch the same.
"""

import contextlib
import functools
import importlib.util
import json
import logging
import os
import shutil
import site
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flacheck.captures import tests
from flacheck.captures.capture_archive import Captures
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

# Of work, which the driver counts by itself: for a package, and for each kernel that it launches
# where that comes to more, up to a bound. A driver that hangs where no signal reaches it is killed
# after so many times as long by the clock.
SECONDS = 55
_SECONDS_A_KERNEL = 0.55
_MOST_SECONDS = 300
_PATIENCE = 15
_LOG_FILE = "log.txt"
# What is said of captures under other releases, and how many times as long as the package is worth
# comparing them may take by the clock.
_TAKING_OVER = "earlier.txt"
_COMPARING_PATIENCE = 2.0
# What the driver and all that it starts may hold; torch alone reserves far more than that.
_MEMORY_MB = 8192
_FLACHECK = Path(__file__).parent.parent
GUEST = Path(channel.GUEST)
# Captures of this process whose driver ended early: the next process makes them anew.
_ENDED_EARLY: set[Path] = set()
_EARLY = "ended-early"
# Captures under other releases that are compared: each takes little time, but hundreds may lie in
# the cache.
_MOST_EARLIER = 4
_TRITONS = ("triton-", "pytorch_triton")


@dataclass(frozen=True)
class CaptureResult:
    """One drive: the launches file, and the driver's report of what it called and what failed."""

    launches: Path
    report: Mapping[str, Any]

    @property
    def import_error(self) -> str | None:
        """The traceback of a package that could not even be imported."""
        failed = self.report.get("import_error")
        if failed is None:
            return None
        return str(failed["traceback"])

    @property
    def kernels(self) -> Counter[str]:
        """How many distinct launches of each kernel were recorded."""
        with self.launches.open(encoding="utf-8") as file:
            lines = (json.loads(line) for line in file)
            return Counter(line["kernel"] for line in lines if "kernel" in line)


@dataclass(frozen=True)
class CaptureJob:
    """A package to drive under a compiler on a card."""

    package: Package
    toolchain: Toolchain
    card: Json
    # The checkout whose own tests are to run as well.
    suite: Path | None = None


def capture_package(
    package: Package,
    toolchain: Toolchain,
    card: Json,
    travelling: Captures | None = None,
    suite: Path | None = None,
) -> CaptureResult:
    """Call all of a package's operators, layers and modules once more, or find that this was done
    before. Captures that came with a file are all that is used; those that are still to travel are
    copied there.

    Raises IncompleteError without torch, or when the driver itself is killed or hangs; UsageError
    when the file that came holds no such capture.
    """
    _check_torch()
    asked = CaptureJob(package, toolchain, card, suite)
    folder = _folder(asked)
    name = folder.name
    if travelling and travelling.file:
        folder = travelling.folder / name
        if not _report(folder).exists():
            raise UsageError(
                f"{travelling.file} holds no capture of {package.identity} under "
                f"{toolchain.identity} on {card['gpu']}, made by this flacheck: give each shard "
                "the same releases and targets, or name a file that does not exist yet"
            )
    else:
        prepare_captures([asked])
    if travelling and not travelling.file:
        shutil.copytree(
            folder, travelling.folder / name, ignore=_not_travelling, dirs_exist_ok=True
        )
    return CaptureResult(_launches(folder), json.loads(_report(folder).read_text(encoding="utf-8")))


def prepare_captures(drives: Sequence[CaptureJob], at_once: int = 1) -> None:
    """Make the captures that are not in the cache yet, so many at a time.

    Raises IncompleteError without torch, or when a driver itself is killed or hangs.
    """
    _check_torch()
    missing = {_folder(each): each for each in drives if not _is_made(_folder(each))}
    # One of each package and card comes first: what it made may hold under the other releases.
    first: dict[str, Path] = {}
    for folder, each in missing.items():
        first.setdefault(_kin(each), folder)
    begun = set(first.values())
    earlier = [(folder, each) for folder, each in missing.items() if folder in begun]
    later = [(folder, each) for folder, each in missing.items() if folder not in begun]
    errors = []
    for waiting in (earlier, later):
        for place in range(0, len(waiting), at_once):
            try:
                _drive_together(waiting[place : place + at_once])
            except IncompleteError as error:
                # The others are made and kept all the same.
                errors.append(error)
    if errors:
        raise errors[0]


def _check_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise IncompleteError(
            f"capturing a package needs torch in flacheck's environment: {INSTALL_TORCH}"
        )


def _folder(job: CaptureJob) -> Path:
    package = job.package
    key = _key(package, job.toolchain, job.card, recipe_of(package.name))
    if job.suite is not None:
        key = digest([key, "tests", checkouts.digest(job.suite)], 16)
    return cache.root() / "captures" / f"{package.name}-{package.version}-{key}"


def _kin(job: CaptureJob) -> str:
    """The same for the drives of one package on one card under any release, beside the same
    libraries."""
    key = _key(job.package, None, job.card, recipe_of(job.package.name))
    return digest([key, job.suite is not None, _beside()], 16)


@functools.cache
def _beside() -> list[str]:
    """This Python and what is installed for it: a package may look at each of them. Of Triton it
    sees the release that it is captured under."""
    folders = [Path(place) for place in sys.path if Path(place).is_dir()]
    installed = {file.name for folder in folders for file in folder.glob("*.dist-info")}
    return [sys.version, *sorted(name for name in installed if not name.startswith(_TRITONS))]


def _asked(folder: Path, kin: str) -> Path:
    """What the package asked of Triton in a capture; its name says for which others it may hold."""
    return folder / f"asked-{kin}.json"


def _earlier(folder: Path, job: CaptureJob) -> list[Json]:
    """The captures under other releases that may hold for a drive, the newest first."""
    if job.suite is not None:
        return []
    kin = _kin(job)
    mine = f"{job.package.name}-{job.package.version}-*"
    there = list(folder.parent.glob(f"{mine}/{_asked(Path(), kin).name}"))
    there.sort(key=lambda each: each.stat().st_mtime, reverse=True)
    return [
        {
            "asked": str(each),
            "launches": str(_launches(each.parent)),
            "report": str(_report(each.parent)),
        }
        for each in there[:_MOST_EARLIER]
        if _is_made(each.parent)
    ]


def _launches(folder: Path) -> Path:
    return folder / "launches.jsonl"


def _report(folder: Path) -> Path:
    return folder / "report.json"


def _drive_together(drives: Sequence[tuple[Path, CaptureJob]]) -> None:
    """Start these drives and wait for all of them; all that ended well is kept, whatever became of
    the others."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(drives)) as pool:
        try:
            started = [pool.submit(_made, folder, each, stop) for folder, each in drives]
            wait(started)
        finally:
            # When we are interrupted, the drivers end before the pool waits for its threads.
            stop.set()
    for each in started:
        each.result()


def _made(folder: Path, job: CaptureJob, stop: threading.Event) -> None:
    # Two scans at once make one capture: the second waits, and finds it.
    with filling.hold_lock(folder):
        if not _is_made(folder):
            _make(folder, job, stop)


def _make(folder: Path, job: CaptureJob, stop: threading.Event) -> None:
    """Have the driver fill the folder, whose lock is held: all of it, or nothing new."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _EARLY).unlink(missing_ok=True)
    identity, gpu = job.package.identity, job.card["gpu"]
    what = f"capturing {identity} under {job.toolchain.identity} on {gpu}"
    _LOG.info(f"{what} …")
    with temporary_folder() as work:
        config = _config(Path(work), job)
        _take_over(config, folder, job, stop)
        if Path(config["report"]).exists():
            _say_like(config, what)
        else:
            _drive(config, folder, job, stop, what)
        if job.suite is not None:
            _add_tests(config, job, work, folder, stop)
        # A report stands for a finished drive: it comes to its name last, and both in one step.
        finals = [("output", _launches(folder)), ("report", _report(folder))]
        if job.suite is None and Path(config.get("asked", "")).is_file():
            finals.insert(0, ("asked", _asked(folder, _kin(job))))
        for made, final in finals:
            partial = folder / f"{final.name}.{os.getpid()}"
            shutil.copyfile(config[made], partial)
            partial.replace(final)


def _take_over(config: Json, folder: Path, job: CaptureJob, stop: threading.Event) -> None:
    """Write what a capture under another release holds, where that holds here, too; whether it does
    is seen without torch and without the package, in a fraction of a capture's time."""
    earlier = _earlier(folder, job)
    if not earlier:
        return
    scratch = Path(config["output"]).parent
    asked = {name: config[name] for name in ("output", "report", "asked", "card")}
    asked |= {"earlier": earlier, "scratch": str(scratch)}
    # However this ends, without a report the package is captured anew.
    programs.run(
        ["-c", channel.BOOT, str(GUEST), ".capture_reuse.reuse", json.dumps(asked)],
        guest_environment(job.toolchain, job.package, scratch),
        scratch,
        folder / _TAKING_OVER,
        seconds=_COMPARING_PATIENCE * config["seconds"],
        memory_mb=_MEMORY_MB,
        policy=_policy(job, scratch),
        stop=stop,
    )


def _drive(config: Json, folder: Path, job: CaptureJob, stop: threading.Event, what: str) -> None:
    """Capture the package anew."""
    # Nothing of what came before is left in it.
    Path(config["output"]).write_text("", encoding="utf-8")
    Path(config["asked"]).unlink(missing_ok=True)
    scratch = Path(config["output"]).parent
    doing = Path(config["progress"])

    def beat(seconds: float) -> None:
        _LOG.info(f"{what} … {seconds:.0f} s, {_doing(doing)}")

    log = folder / _LOG_FILE
    ended = programs.run(
        ["-c", channel.BOOT, str(GUEST), ".search", json.dumps(config)],
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
    said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    sentence = f"{what} ended without a report while {_doing(doing)}: {ended.how}"
    if stop.is_set() or not _kept(config, f"all after {_doing(doing)}: {ended.how}"):
        raise IncompleteError(f"{sentence}; its log is {log}: " + "".join(said[-1:])[:500])
    _LOG.warning(f"{sentence}; what it launched until then is kept")
    _ENDED_EARLY.add(folder)
    (folder / _EARLY).touch()


def _policy(job: CaptureJob, scratch: str | Path) -> Policy:
    """What the package's code may do while it is captured."""
    folders = [job.package.path, *policies.compiler_folders(job.toolchain.paths)]
    if job.suite is not None:
        folders.append(str(job.suite))
    return policies.of_package(folders, str(scratch))


def _say_like(config: Json, what: str) -> None:
    report = json.loads(Path(config["report"]).read_text(encoding="utf-8"))
    _LOG.info(
        f"{what}: all that the package asks of Triton is as under {report['like']}, and so are "
        "its launches"
    )


def _kept(config: Json, cut: str) -> bool:
    """Make a report for a driver that ended without one, when it has launched something; all of it
    counts as made up, for nobody has told which calls came to their end."""
    output = Path(config["output"])
    lines = []
    for text in output.read_text(encoding="utf-8").splitlines():
        # The last line may be half written.
        with contextlib.suppress(ValueError):
            line = json.loads(text)
            if "kernel" in line:
                line["made_up"] = True
            lines.append(line)
    if not any("kernel" in line for line in lines):
        return False
    output.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    report = {"modules": {}, "operators": {}, "late": True, "cut": [cut], "said": []}
    Path(config["report"]).write_text(json.dumps(report), encoding="utf-8")
    return True


def _add_tests(
    config: Json, job: CaptureJob, scratch: str, folder: Path, stop: threading.Event
) -> None:
    """Run the checkout's tests, too: into the driver's files goes what both launched."""
    checkout = str(job.suite)
    asked = {name: config[name] for name in ("card", "package")}
    asked |= {
        "packages": {**config["packages"], checkout: config["package"]},
        "checkout": checkout,
        "seconds": tests.TEST_SECONDS,
    }
    environment = guest_environment(job.toolchain, job.package, scratch)
    what = f"running the tests of {checkout} under {job.toolchain.identity}"
    policy = functools.partial(_policy, job)
    made = tests.run(asked, environment, what, folder / "tests.txt", policy, stop)
    output, report = Path(config["output"]), Path(config["report"])
    said = json.loads(report.read_text(encoding="utf-8"))
    said["tests"] = {**made.report, "kernels": tests.by_source(made, output)}
    output.write_text("".join(tests.merge_lines(made, output)), encoding="utf-8")
    report.write_text(json.dumps(said, indent=1), encoding="utf-8")


def _is_made(folder: Path) -> bool:
    """Whether there is a capture to use: a whole one, or what this process saved of one."""
    whole = not (folder / _EARLY).exists() or folder in _ENDED_EARLY
    return _report(folder).exists() and whole


def _doing(progress: Path) -> str:
    """What the driver says that it is about."""
    with contextlib.suppress(OSError):
        return progress.read_text(encoding="utf-8", errors="replace")[:200] or "starting"
    return "starting"


def _config(scratch: Path, job: CaptureJob) -> Json:
    package = job.package
    return {
        "output": str(scratch / "launches.jsonl"),
        "report": str(scratch / "report.json"),
        "progress": str(scratch / "doing"),
        "asked": str(scratch / "asked.json"),
        "card": job.card,
        "modules": list(package.modules),
        "own": list(package.own_modules),
        "package": package.identity,
        "packages": {package.path: package.identity},
        "recipe": recipe_of(package.name),
        "dtypes": ["bf16", "fp16", "fp32"],
        "seconds": _seconds(package),
    }


def _seconds(package: Package) -> float:
    """The work that a package is worth."""
    kernels = sum(len(launchable(package.path, module)) for module in package.modules)
    return min(max(SECONDS, _SECONDS_A_KERNEL * kernels), _MOST_SECONDS)


def _not_travelling(folder: str, names: list[str]) -> list[str]:
    """Logs, and what another process has half written, stay here."""
    return [name for name in names if name not in ("launches.jsonl", "report.json")]


def recipe_of(package: str) -> Json:
    """What is special to a package, where somebody wrote it down; else nothing."""
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


def _key(package: Package, toolchain: Toolchain | None, card: Json, recipe: Json) -> str:
    """All that can change what is launched, the guest's own source included; without a toolchain
    all that does not depend on it."""
    files = sorted([*GUEST.rglob("*.py"), *GUEST.rglob("*.jsonl")])
    guest = {str(file.relative_to(GUEST)): file.read_text() for file in files}
    under = toolchain.identity if toolchain else None
    return digest([package.digest, under, card, recipe, guest], 16)


def run_guest(
    module: str,
    config: Json,
    environment: Mapping[str, str],
    folder: Path,
    seconds: float,
    policy: Policy | None,
) -> None:
    """Run `main` of one of the guest's modules in a scratch folder: it is given the config, writes
    the `report` that this names, and keeps to so many seconds of CPU by itself.

    Raises IncompleteError without torch, or when the guest is killed or hangs.
    """
    _check_torch()
    log = folder / _LOG_FILE
    ended = programs.run(
        ["-c", channel.BOOT, str(GUEST), module, json.dumps(config)],
        environment,
        folder,
        log,
        seconds=_PATIENCE * seconds,
        memory_mb=_MEMORY_MB,
        policy=policy,
    )
    if not Path(config["report"]).exists():
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last = "".join(said[-1:])[:500]
        raise IncompleteError(f"the target's process ended without a report: {ended.how}; {last}")


def guest_environment(
    toolchain: Toolchain, package: Package | None, scratch: str | Path
) -> dict[str, str]:
    """What a worker has, beside the packages' folders: of the user's own variables none, where this
    Python finds what the user installed."""
    beside = [*toolchain.paths]
    if package is not None:
        beside.append(package.path)
    beside += filter(None, [torch_folder()])
    ours = {
        "PYTHONPATH": os.pathsep.join(beside),
        "PYTHONUSERBASE": site.getuserbase(),
        "TORCHDYNAMO_DISABLE": "1",
        # Where no entry of the system's names the user, torch asks the environment.
        "USER": "flacheck",
        "TRITON_CACHE_DIR": f"{scratch}/triton",
    }
    return programs.environment(scratch, {**toolchain.environment, **ours})
